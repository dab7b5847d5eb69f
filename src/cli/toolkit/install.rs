//! `gpubuild toolkit install`.

use gpubuild_core::version::Version;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_exec::exec::{Event, Tools};
use gpubuild_host::Host;
use gpubuild_plan::plan::provision::Choice;
use gpubuild_plan::wheels::Lock;
use gpubuild_toolchain::provision::{self, Change, InstallRequest, ProvisionError};

use super::choose::{Asked, choose};
use super::{Wanted, failure};
use crate::cli::build::NetworkArguments;
use crate::cli::events::{Events, MessageFormat};
use crate::cli::look::{self, HostArguments, Sight};
use crate::cli::provision::folders;
use crate::cli::{Context, Exit, Failure, absolute};
use crate::report;

/// Arguments of `toolkit install`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What, and which release: `cuda`, `cuda@13.0`
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    wanted: Wanted,
    /// Components to add: `cublas`
    #[arg(long, value_delimiter = ',', value_name = "COMPONENTS")]
    with: Vec<String>,
    /// Folder that holds wheels; may be given several times
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Architectures for CUDA that the release has to know: `80,90a` [default: CUDAARCHS, else gpubuild.toml, else those
    /// of the cards here]
    #[arg(long, value_name = "LIST")]
    cuda_archs: Option<String>,
    /// Take the wheels that this file names instead of those that gpubuild knows
    #[arg(long, value_name = "FILE")]
    lock: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Say what would be downloaded and where it would go, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// With `--dry-run`: on a recorded machine instead of this one
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    host: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Installs, or says what it would do.
pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    look::check_overrides(context.host)?;
    let host_arguments = HostArguments { host: arguments.host.clone(), toolkits: None };
    let recorded = host_arguments.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let sight = look::look(host, host_arguments.catalogue(context)?);
    let (request, choice) = request(arguments, context, host, &sight)?;
    let told = |error: ProvisionError| failure(&with_command(error, &sight));
    if arguments.dry_run {
        let preview = provision::preview(host, &sight.facts, &request).map_err(told)?;
        return show_preview(arguments, context, &preview, choice.as_ref());
    }
    for line in choice.iter().flat_map(Choice::lines) {
        context.printer.say(&format!("{} {line}", request.toolkit));
    }
    let events = Events::new(context.printer, MessageFormat::Human);
    let sink = |event: &Event| events.show(event);
    let network = arguments.network.network(host);
    let result =
        provision::install(host, &sight.facts, &request, &Tools::of(&sight.inventory), network, &sink);
    drop(events);
    let installed = result.map_err(told)?;
    for note in &installed.notes {
        context.printer.warning(note);
    }
    if arguments.json {
        context.printer.json(&report::toolkit::Install::new(&installed, choice.as_ref()))?;
        return Ok(Exit::Done);
    }
    let label = installed.installation.label();
    let done = match installed.change {
        Change::Unchanged => "is installed already:",
        Change::Installed => "is installed:",
    };
    context.printer.say(&format!("{label} {done} {}", installed.installation.root));
    context.printer.hint(&format!(
        "`gpubuild build --backends {0}` finds it; for other programs: `gpubuild toolkit env {0}`",
        request.toolkit
    ));
    Ok(Exit::Done)
}

fn request(
    arguments: &Arguments,
    context: &Context<'_>,
    host: &dyn Host,
    sight: &Sight,
) -> Result<(InstallRequest, Option<Choice>), Failure> {
    let find_links = folders(context, &arguments.find_links)?;
    let wanted = &arguments.wanted;
    let own = arguments.lock.as_ref().map(|file| read_lock(context, file, wanted)).transpose()?;
    let (lock, choice) = if own.is_some() {
        (own, None)
    } else {
        let asked = Asked {
            toolkit: &wanted.toolkit,
            release: wanted.release.as_ref().map(Version::as_str),
            cuda_archs: arguments.cuda_archs.as_deref(),
        };
        choose(&asked, context, host, sight)?.map(|(choice, lock)| (lock, choice)).unzip()
    };
    // Of a toolkit that is not offered no release is, either.
    let named = || wanted.release.clone().unwrap_or_else(|| "0".parse().expect("a number is a version"));
    let release = lock.as_ref().map_or_else(named, |lock| lock.release.clone());
    let (toolkit, with) = (wanted.toolkit.clone(), arguments.with.clone());
    Ok((InstallRequest { toolkit, release, with, find_links, lock }, choice))
}

fn read_lock(context: &Context<'_>, file: &str, wanted: &Wanted) -> Result<Lock, Failure> {
    let path = absolute(context, file)?;
    let text = context.host.read_text(&path)?;
    let lock = Lock::parse(&text)
        .map_err(|error| Failure::usage("toolkit.lock-broken", format!("`{path}` is no lock\n{error}")))?;
    let other_release = wanted.release.as_ref().is_some_and(|release| *release != lock.release);
    if lock.toolkit != wanted.toolkit || other_release {
        let message = format!("`{path}` locks {} {}", lock.toolkit, lock.release);
        return Err(Failure::usage("toolkit.lock-other", message).hint(format!(
            "write `gpubuild toolkit install {}@{} --lock {file}`",
            lock.toolkit, lock.release
        )));
    }
    Ok(lock)
}

/// A toolkit that is in no wheels: what installs it on this system.
fn with_command(error: ProvisionError, sight: &Sight) -> ProvisionError {
    match error {
        ProvisionError::Elsewhere { toolkit, why, .. } => {
            let description = sight.catalogue.get(&toolkit);
            let command = description.and_then(|one| for_distribution(&sight.facts, &one.install)).cloned();
            ProvisionError::Elsewhere { toolkit, why, command }
        }
        other => other,
    }
}

fn show_preview(
    arguments: &Arguments,
    context: &Context<'_>,
    preview: &provision::Preview,
    choice: Option<&Choice>,
) -> Result<Exit, Failure> {
    let document = report::toolkit::DryRun::new(preview, choice);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&document.text())?;
    }
    Ok(Exit::Done)
}
