//! `gpubuild toolkit lock`: pins the wheels or archives of a release.

use std::collections::BTreeSet;

use gpubuild_core::shell::word;
use gpubuild_detect::id;
use gpubuild_exec::exec::{BuildEvent, InstalledTools};
use gpubuild_exec::python::{PipInstallError, WheelAccess};
use gpubuild_host::HostPath;
use gpubuild_plan::packages;
use gpubuild_plan::plan::kits;
use gpubuild_plan::wheels::{WheelLock, lock};
use gpubuild_toolchain::provision::kit::{self, ToolkitLayout};
use gpubuild_toolchain::provision::locks::PROJECT_FOLDER;
use gpubuild_toolchain::provision::pin::{self, PinError, PinOrigin, PinRequest};
use gpubuild_toolchain::provision::{ProvisionError, redist};

use super::{ToolkitSpec, archives};
use crate::cli::build::NetworkArguments;
use crate::cli::document::check_replaceable;
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
    /// Index of Python packages to use instead of PyPI (CUDA) or AMD's index (ROCm)
    #[arg(long, value_name = "URL", conflicts_with = "manifest", value_parser = index_url)]
    index: Option<String>,
    /// GPUs for which ROCm's libraries get kernels: `gfx942,gfx1100` [default: those of this machine]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "manifest", value_parser = gpu)]
    gpus: Vec<String>,
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
    let machine =
        machine::inspect(context.host, HostArguments { host: None, toolkits: None }.catalogue(context)?);
    let kit = kit::of(toolkit).map_err(|error| super::failure(&error))?;
    let description = machine.catalogue.get(toolkit);
    let release = arguments.spec.release.as_ref().ok_or_else(|| {
        let offered = description.and_then(|description| description.offered.as_deref());
        let since = offered.map(|offered| offered.since.to_string()).unwrap_or_default();
        Failure::usage(id!("toolkit.unknown-release"), format!("no release of {toolkit} is specified"))
            .hint(format!("specify one, for example `gpubuild toolkit lock {toolkit}@{since}`"))
    })?;
    let network = arguments.network.network(context.host);
    let lock = if let Some(place) = &arguments.manifest {
        let text = archives::manifest(context, place, network)?;
        redist::lock(kit, toolkit, release, &text, place).map_err(|error| failure(&error))?
    } else {
        let gpus = gpus(arguments, kit, &machine);
        let index = arguments.index.as_deref().or(kit.index.as_deref());
        let origin = PinOrigin { index, gpus: &gpus };
        let requirement =
            pin::requirement(kit, toolkit, description, release, origin).map_err(|error| failure(&error))?;
        let find_links = folders(context, &arguments.find_links)?;
        let request = PinRequest { requirement: &requirement, index, find_links: &find_links, network };
        let printed = resolve(context, &machine, &request)?;
        pin::lock(kit, toolkit, release, origin, &printed).map_err(|error| failure(&error))?
    };
    let text = pin::text(&lock, kit);
    if is_printed {
        context.printer.print_input(&text)?;
        return Ok(Exit::Done);
    }
    let path = lock_path(arguments, context, &lock)?;
    check_replaceable(context, &path, |text| text.contains(lock::SCHEMA))?;
    context.host.write(&path, text.as_bytes())?;
    let document = LockReport::new(&lock, path.to_string());
    if arguments.json {
        context.printer.json(&document)?;
        return Ok(Exit::Done);
    }
    context.printer.status(&document.text());
    let is_found = path.parent().is_some_and(|folder| folder.file_name() == Some(PROJECT_FOLDER));
    // The distribution's packages have precedence for a toolkit that has both, unless the lock is named.
    let is_found = is_found && packages::set_of(toolkit).is_none();
    let option = if is_found { String::new() } else { format!(" --lock {}", word(path.as_str(), "FILE")) };
    context
        .printer
        .hint(&format!("`gpubuild toolkit install {toolkit}@{}{option}` installs it", lock.release));
    Ok(Exit::Done)
}

/// The GPUs for which a kit with kernels in wheels of their own is locked.
fn gpus(arguments: &ToolkitLockArguments, kit: &ToolkitLayout, machine: &MachineState) -> Vec<String> {
    if !kit.each || !arguments.gpus.is_empty() {
        return arguments.gpus.clone();
    }
    let of_machine = machine.facts.gpus.iter().filter_map(|gpu| gpu.arch.clone());
    of_machine.filter(|arch| gpu(arch).is_ok()).collect::<BTreeSet<_>>().into_iter().collect()
}

fn index_url(text: &str) -> Result<String, String> {
    let expected = "the URL of an index must begin with https:// and have no user, password or query";
    if lock::is_index(text) { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

fn gpu(text: &str) -> Result<String, String> {
    let number = text.strip_prefix("gfx").unwrap_or_default();
    let is_number = (3..=5).contains(&number.len())
        && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_number { Ok(text.to_owned()) } else { Err("a GPU of AMD is named `gfx1100`".to_owned()) }
}

/// The output of uv for a requirement. Downloads uv if it is missing.
pub(in crate::cli) fn resolve(
    context: &CommandContext<'_>,
    machine: &MachineState,
    request: &PinRequest<'_>,
) -> Result<String, Failure> {
    let host = context.host;
    let tools = InstalledTools::of(&machine.inventory);
    let uv = match (&tools.uv, machine.catalogue.get("uv").and_then(kits::fetch)) {
        (Some(uv), _) => uv.clone(),
        (None, Some(fetch)) => {
            let events = Events::new(context.printer, MessageFormat::Human);
            let sink = |event: &BuildEvent| events.show(event);
            let direct = sources::wheels(context, &machine.facts, request.network);
            let access =
                WheelAccess { tools: &tools, network: request.network, index: None, direct: Some(&direct) };
            gpubuild_exec::python::fetch(host, &fetch, access, &sink)
                .map_err(|error| Failure::of(&error, Exit::Negative))?
        }
        (None, None) => return Err(Failure::negative(id!("fetch.failed"), "uv is missing")),
    };
    let cache =
        gpubuild_host::folders::cache_folder(host).ok_or_else(|| super::failure(&ProvisionError::NoCache))?;
    host.create_dir_all(&cache)?;
    let scratch = host.temporary_dir(&cache)?;
    let printed = pin::resolve(host, &tools, &uv, request, &scratch);
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

fn failure(error: &PinError) -> Failure {
    match error {
        PinError::NoToolkit { .. } => Failure::of(error, Exit::Usage),
        PinError::Resolve(PipInstallError::Interrupted) => super::failure(&ProvisionError::Interrupted),
        PinError::Resolve(inner) => super::failure(&ProvisionError::Install(inner.clone())),
        _ => Failure::of(error, Exit::Negative),
    }
}
