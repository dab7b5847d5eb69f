//! `gpubuild install`: puts the variant of a release that is for this machine into a folder, and proves that it works.

use std::time::Duration;

use gpubuild_host::{Host, HostPath, Os};
use gpubuild_plan::plan::bytes;
use gpubuild_release::install::{
    self, Done, Event, InstallError, Installed, MayFall, Order, Starting, Version, state,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::release::{Release, ReleaseArguments, Signed, of_nothing, of_source};
use super::{Context, Exit, Failure, Printer, absolute};
use crate::report::install::{Document, ListDocument};

/// Arguments of `install`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder of a release, its manifest.json, the address of either, or `oci://HOST/NAME:TAG`
    #[arg(long, value_name = "PLACE", required_unless_present_any = ["rollback", "list"])]
    manifest: Option<String>,
    /// The folder to install into [default: the user's data folder, gpubuild/NAME]
    #[arg(long, value_name = "DIR")]
    to: Option<String>,
    /// Believe whoever serves it: no key has to have signed what comes from elsewhere
    #[arg(long)]
    unsigned: bool,
    /// How long its check may take
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    start_timeout: u64,
    /// Do not start what was installed
    #[arg(long)]
    no_start: bool,
    /// Go back to the version before
    #[arg(long, conflicts_with = "manifest")]
    rollback: bool,
    /// Show what is installed
    #[arg(long, conflicts_with_all = ["manifest", "rollback"])]
    list: bool,
    #[command(flatten)]
    release: ReleaseArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Installs.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    if arguments.list {
        return list(arguments, context);
    }
    if arguments.rollback {
        return rollback(arguments, context);
    }
    let Some(manifest) = &arguments.manifest else {
        return Err(Failure::usage("usage.no-manifest", "`--manifest` is missing"));
    };
    let signed = if arguments.unsigned { Signed::AsAsked } else { Signed::Required };
    let release = arguments.release.open(manifest, signed, context)?;
    let to = folder(arguments, Some(&release.manifest.name), context)?;
    can_start(arguments, &release, context)?;
    let progress = Progress::new(context.printer);
    let order = Order {
        host: context.host,
        to: &to,
        question: release.question(),
        fallback: if arguments.release.strict { MayFall::Never } else { MayFall::Loudly },
        start: starting(arguments),
        take: &|layer| {
            let taken = release.source.layer(&release.client, layer, &|count| progress.add(count))?;
            progress.add(layer.size.saturating_sub(taken.fetched));
            Ok(taken)
        },
        sink: &|event| {
            progress.follow(event);
            tell(event, context);
        },
    };
    let done = install::install(&order);
    progress.end();
    let done = done.map_err(|error| failure(&error))?;
    answer(arguments, &release, &to, &done, context)?;
    Ok(Exit::Done)
}

/// A bar on a terminal; nothing elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(printer: &Printer) -> Self {
        Self { bar: printer.shows_progress().then(ProgressBar::hidden) }
    }

    fn follow(&self, event: &Event<'_>) {
        let Some(bar) = &self.bar else { return };
        match event {
            Event::Chosen(choice, size) => {
                let style = ProgressStyle::with_template(
                    "{prefix:>16} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
                );
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
                bar.set_length(*size);
                bar.set_position(0);
                bar.set_prefix(choice.label.clone());
            }
            Event::Layer(_) => bar.set_draw_target(ProgressDrawTarget::stderr()),
            Event::Unpacking(_) | Event::Starting(_) | Event::Failed(_) => self.end(),
            Event::Waiting => {}
        }
    }

    fn add(&self, count: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(count);
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

fn starting(arguments: &Arguments) -> Starting {
    if arguments.no_start {
        return Starting::Unproved;
    }
    Starting::Within(Duration::from_secs(arguments.start_timeout))
}

/// What is for another kind of machine can be put here, and not be started.
fn can_start(arguments: &Arguments, release: &Release<'_>, context: &Context<'_>) -> Result<(), Failure> {
    let platform = context.host.platform();
    let here = format!("{}-{}", platform.os.id(), platform.arch.id());
    if arguments.no_start || release.machine.platform == here {
        return Ok(());
    }
    let message = format!("what is for {} can't be started on {here}", release.machine.platform);
    Err(Failure::usage("install.other-platform", message).hint("`--no-start` installs without"))
}

/// The folder of `--to`, else the one of this release in the user's data folder.
fn folder(arguments: &Arguments, name: Option<&str>, context: &Context<'_>) -> Result<HostPath, Failure> {
    if let Some(to) = &arguments.to {
        return absolute(context, to);
    }
    let Some(name) = name else {
        return Err(Failure::usage("install.no-folder", "which one is not said")
            .hint("name it with `--name`, or its folder with `--to`"));
    };
    let data = data_folder(context.host).ok_or_else(|| {
        Failure::usage("install.no-folder", "this user has no folder for data").hint("name one with `--to`")
    })?;
    Ok(data.join(name))
}

/// The folder of all that gpubuild installs for a user.
fn data_folder(host: &dyn Host) -> Option<HostPath> {
    let env = host.env();
    let home = |below: &str| env.get("HOME").map(|home| host.path(home).join(below));
    Some(match host.platform().os {
        Os::Windows => host.path(env.get("LOCALAPPDATA")?).join("Programs/gpubuild"),
        Os::Macos => home("Library/Application Support/gpubuild")?,
        Os::Linux => env
            .get("XDG_DATA_HOME")
            .map(|folder| host.path(folder))
            .filter(HostPath::is_absolute)
            .or_else(|| home(".local/share"))?
            .join("gpubuild"),
    })
}

fn tell(event: &Event<'_>, context: &Context<'_>) {
    let printer = context.printer;
    match event {
        Event::Waiting => printer.say("waiting for another installation into the same folder"),
        Event::Chosen(choice, size) => {
            printer.say(&format!("{}: {} ({})", choice.label, choice.because, bytes::show(*size)));
        }
        Event::Layer(layer) => {
            printer.detail(&format!("layer {} ({})", layer.sha256, bytes::show(layer.size)));
        }
        Event::Unpacking(layer) => printer.detail(&format!("unpacking {}", layer.sha256)),
        Event::Starting(program) => printer.detail(&format!("starting {program}")),
        Event::Failed(error) => {
            printer.warning(&format!("{error}; the next variant is tried [{}]", error.id()));
            if let InstallError::Start { said, .. } = error {
                for line in said {
                    printer.say(&format!("  {line}"));
                }
            }
        }
    }
}

fn answer(
    arguments: &Arguments,
    release: &Release<'_>,
    to: &HostPath,
    done: &Done,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let printer = context.printer;
    let document = Document::new(&release.manifest.name, to, &program(context.host, to, &done.version), done);
    if arguments.json {
        printer.json(&document)?;
    } else {
        printer.answer(&document.text(arguments.release.explain))?;
    }
    for one in &done.choice.fallback {
        printer.warning(&format!("{} is here and not used: {}", one.backend, one.reason));
    }
    for one in &done.choice.unknown {
        printer.warning(&format!("it needs {one}, and nobody knows whether that is here"));
    }
    printer.say(&document.summary());
    Ok(())
}

/// The path of the program, by way of `current` where that is a link; the folder where it has no program.
fn program(host: &dyn Host, to: &HostPath, version: &Version) -> HostPath {
    let folder = match host.platform().os {
        Os::Windows => state::folder(to, &version.folder),
        Os::Linux | Os::Macos => to.join(state::CURRENT),
    };
    version.program.as_ref().map_or_else(|| folder.clone(), |program| folder.join(program))
}

fn rollback(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let to = folder(arguments, arguments.release.name.as_deref(), context)?;
    let sink = |event: &Event<'_>| tell(event, context);
    let installed =
        install::rollback(context.host, &to, starting(arguments), &sink).map_err(|error| failure(&error))?;
    show(arguments, &[(to, installed)], context)?;
    Ok(Exit::Done)
}

fn list(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let host = context.host;
    let name = arguments.release.name.as_deref();
    let folders = match (&arguments.to, name) {
        (None, None) => {
            let data = data_folder(host);
            let names = data.as_ref().and_then(|data| host.list(data).ok()).unwrap_or_default();
            data.iter().flat_map(|data| names.iter().map(|name| data.join(name))).collect()
        }
        _ => vec![folder(arguments, name, context)?],
    };
    let found = folders.into_iter().filter_map(|folder| {
        let installed = Installed::read(host, &folder).filter(|one| one.pair.current.is_some())?;
        Some((folder, installed))
    });
    show(arguments, &found.collect::<Vec<_>>(), context)?;
    Ok(Exit::Done)
}

fn show(
    arguments: &Arguments,
    found: &[(HostPath, Installed)],
    context: &Context<'_>,
) -> Result<(), Failure> {
    let document =
        ListDocument::new(found, &|to: &HostPath, version: &Version| program(context.host, to, version));
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&document.text())?;
    }
    Ok(())
}

fn failure(error: &InstallError) -> Failure {
    let mut failure = match error {
        InstallError::Nothing(nothing) => of_nothing(nothing),
        InstallError::Source(error) => of_source(error),
        InstallError::Foreign { .. }
        | InstallError::Link { .. }
        | InstallError::OtherName { .. }
        | InstallError::NotInstalled(_) => Failure::usage(&error.id(), error.to_string()),
        InstallError::Interrupted => {
            Failure { exit: Exit::Interrupted, ..Failure::negative(&error.id(), error.to_string()) }
        }
        _ => Failure::negative(&error.id(), error.to_string()),
    };
    if let InstallError::Start { said, .. } = error {
        failure.notes = said.iter().map(|line| format!("  {line}")).collect();
    }
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
