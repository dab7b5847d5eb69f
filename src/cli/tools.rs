//! Tools that builds need, downloaded into gpubuild's cache: those that this machine lacks, or those that the user names.

use gpubuild_detect::toolkit::{Catalogue, InstalledTools};
use gpubuild_exec::exec::{BuildError, BuildEvent};
use gpubuild_exec::python::fetch::{fetch, fetch_optional};
use gpubuild_exec::python::{Network, WheelAccess};
use gpubuild_plan::plan::{Fetch, kits, libclang};
use gpubuild_plan::planning::cross;

use super::build::failure;
use super::events::{Events, MessageFormat};
use super::machine::{self, MachineState};
use super::project::load_project;
use super::{CommandContext, Failure, sources};
use crate::report::fetch::FetchedTool;

/// The tools that gpubuild can download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Tool {
    /// CMake.
    Cmake,
    /// Ninja.
    Ninja,
    /// libclang, with which bindgen generates bindings.
    Libclang,
    /// Zig, which compiles for other platforms.
    Zig,
}

/// Downloads the pinned versions of these tools, whatever the machine has.
pub(super) fn fetch_named(
    context: &CommandContext<'_>,
    tools: &[Tool],
    network: Network,
) -> Result<Vec<FetchedTool>, Failure> {
    let machine = machine::inspect(context.host, Catalogue::embedded());
    let described = |id| machine.catalogue.get(id).and_then(kits::fetch);
    let wanted = tools.iter().filter_map(|tool| match tool {
        Tool::Cmake => described("cmake"),
        Tool::Ninja => described("ninja"),
        Tool::Libclang => Some(libclang::pinned()),
        Tool::Zig => Some(cross::zig_wheel()),
    });
    download(context, &machine, network, &wanted.collect::<Vec<_>>(), None)
}

/// Downloads the tools that builds of a project need and this machine lacks. Its sources are available.
pub(super) fn fetch_missing(
    context: &CommandContext<'_>,
    folder: Option<&str>,
    network: Network,
) -> Result<Vec<FetchedTool>, Failure> {
    let machine = machine::inspect(context.host, Catalogue::embedded());
    // `plan` and `build` report why a project cannot be loaded.
    let project = load_project(context, folder).ok();
    let cmake = project.iter().flat_map(|project| &project.built_with).filter_map(|one| one.cmake.as_ref());
    let tools = kits::tools(&machine.inventory, &machine.catalogue, cmake.max());
    let libclang = project.and_then(|project| libclang::missing(&project, context.host, context.host));
    download(context, &machine, network, &tools.fetch, libclang.as_ref())
}

fn download(
    context: &CommandContext<'_>,
    machine: &MachineState,
    network: Network,
    required: &[Fetch],
    optional: Option<&Fetch>,
) -> Result<Vec<FetchedTool>, Failure> {
    let events = Events::new(context.printer, MessageFormat::Human);
    let sink = |event: &BuildEvent| events.show(event);
    let installed = InstalledTools::of(&machine.inventory);
    let direct = sources::wheels(context, &machine.facts, network);
    let access = WheelAccess { tools: &installed, network, index: None, direct: Some(&direct) };
    let mut done = Vec::new();
    let failed = |error| failure(&BuildError::Fetch(error));
    for one in required {
        done.push(FetchedTool::new(one, &fetch(context.host, one, access, &sink).map_err(failed)?));
    }
    if let Some(one) = optional
        && let Some(path) = fetch_optional(context.host, one, access, &sink).map_err(failed)?
    {
        done.push(FetchedTool::new(one, &path));
    }
    Ok(done)
}
