//! Which toolkits a build installs from packages before it is planned.

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::Readiness;
use gpubuild_detect::toolkit::Installation;

use crate::machine::MachineState;
use crate::offer::for_target;
use crate::packages::{self, PackageOffer};
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::project::Project;
use crate::project::profile::BackendRow;
use crate::target::Target;
use crate::wheels::TargetWheels;

/// A toolkit that a build lacks and that this machine can install from packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LackingToolkit {
    /// Id of the toolkit: `vulkan`.
    pub toolkit: String,
    /// Its components that the project links and that are installed only on request.
    pub with: Vec<String>,
    /// The platform of its libraries, if that is another one.
    pub target: Option<TargetWheels>,
}

/// The toolkits that are missing for the backends that a request names. The distribution determines the version: a project that requires one
/// gets none unless the distribution's is known to suffice.
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
    if !is_supported
        || row.is_some_and(|row| row.toolkit.is_some())
        || table.is_some_and(|table| table.toolkit.is_some())
    {
        return None;
    }
    let description = machine.catalogue.for_backend(backend)?;
    let offer = packages::offer(&machine.facts, &description.id).ok()?;
    let minimum = row.and_then(|row| row.minimum.as_ref());
    let is_new_enough = |minimum| offer.row.release.as_ref().is_some_and(|release| release >= minimum);
    if !minimum.is_none_or(is_new_enough) {
        return None;
    }
    let toolkit = description.id.clone();
    let with = components(&offer, row);
    let linked = target.filter(|target| {
        for_target::toolkit(&machine.catalogue, &project.profile, target, backend).is_some()
    });
    if let Some(target) = linked {
        let target = Some(for_target::wheels(description, target)?);
        let is_installed = machine.for_target.contains_key(&toolkit);
        return (!is_installed).then_some(LackingToolkit { toolkit, with, target });
    }
    let verdict = machine.matrix.verdict(backend);
    let is_fixed = verdict.build == Readiness::Blocked
        && verdict.build_reasons.iter().any(|reason| offer.set.fixes.contains(&reason.id));
    let needed = is_fixed || is_incomplete(machine, &toolkit, &with);
    needed.then_some(LackingToolkit { toolkit, with, target: None })
}

/// The components of the toolkit that the project links and that the packages have.
fn components(offer: &PackageOffer<'_>, row: Option<&BackendRow>) -> Vec<String> {
    let all = row.map(|row| row.components.as_slice()).unwrap_or_default();
    all.iter().filter(|id| offer.row.optional.contains_key(*id)).cloned().collect()
}

/// Whether all copies of a toolkit were installed by gpubuild and lack one of the components.
fn is_incomplete(machine: &MachineState, toolkit: &str, with: &[String]) -> bool {
    let lacks = |copy: &Installation| copy.is_own() && with.iter().any(|id| copy.part(id).is_none());
    let copies = machine.inventory.of(toolkit);
    !copies.is_empty() && copies.iter().all(lacks)
}
