//! Installs the toolkits that a build lacks.

use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec::{BuildEvent, InstalledTools};
use gpubuild_exec::python::{Network, WheelAccess};
use gpubuild_host::HostPath;
use gpubuild_plan::offer::for_target;
use gpubuild_plan::plan::Plan;
use gpubuild_plan::planning::lacking::{self, LackingToolkit};
use gpubuild_plan::project::Project;
use gpubuild_plan::target::Target;
use gpubuild_plan::wheels::WheelLock;
use gpubuild_toolchain::packages::PackageRequest;
use gpubuild_toolchain::provision::{self, InstallRequest};

use super::events::{Events, MessageFormat};
use super::machine::{self, MachineState};
use super::plan::{self, SelectionArguments};
use super::{CommandContext, Failure, absolute, sources, toolkit};

/// How toolkits are downloaded and progress is printed.
pub(super) struct ProvisionMode<'a> {
    /// Locks of the toolkits that can be installed.
    pub(super) locks: &'a [WheelLock],
    /// Whether package indexes may be queried.
    pub(super) network: Network,
    /// Folders with wheels and archives.
    pub(super) find_links: Vec<HostPath>,
    /// URL of a mirror of the vendor's archives.
    pub(super) mirror: Option<String>,
    /// Format of progress messages.
    pub(super) format: MessageFormat,
}

/// Installs the toolkits of a plan, then inspects the machine again and computes the plan with the installed toolkits. Warns if the new
/// plan differs from the expected one.
///
/// Returns `None` if the plan installs no toolkit.
pub(super) fn install_and_replan(
    context: &CommandContext<'_>,
    selection: &SelectionArguments,
    catalogue: Catalogue,
    before: (&MachineState, &Plan),
    mode: &ProvisionMode<'_>,
) -> Result<Option<(MachineState, Project, Plan)>, Failure> {
    let (machine, expected) = before;
    if expected.provision.is_empty() {
        return Ok(None);
    }
    install(context, machine, expected, mode)?;
    let machine = machine::inspect_for(context.host, catalogue, &selection.target);
    let (project, plan) = plan::make(selection, context, context.host, &machine)?;
    if let Some(one) = plan.provision.first() {
        let message = format!("{} {} was installed but not found", one.toolkit, one.choice.release);
        return Err(Failure::negative(id!("toolkit.broken"), message).hint(format!(
            "`gpubuild toolkit verify {0}` lists its problems, `gpubuild toolkit remove {0}` removes it",
            one.toolkit
        )));
    }
    for line in differences(expected, &plan) {
        context.printer.warning(&line);
    }
    Ok(Some((machine, project, plan)))
}

/// CMake cache entries whose values differ from the expected plan, one line each.
fn differences(expected: &Plan, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for tree in &plan.trees {
        let Some(before) = expected.trees.iter().find(|before| before.id == tree.id) else { continue };
        for (name, value) in tree.cache.iter().filter(|(name, value)| before.cache.get(*name) != Some(value))
        {
            let was = before.cache.get(name).map_or("unset", String::as_str);
            lines.push(format!("{name} is `{value}` with the installed toolkit, but `{was}` was expected"));
        }
    }
    lines
}

/// Installs the toolkits that a plan provisions.
fn install(
    context: &CommandContext<'_>,
    machine: &MachineState,
    plan: &Plan,
    mode: &ProvisionMode<'_>,
) -> Result<(), Failure> {
    let events = Events::new(context.printer, mode.format);
    let sink = |event: &BuildEvent| events.show(event);
    let archives = toolkit::archives::ArchiveClient::new(context, mode.network, mode.mirror.clone());
    for one in &plan.provision {
        let lock =
            mode.locks.iter().find(|lock| lock.toolkit == one.toolkit && lock.version == one.choice.version);
        let request = InstallRequest {
            toolkit: one.toolkit.clone(),
            release: lock.map_or_else(|| one.choice.version.clone(), |lock| lock.release.clone()),
            with: one.with.clone(),
            find_links: mode.find_links.clone(),
            lock: lock.cloned(),
            target: one.target.as_deref().and_then(|triple| {
                for_target::wheels(machine.catalogue.get(&one.toolkit)?, &Target::of_triple(triple))
            }),
        };
        if mode.format == MessageFormat::Human {
            for line in one.choice.lines() {
                context.printer.status(&format!("{} {line}", one.toolkit));
            }
        }
        let tools = InstalledTools::of(&machine.inventory);
        let direct = sources::wheels(context, &machine.facts, mode.network);
        let access = WheelAccess { tools: &tools, network: mode.network, index: None, direct: Some(&direct) };
        let installed = provision::install(context.host, &machine.facts, &request, access, &archives, &sink)
            .map_err(|error| toolkit::failure(&error))?;
        for note in &installed.notes {
            context.printer.warning(note);
        }
    }
    Ok(())
}

/// Installs the toolkits that a build lacks from the packages of the distribution, if provisioning is enabled, and inspects the machine
/// again. This is before the plan, because only the package manager knows their releases.
pub(super) fn install_packages(
    context: &CommandContext<'_>,
    selection: &SelectionArguments,
    machine: MachineState,
    (network, find_links, format): (Network, &[HostPath], MessageFormat),
) -> Result<MachineState, Failure> {
    let (project, request) = plan::selected(selection, context, context.host)?;
    if !selection.provision && !project.file.toolkits.provision {
        return Ok(machine);
    }
    let lacking = lacking::lacking(&machine, &project, &request, selection.target.target());
    if lacking.is_empty() {
        return Ok(machine);
    }
    let events = Events::new(context.printer, format);
    let sink = |event: &BuildEvent| events.show(event);
    for LackingToolkit { toolkit, with, target } in lacking {
        let request = PackageRequest { toolkit, with, find_links: find_links.to_vec(), target, network };
        gpubuild_toolchain::packages::install(context.host, &machine.facts, &request, &sink)
            .map_err(|error| toolkit::failure(&error))?;
    }
    Ok(machine::inspect_for(context.host, machine.catalogue, &selection.target))
}

/// The folders of `--find-links`.
pub(super) fn folders(context: &CommandContext<'_>, named: &[String]) -> Result<Vec<HostPath>, Failure> {
    let folder = |text: &String| {
        let path = absolute(context, text)?;
        if context.host.is_dir(&path) {
            return Ok(path);
        }
        Err(Failure::usage(id!("usage.no-folder"), format!("`{path}` is not a folder"))
            .hint("`--find-links` accepts a folder with wheels or archives"))
    };
    named.iter().map(folder).collect()
}
