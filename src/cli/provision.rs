//! Toolkits that a build installs on its way.

use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec::{BuildEvent, InstalledTools};
use gpubuild_exec::python::Network;
use gpubuild_host::HostPath;
use gpubuild_plan::plan::Plan;
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::WheelLock;
use gpubuild_toolchain::provision::{self, InstallRequest};

use super::events::{Events, MessageFormat};
use super::look::{self, MachineState};
use super::plan::{self, SelectionArguments};
use super::{CommandContext, Failure, absolute, toolkit};

/// How they are fetched and told.
pub(super) struct ProvisionMode<'a> {
    /// What can be installed.
    pub(super) locks: &'a [WheelLock],
    /// Whether an index may be asked.
    pub(super) network: Network,
    /// Folders that hold wheels.
    pub(super) find_links: Vec<HostPath>,
    /// Format of progress messages.
    pub(super) format: MessageFormat,
}

/// The plan after everything that it installs first is installed: what was foreseen is looked at.
///
/// `None`: it installs nothing.
pub(super) fn carried_out(
    context: &CommandContext<'_>,
    selection: &SelectionArguments,
    catalogue: Catalogue,
    before: (&MachineState, &Plan),
    way: &ProvisionMode<'_>,
) -> Result<Option<(MachineState, Project, Plan)>, Failure> {
    let (sight, foreseen) = before;
    if foreseen.provision.is_empty() {
        return Ok(None);
    }
    install(context, sight, foreseen, way)?;
    let sight = look::look(context.host, catalogue);
    let (project, plan) = plan::make(selection, context, context.host, &sight)?;
    if let Some(one) = plan.provision.first() {
        let message = format!("{} {} was installed and is not found", one.toolkit, one.choice.release);
        return Err(Failure::negative(id!("toolkit.broken"), message).hint(format!(
            "`gpubuild toolkit verify {0}` lists its problems, `gpubuild toolkit remove {0}` removes it",
            one.toolkit
        )));
    }
    for line in differences(foreseen, &plan) {
        context.printer.warning(&line);
    }
    Ok(Some((sight, project, plan)))
}

/// Cache entries that the installed copy sets otherwise than was foreseen.
fn differences(foreseen: &Plan, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for tree in &plan.trees {
        let Some(before) = foreseen.trees.iter().find(|before| before.id == tree.id) else { continue };
        for (name, value) in tree.cache.iter().filter(|(name, value)| before.cache.get(*name) != Some(value))
        {
            let was = before.cache.get(name).map_or("unset", String::as_str);
            lines.push(format!("{name} is `{value}` with the installed toolkit; foreseen was `{was}`"));
        }
    }
    lines
}

/// Installs every toolkit that a plan says is installed first.
fn install(
    context: &CommandContext<'_>,
    sight: &MachineState,
    plan: &Plan,
    way: &ProvisionMode<'_>,
) -> Result<(), Failure> {
    let events = Events::new(context.printer, way.format);
    let sink = |event: &BuildEvent| events.show(event);
    for one in &plan.provision {
        let lock =
            way.locks.iter().find(|lock| lock.toolkit == one.toolkit && lock.version == one.choice.version);
        let request = InstallRequest {
            toolkit: one.toolkit.clone(),
            release: lock.map_or_else(|| one.choice.version.clone(), |lock| lock.release.clone()),
            with: Vec::new(),
            find_links: way.find_links.clone(),
            lock: lock.cloned(),
        };
        if way.format == MessageFormat::Human {
            for line in one.choice.lines() {
                context.printer.say(&format!("{} {line}", one.toolkit));
            }
        }
        let tools = InstalledTools::of(&sight.inventory);
        let installed = provision::install(context.host, &sight.facts, &request, &tools, way.network, &sink)
            .map_err(|error| toolkit::failure(&error))?;
        for note in &installed.notes {
            context.printer.warning(note);
        }
    }
    Ok(())
}

/// The folders of `--find-links`.
pub(super) fn folders(context: &CommandContext<'_>, named: &[String]) -> Result<Vec<HostPath>, Failure> {
    let folder = |text: &String| {
        let path = absolute(context, text)?;
        if context.host.is_dir(&path) {
            return Ok(path);
        }
        Err(Failure::usage(id!("usage.no-folder"), format!("`{path}` is not a folder"))
            .hint("`--find-links` takes a folder that holds wheels"))
    };
    named.iter().map(folder).collect()
}
