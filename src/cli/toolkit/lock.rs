//! `gpubuild toolkit lock`: pins the wheels or archives of a release.

use gpubuild_core::shell::word;
use gpubuild_detect::id;
use gpubuild_exec::exec::{BuildEvent, InstalledTools};
use gpubuild_exec::python::{Network, PipInstallError, WheelAccess};
use gpubuild_host::{HostPath, WriteFiles};
use gpubuild_plan::plan::kits;
use gpubuild_plan::wheels::WheelLock;
use gpubuild_toolchain::provision::locks::PROJECT_FOLDER;
use gpubuild_toolchain::provision::pin::{self, PinError};
use gpubuild_toolchain::provision::{ProvisionError, kit, redist};

use super::{ToolkitSpec, archives};
use crate::cli::build::NetworkArguments;
use crate::cli::events::{Events, MessageFormat};
use crate::cli::machine::{self, HostArguments, MachineState};
use crate::cli::project::open_project;
use crate::cli::provision::folders;
use crate::cli::{CommandContext, Exit, Failure, absolute, sources};
use crate::report::toolkit_lock::LockReport;

/// Arguments of `toolkit lock`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitLockArguments {
    /// Toolkit and release: `cuda@13.2`, `cuda@13.2.1`
    #[arg(value_name = "TOOLKIT@RELEASE")]
    spec: ToolkitSpec,
    /// Lock file to write; `-` for standard output [default: gpubuild.lock.d/ of the project, else the
    /// current folder]
    #[arg(long, short, value_name = "FILE")]
    output: Option<String>,
    /// Folder with wheels; may be repeated
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Pin the archives in NVIDIA's manifest of the release (CUDA 12): `redistrib_12.9.1.json`
    #[arg(long, value_name = "FILE|URL", conflicts_with = "find_links")]
    manifest: Option<String>,
    #[command(flatten)]
    network: NetworkArguments,
    /// Print one JSON document that describes the file
    #[arg(long)]
    pub(super) json: bool,
}

/// Resolves the wheels of a release with uv, or reads the archives from a manifest, and writes their names and hashes to a lock file.
pub(super) fn run(arguments: &ToolkitLockArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let is_printed = arguments.output.as_deref() == Some("-");
    if is_printed && arguments.json {
        let message = "`--output -` and `--json` both write to standard output";
        return Err(Failure::usage(id!("usage.conflict"), message).hint("write the lock to a file"));
    }
    let toolkit = arguments.spec.toolkit.as_str();
    let release = arguments.spec.release.as_ref().ok_or_else(|| {
        Failure::usage(id!("toolkit.unknown-release"), format!("no release of {toolkit} is specified"))
            .hint(format!("specify one, for example `gpubuild toolkit lock {toolkit}@13.0`"))
    })?;
    let machine =
        machine::inspect(context.host, HostArguments { host: None, toolkits: None }.catalogue(context)?);
    let kit = kit::of(toolkit).map_err(|error| super::failure(&error))?;
    let network = arguments.network.network(context.host);
    let lock = if let Some(place) = &arguments.manifest {
        let text = archives::manifest(context, place, network)?;
        redist::lock(kit, toolkit, release, &text, place).map_err(|error| failure(&error))?
    } else {
        let description = machine.catalogue.get(toolkit);
        let requirement =
            pin::requirement(kit, toolkit, description, release).map_err(|error| failure(&error))?;
        let find_links = folders(context, &arguments.find_links)?;
        let printed = resolve(context, &machine, &requirement, &find_links, network)?;
        pin::lock(kit, toolkit, release, &printed).map_err(|error| failure(&error))?
    };
    let text = pin::text(&lock, kit);
    if is_printed {
        context.printer.print_input(&text)?;
        return Ok(Exit::Done);
    }
    let path = lock_path(arguments, context, &lock)?;
    write(context.host, &path, &text)?;
    let document = LockReport::new(&lock, path.to_string());
    if arguments.json {
        context.printer.json(&document)?;
        return Ok(Exit::Done);
    }
    context.printer.status(&document.text());
    let is_found = path.parent().is_some_and(|folder| folder.file_name() == Some(PROJECT_FOLDER));
    let option = if is_found { String::new() } else { format!(" --lock {}", word(path.as_str(), "FILE")) };
    context
        .printer
        .hint(&format!("`gpubuild toolkit install {toolkit}@{}{option}` installs it", lock.release));
    Ok(Exit::Done)
}

/// The output of uv for a requirement. Downloads uv if it is missing.
pub(in crate::cli) fn resolve(
    context: &CommandContext<'_>,
    machine: &MachineState,
    requirement: &str,
    find_links: &[HostPath],
    network: Network,
) -> Result<String, Failure> {
    let host = context.host;
    let tools = InstalledTools::of(&machine.inventory);
    let uv = match (&tools.uv, machine.catalogue.get("uv").and_then(kits::fetch)) {
        (Some(uv), _) => uv.clone(),
        (None, Some(fetch)) => {
            let events = Events::new(context.printer, MessageFormat::Human);
            let sink = |event: &BuildEvent| events.show(event);
            let direct = sources::wheels(context, &machine.facts, network);
            let access = WheelAccess { tools: &tools, network, direct: Some(&direct) };
            gpubuild_exec::python::fetch(host, &fetch, access, &sink)
                .map_err(|error| Failure::of(&error, Exit::Negative))?
        }
        (None, None) => return Err(Failure::negative(id!("fetch.failed"), "uv is missing")),
    };
    let cache =
        gpubuild_host::folders::cache_folder(host).ok_or_else(|| super::failure(&ProvisionError::NoCache))?;
    host.create_dir_all(&cache)?;
    let scratch = host.temporary_dir(&cache)?;
    let printed = pin::resolve(host, &tools, &uv, requirement, &scratch, find_links, network);
    // Leftovers do not affect later runs.
    let _ = host.remove(&scratch);
    printed.map_err(|error| failure(&error))
}

/// The path of the lock file.
fn lock_path(
    arguments: &ToolkitLockArguments,
    context: &CommandContext<'_>,
    lock: &WheelLock,
) -> Result<HostPath, Failure> {
    if let Some(file) = &arguments.output {
        return absolute(context, file);
    }
    let name = format!("{}-{}.toml", lock.toolkit, lock.release);
    match open_project(context, None) {
        Ok(project) => Ok(project.root.join(PROJECT_FOLDER).join(&name)),
        Err(failure) if failure.id == "project.not-found" => absolute(context, &name),
        Err(failure) => Err(failure),
    }
}

/// Writes the lock atomically.
fn write(host: &dyn WriteFiles, path: &HostPath, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or_else(|| host.path("."));
    host.create_dir_all(&folder)?;
    let scratch = host.temporary_dir(&folder)?;
    let new = scratch.join("lock.toml");
    let done = host.write(&new, text.as_bytes()).and_then(|()| host.rename(&new, path));
    // Leftovers do not affect later runs.
    let _ = host.remove(&scratch);
    Ok(done?)
}

fn failure(error: &PinError) -> Failure {
    match error {
        PinError::NoToolkit { .. } => Failure::of(error, Exit::Usage),
        PinError::Resolve(PipInstallError::Interrupted) => super::failure(&ProvisionError::Interrupted),
        PinError::Resolve(inner) => super::failure(&ProvisionError::Install(inner.clone())),
        _ => Failure::of(error, Exit::Negative),
    }
}
