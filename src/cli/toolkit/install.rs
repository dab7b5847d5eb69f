//! `gpubuild toolkit install`: installs a toolkit from wheels or archives, or from the packages of the distribution.

use gpubuild_core::shell::word;
use gpubuild_core::version::Version;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;
use gpubuild_exec::exec::{BuildEvent, InstalledTools};
use gpubuild_exec::python::WheelAccess;
use gpubuild_host::{Host, HostInfo};
use gpubuild_plan::offer::for_target;
use gpubuild_plan::plan::provision::ReleaseChoice;
use gpubuild_plan::target::Target;
use gpubuild_plan::wheels::{TargetWheels, WheelLock};
use gpubuild_toolchain::provision::{self, InstallChange, InstallRequest, InstalledToolkit, ProvisionError};

use super::archives::{ArchiveClient, archive_place};
use super::choose::{RequestedRelease, choose};
use super::{ToolkitSpec, ToolkitTarget, failure, packages};
use crate::cli::build::NetworkArguments;
use crate::cli::events::{Events, MessageFormat};
use crate::cli::machine::{self, HostArguments, MachineState};
use crate::cli::provision::folders;
use crate::cli::{CommandContext, Exit, Failure, absolute, sources};
use crate::report;

/// Arguments of `toolkit install`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitInstallArguments {
    /// Toolkit and release: `cuda`, `cuda@13.0`, `vulkan`
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    pub(super) spec: ToolkitSpec,
    #[command(flatten)]
    target: ToolkitTarget,
    /// Components to add: `cublas` (CUDA), `hipblas` (ROCm)
    #[arg(long, value_delimiter = ',', value_name = "COMPONENTS")]
    pub(super) with: Vec<String>,
    /// Folder with wheels, archives or packages; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(super) find_links: Vec<String>,
    /// Folder or URL of a mirror of NVIDIA's archives (CUDA 12)
    #[arg(long, value_name = "DIR|URL")]
    from: Option<String>,
    /// CUDA architectures that the release must support: `80,90a` [default: CUDAARCHS, else gpubuild.toml,
    /// else this machine's GPUs]
    #[arg(long, value_name = "LIST")]
    cuda_archs: Option<String>,
    /// Install the wheels or archives in this lock file instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    lock: Option<String>,
    #[command(flatten)]
    pub(super) network: NetworkArguments,
    /// Print what would be downloaded and installed where, without doing it
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With `--dry-run`: use a recorded machine instead of this one
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    host: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Installs the toolkit, or with `--dry-run` prints the preview.
pub(super) fn run(
    arguments: &ToolkitInstallArguments,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    machine::check_overrides(context.host)?;
    let host_arguments = HostArguments { host: arguments.host.clone(), toolkits: None };
    let recorded = host_arguments.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let machine = machine::inspect(host, host_arguments.catalogue(context)?);
    let target = arguments.target.get()?;
    let target = target.target().map(|target| wheels(&machine, &arguments.spec, target)).transpose()?;
    if arguments.lock.is_none() && gpubuild_plan::packages::set_of(&arguments.spec.toolkit).is_some() {
        if arguments.from.is_some() {
            return Err(from_conflict(&arguments.spec.toolkit));
        }
        return packages::run(arguments, context, host, &machine, target);
    }
    let (mut request, choice) = request(arguments, context, host, &machine, target)?;
    let has_archives = request.lock.as_ref().is_none_or(WheelLock::has_archives);
    if arguments.from.is_some() && !has_archives {
        return Err(from_conflict(&arguments.spec.toolkit));
    }
    let (folder, mirror) = archive_place(arguments.from.as_deref(), context)?;
    request.find_links.extend(folder);
    let to_failure = |error: ProvisionError| explained(failure(&error), &arguments.spec.toolkit, &machine);
    if arguments.dry_run {
        let preview = provision::preview(host, &machine.facts, &request).map_err(to_failure)?;
        return show_preview(arguments, context, &preview, choice.as_ref());
    }
    for line in choice.iter().flat_map(ReleaseChoice::lines) {
        context.printer.status(&format!("{} {line}", request.toolkit));
    }
    let events = Events::new(context.printer, MessageFormat::Human);
    let sink = |event: &BuildEvent| events.show(event);
    let network = arguments.network.network(host);
    let archives = ArchiveClient::new(context, network, mirror);
    let (tools, direct) =
        (InstalledTools::of(&machine.inventory), sources::wheels(context, &machine.facts, network));
    let access = WheelAccess { tools: &tools, network, index: None, direct: Some(&direct) };
    let result = provision::install(host, &machine.facts, &request, access, &archives, &sink);
    drop(events);
    finish(arguments, context, &result.map_err(to_failure)?, choice.as_ref())
}

/// The failure of `--from` for a toolkit that is not installed from archives.
fn from_conflict(toolkit: &str) -> Failure {
    let message = format!(
        "`--from` is for archives of CUDA 12, but this {toolkit} is installed from packages or wheels"
    );
    Failure::usage(id!("usage.conflict"), message).hint("name a folder that has them with `--find-links`")
}

/// Prints the result of an installation.
pub(super) fn finish(
    arguments: &ToolkitInstallArguments,
    context: &CommandContext<'_>,
    installed: &InstalledToolkit,
    choice: Option<&ReleaseChoice>,
) -> Result<Exit, Failure> {
    for note in &installed.notes {
        context.printer.warning(note);
    }
    if arguments.json {
        context.printer.json(&report::toolkit::Install::new(installed, choice))?;
        return Ok(Exit::Done);
    }
    let (label, record) = (installed.installation.label(), &installed.installation.record);
    let done = match installed.change {
        InstallChange::Unchanged => "is already installed:",
        InstallChange::Installed => "is installed:",
    };
    context.printer.status(&format!("{label} {done} {}", installed.installation.root));
    let option = record.target.as_ref().map(|target| format!(" --target {target}")).unwrap_or_default();
    context.printer.hint(&format!(
        "`gpubuild build --backends {0}{option}` finds it; for other programs, run `gpubuild toolkit env {0}{option}`",
        record.toolkit
    ));
    Ok(Exit::Done)
}

fn request(
    arguments: &ToolkitInstallArguments,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
    machine: &MachineState,
    target: Option<TargetWheels>,
) -> Result<(InstallRequest, Option<ReleaseChoice>), Failure> {
    let find_links = folders(context, &arguments.find_links)?;
    let spec = &arguments.spec;
    let own = arguments.lock.as_ref().map(|file| read_lock(context, file, spec)).transpose()?;
    let (lock, choice) = if own.is_some() {
        (own, None)
    } else {
        let requested = RequestedRelease {
            toolkit: &spec.toolkit,
            release: spec.release.as_ref().map(Version::as_str),
            cuda_archs: arguments.cuda_archs.as_deref(),
            is_for_target: target.is_some(),
        };
        choose(&requested, context, host, machine)?.map(|(choice, lock)| (lock, choice)).unzip()
    };
    // Without a lock, gpubuild offers no release of the toolkit, so the installation fails with an error in any case.
    let named = || spec.release.clone().unwrap_or_else(|| "0".parse().expect("a number is a version"));
    let release = lock.as_ref().map_or_else(named, |lock| lock.release.clone());
    let (toolkit, with) = (spec.toolkit.clone(), arguments.with.clone());
    Ok((InstallRequest { toolkit, release, with, find_links, lock, target }, choice))
}

/// The wheels of a toolkit for a target.
fn wheels(machine: &MachineState, spec: &ToolkitSpec, target: &Target) -> Result<TargetWheels, Failure> {
    let description = machine.catalogue.get(&spec.toolkit);
    description.and_then(|description| for_target::wheels(description, target)).ok_or_else(|| {
        let of = |description: &Description| {
            let targets = &description.cross.as_ref()?.targets;
            (!targets.is_empty()).then(|| format!("{} for {}", description.id, targets.join(", ")))
        };
        let offered: Vec<String> = machine.catalogue.iter().filter_map(of).collect();
        let why = description.and_then(|one| one.cross.as_ref()?.why.as_ref());
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let message = format!("gpubuild has no {} for {}{why}", spec.toolkit, target.triple);
        Failure::usage(id!("cross.toolkit-unsupported"), message)
            .hint(format!("gpubuild can install {}", offered.join("; ")))
    })
}

fn read_lock(context: &CommandContext<'_>, file: &str, spec: &ToolkitSpec) -> Result<WheelLock, Failure> {
    let path = absolute(context, file)?;
    let broken = |what: String| Failure::usage(id!("toolkit.lock-broken"), what);
    let text = context
        .host
        .read_text(&path)
        .map_err(|error| broken(format!("failed to read the lock file `{path}`: {error}")))?;
    let lock =
        WheelLock::parse(&text).map_err(|error| broken(format!("`{path}` is not a lock file\n{error}")))?;
    let other_release = spec.release.as_ref().is_some_and(|release| *release != lock.release);
    if lock.toolkit != spec.toolkit || other_release {
        let message = format!("`{path}` is the lock of {} {}", lock.toolkit, lock.release);
        return Err(Failure::usage(id!("toolkit.lock-other"), message).hint(format!(
            "run `gpubuild toolkit install {}@{} --lock {}`",
            lock.toolkit,
            lock.release,
            word(file, "FILE")
        )));
    }
    Ok(lock)
}

/// Names the command that explains a backend whose toolkit gpubuild does not install.
fn explained(failure: Failure, asked: &str, machine: &MachineState) -> Failure {
    let is_asked = |one: &&Description| {
        one.id == asked || one.backends.iter().any(|backend| backend.to_string() == asked)
    };
    let known = machine.catalogue.iter().filter(|one| !one.backends.is_empty()).find(is_asked);
    match known.and_then(|one| one.backends.first()) {
        Some(backend) if failure.id == "toolkit.unknown" => {
            failure.hint(format!("`gpubuild explain {backend}` says how to install it"))
        }
        _ => failure,
    }
}

fn show_preview(
    arguments: &ToolkitInstallArguments,
    context: &CommandContext<'_>,
    preview: &provision::Preview,
    choice: Option<&ReleaseChoice>,
) -> Result<Exit, Failure> {
    let document = report::toolkit::DryRun::new(preview, choice);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}
