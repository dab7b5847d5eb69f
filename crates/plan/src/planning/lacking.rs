//! Which toolkits a build installs from packages before it is planned.

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::Readiness;

use crate::machine::MachineState;
use crate::offer::for_target;
use crate::packages;
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::project::Project;
use crate::target::Target;
use crate::wheels::TargetWheels;

/// A toolkit that a build lacks and that this machine can install from packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LackingToolkit {
    /// Id of the toolkit: `vulkan`.
    pub toolkit: String,
    /// The platform of its libraries, if that is another one.
    pub target: Option<TargetWheels>,
}

/// The toolkits that are missing for the backends that a request names. A project that requires a version gets none: the distribution
/// determines the version, which is unknown before the installation.
#[must_use]
pub fn lacking(
    machine: &MachineState,
    project: &Project,
    request: &BackendRequest,
    target: Option<&Target>,
) -> Vec<LackingToolkit> {
    let BackendSelection::Named(list) = &request.selection else { return Vec::new() };
    list.iter().filter_map(|backend| of_backend(machine, project, target, *backend)).collect()
}

fn of_backend(
    machine: &MachineState,
    project: &Project,
    target: Option<&Target>,
    backend: Backend,
) -> Option<LackingToolkit> {
    let row = project.profile.backends.get(&backend);
    let table = project.file.backends.get(&backend);
    let is_supported = !project.without_kernels.contains(&backend) && (row.is_some() || table.is_some());
    let needs_version = row.is_some_and(|row| row.minimum.is_some() || row.toolkit.is_some())
        || table.is_some_and(|table| table.toolkit.is_some());
    if !is_supported || needs_version {
        return None;
    }
    let description = machine.catalogue.for_backend(backend)?;
    let set = packages::set_of(&description.id)?;
    packages::offer(&machine.facts, &description.id).ok()?;
    let toolkit = description.id.clone();
    let linked = target.filter(|target| {
        for_target::toolkit(&machine.catalogue, &project.profile, target, backend).is_some()
    });
    if let Some(target) = linked {
        let target = Some(for_target::wheels(description, target)?);
        return (!machine.for_target.contains_key(&toolkit)).then_some(LackingToolkit { toolkit, target });
    }
    let verdict = machine.matrix.verdict(backend);
    let is_fixed = verdict.build == Readiness::Blocked
        && verdict.build_reasons.iter().any(|reason| set.fixes.contains(&reason.id));
    is_fixed.then_some(LackingToolkit { toolkit, target: None })
}
