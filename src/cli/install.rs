//! `gpubuild install`: installs the matching variant of a release into a folder and smoke-tests it.

use std::time::Duration;

use gpubuild_core::clean;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::id;
use gpubuild_host::{HostInfo, HostPath, Os};
use gpubuild_plan::plan::bytes;
use gpubuild_release::install::{
    self, FallbackPolicy, InstallError, InstallEvent, InstallRequest, InstallResult, InstalledRelease,
    InstalledVersion, ProvenancePolicy, SmokeTest, state, versions,
};
use gpubuild_release::manifest::AttachedFile;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::release::{ReleaseArguments, ReleaseInputs, SignaturePolicy, no_variant_failure, source_failure};
use super::{CommandContext, Exit, Failure, Printer, absolute, check_listable};
use crate::report::install::{InstallReport, InstalledListReport};

/// The time limit of the smoke test in seconds.
const START_TIMEOUT: u64 = 180;

/// Arguments of `install`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct InstallArguments {
    /// Folder of a release, its manifest.json, the URL of either, or `oci://HOST/NAME:TAG`
    #[arg(long, value_name = "PLACE", required_unless_present_any = ["rollback", "list"])]
    manifest: Option<String>,
    /// Folder to install into [default: gpubuild/NAME in the user's data folder]
    #[arg(long, value_name = "DIR")]
    to: Option<String>,
    /// Time limit of the smoke test in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = START_TIMEOUT)]
    start_timeout: u64,
    /// Skip the smoke test
    #[arg(long)]
    no_start: bool,
    /// Return to the previous version
    #[arg(long, conflicts_with_all = ["manifest", "require_provenance", "source_uri"])]
    rollback: bool,
    /// List the installed versions
    #[arg(long, conflicts_with_all = ["manifest", "rollback", "require_provenance", "source_uri"])]
    list: bool,
    #[command(flatten)]
    release: ReleaseArguments,
    /// Trust the server: install from the network without a signature
    #[arg(long, conflicts_with_all = ["require_provenance", "source_uri"])]
    unsigned: bool,
    #[command(flatten)]
    provenance: ProvenanceArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Requirements on how a variant was built.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ProvenanceArguments {
    /// Install only if a signed statement says how the variant was built
    #[arg(long)]
    require_provenance: bool,
    /// Repository that the variant must have been built from; implies `--require-provenance`
    #[arg(long, value_name = "URL")]
    source_uri: Option<String>,
}

impl ProvenanceArguments {
    fn is_required(&self) -> bool {
        self.require_provenance || self.source_uri.is_some()
    }
}

/// An update of an existing installation.
pub(super) struct UpdateRequest<'a> {
    /// The release.
    pub(super) manifest: &'a str,
    /// The folder of the installation.
    pub(super) to: &'a HostPath,
    pub(super) release: ReleaseArguments,
    pub(super) provenance: ProvenanceArguments,
    /// Whether to print a JSON document.
    pub(super) json: bool,
}

/// Installs a release into an existing installation. A key must have signed it, wherever it is located.
pub(super) fn update(request: UpdateRequest<'_>, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let UpdateRequest { manifest, to, release, provenance, json } = request;
    let arguments = InstallArguments {
        manifest: None,
        to: Some(to.to_string()),
        start_timeout: START_TIMEOUT,
        no_start: false,
        rollback: false,
        list: false,
        release,
        unsigned: false,
        provenance,
        json,
    };
    install_release(&arguments, manifest, SignaturePolicy::Always, Reader::Owner, context)
}

/// Installs a release, returns to the previous version, or lists the installed versions.
pub fn run(arguments: &InstallArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if arguments.list {
        return list(arguments, context);
    }
    if arguments.rollback {
        return rollback(arguments, context);
    }
    let Some(manifest) = &arguments.manifest else {
        return Err(Failure::usage(id!("usage.no-manifest"), "`--manifest` is missing"));
    };
    let signature = if arguments.provenance.is_required() {
        // A statement that nobody signed says nothing.
        SignaturePolicy::Always
    } else if arguments.unsigned {
        SignaturePolicy::Optional
    } else {
        SignaturePolicy::Required
    };
    install_release(arguments, manifest, signature, Reader::Script, context)
}

/// Who reads the result.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    /// A user or a script that starts the program: its path, and why this variant was chosen.
    Script,
    /// The user of `self update`: there is one variant, and its path is on `PATH`.
    Owner,
}

/// Installs a release and prints the result.
fn install_release(
    arguments: &InstallArguments,
    manifest: &str,
    signature: SignaturePolicy,
    reader: Reader,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let installation = |name: &str| folder(arguments, Some(name), context).ok();
    let release = arguments.release.open(manifest, signature, &installation, context)?;
    let to = folder(arguments, Some(&release.manifest.name), context)?;
    check_platform(arguments, &release, context)?;
    let progress = Progress::new(context.printer);
    let documents = |file: &AttachedFile, max| release.source.attached(&release.client, file, max);
    let source = arguments.provenance.source_uri.as_deref();
    let provenance = if arguments.provenance.is_required() {
        ProvenancePolicy::Require { documents: &documents, source }
    } else {
        ProvenancePolicy::Ignore
    };
    let request = InstallRequest {
        provenance,
        host: context.host,
        to: &to,
        resolve: release.request(),
        newest: release.newest,
        fallback: if arguments.release.strict { FallbackPolicy::Deny } else { FallbackPolicy::Warn },
        smoke_test: smoke_test(arguments),
        layers: &|layer| {
            let received = release.source.layer(&release.client, layer, &|count| progress.add(count))?;
            progress.add(layer.size.saturating_sub(received.fetched));
            Ok(received)
        },
        sink: &|event| {
            progress.update(event);
            if reader == Reader::Script || !matches!(event, InstallEvent::Chosen(..)) {
                print_event(event, context);
            }
        },
    };
    let result = install::install(&request);
    progress.end();
    let result = result.map_err(|error| failure(&error))?;
    let document = InstallReport::new(
        &release.manifest.name,
        &to,
        &program(context.host, &to, &result.version),
        &result,
    );
    let printer = context.printer;
    if arguments.json {
        printer.json(&document)?;
    } else if reader == Reader::Owner {
        printer.print(&format!("{}\n", document.update_summary()))?;
    } else {
        printer.print(&document.text(arguments.release.explain))?;
    }
    print_notes(&result, printer);
    if reader == Reader::Script {
        printer.status(&document.summary());
    }
    Ok(Exit::Done)
}

/// A progress bar on a terminal; prints nothing elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(printer: &Printer) -> Self {
        Self { bar: printer.shows_progress().then(ProgressBar::hidden) }
    }

    fn update(&self, event: &InstallEvent<'_>) {
        let Some(bar) = &self.bar else { return };
        match event {
            InstallEvent::Chosen(choice, size) => {
                let style = ProgressStyle::with_template(
                    "{prefix:>16} [{bar:24}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
                );
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
                bar.set_length(*size);
                bar.set_position(0);
                bar.set_prefix(clean::line(&choice.label).into_owned());
            }
            InstallEvent::Layer(_) => bar.set_draw_target(ProgressDrawTarget::stderr()),
            InstallEvent::Unpacking(_) | InstallEvent::Starting(_) | InstallEvent::Failed(_) => self.end(),
            InstallEvent::Waiting => {}
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

fn smoke_test(arguments: &InstallArguments) -> SmokeTest {
    if arguments.no_start {
        return SmokeTest::Skip;
    }
    SmokeTest::Within(Duration::from_secs(arguments.start_timeout))
}

/// Rejects a release for another platform unless the smoke test is skipped: it can be installed here, but not started.
fn check_platform(
    arguments: &InstallArguments,
    release: &ReleaseInputs<'_>,
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let platform = context.host.platform();
    let here = format!("{}-{}", platform.os.id(), platform.arch.id());
    if arguments.no_start || release.machine.platform == here {
        return Ok(());
    }
    let message = format!("a release for {} cannot be started on {here}", release.machine.platform);
    Err(Failure::usage(id!("install.other-platform"), message)
        .hint("install without the smoke test with `--no-start`"))
}

/// The folder of `--to`, else the folder `name` in the user's data folder.
fn folder(
    arguments: &InstallArguments,
    name: Option<&str>,
    context: &CommandContext<'_>,
) -> Result<HostPath, Failure> {
    if let Some(to) = &arguments.to {
        return absolute(context, to);
    }
    let Some(name) = name else {
        return Err(Failure::usage(id!("install.no-folder"), "no release is specified")
            .hint("specify its name with `--name`, or its folder with `--to`"));
    };
    let data = data_folder(context.host).ok_or_else(|| {
        Failure::usage(id!("install.no-folder"), "the user's data folder is unknown")
            .hint("specify a folder with `--to`")
    })?;
    Ok(data.join(name))
}

/// The folder that contains the releases of a user; `None` if the environment does not define it.
pub(super) fn data_folder(host: &dyn HostInfo) -> Option<HostPath> {
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

fn print_event(event: &InstallEvent<'_>, context: &CommandContext<'_>) {
    let printer = context.printer;
    match event {
        InstallEvent::Waiting => printer.status("waiting for another installation into the same folder"),
        InstallEvent::Chosen(choice, size) => {
            printer.status(&format!("{}: {} ({})", choice.label, choice.because, bytes::show(*size)));
        }
        InstallEvent::Layer(layer) => {
            printer.detail(&format!("layer {} ({})", layer.sha256, bytes::show(layer.size)));
        }
        InstallEvent::Unpacking(layer) => printer.detail(&format!("unpacking {}", layer.sha256)),
        InstallEvent::Starting(program) => printer.detail(&format!("starting {program}")),
        InstallEvent::Failed(error) => {
            printer.warning(&format!("{error}; trying the next variant [{}]", error.id()));
            if let InstallError::Start { output, .. } = error {
                for line in output {
                    printer.status(&format!("  {line}"));
                }
            }
        }
    }
}

fn print_notes(result: &InstallResult, printer: &Printer) {
    for one in &result.choice.fallback {
        printer.warning(&format!("{} is available but not used: {}", one.backend, one.reason));
    }
    for one in &result.choice.unknown {
        printer.warning(&format!(
            "the variant requires {one}, and gpubuild cannot determine whether this machine provides it"
        ));
    }
    if let Some(origin) = &result.origin {
        printer.status(&origin.text());
    }
}

/// The path of the program, through the link `current` except on Windows. The version's folder if it has no program.
fn program(host: &dyn HostInfo, to: &HostPath, version: &InstalledVersion) -> HostPath {
    let folder = match host.platform().os {
        Os::Windows => versions::folder(to, &version.folder),
        Os::Linux | Os::Macos => to.join(state::CURRENT),
    };
    version.program.as_ref().map_or_else(|| folder.clone(), |program| folder.join(program))
}

fn rollback(arguments: &InstallArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let to = folder(arguments, arguments.release.name.as_deref(), context)?;
    let sink = |event: &InstallEvent<'_>| print_event(event, context);
    let installed = install::rollback(context.host, &to, smoke_test(arguments), &sink)
        .map_err(|error| failure(&error))?;
    show(arguments, &[(to, installed)], context)?;
    Ok(Exit::Done)
}

fn list(arguments: &InstallArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
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
    let mut found = Vec::new();
    for folder in folders {
        check_listable(host, &folder)?;
        // A damaged installation is not an absent one.
        state::newest_serial(host, &folder, None).map_err(|error| failure(&error))?;
        let installed = InstalledRelease::read(host, &folder).filter(|one| one.pair.current.is_some());
        found.extend(installed.map(|installed| (folder, installed)));
    }
    show(arguments, &found, context)?;
    Ok(Exit::Done)
}

fn show(
    arguments: &InstallArguments,
    found: &[(HostPath, InstalledRelease)],
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let document = InstalledListReport::new(found, &|to: &HostPath, version: &InstalledVersion| {
        program(context.host, to, version)
    });
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(())
}

fn failure(error: &InstallError) -> Failure {
    let mut failure = match error {
        InstallError::NoVariant(error) => no_variant_failure(error),
        InstallError::Source(error) => source_failure(error),
        InstallError::Foreign { .. }
        | InstallError::Damaged(_)
        | InstallError::Link { .. }
        | InstallError::OtherName { .. }
        | InstallError::NotInstalled(_) => Failure::of(error, Exit::Usage),
        InstallError::Interrupted => Failure::of(error, Exit::Interrupted),
        _ => Failure::of(error, Exit::Negative),
    };
    if let InstallError::Start { output, .. } = error {
        failure.notes = output.iter().map(|line| format!("  {line}")).collect();
    }
    failure.hint = error.hint().or(failure.hint);
    failure
}
