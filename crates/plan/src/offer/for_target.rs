//! Toolkits for another platform: compilers of the build machine, and libraries of the target.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Readiness, Reason};
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};

use crate::project::profile::Profile;
use crate::target::Target;
use crate::wheels::TargetWheels;

/// The toolkit of a backend, if the project links its libraries and it can build for the target.
#[must_use]
pub fn toolkit<'a>(
    catalogue: &'a Catalogue,
    profile: &Profile,
    target: &Target,
    backend: Backend,
) -> Option<&'a Description> {
    if profile.backends.get(&backend).is_some_and(|row| row.opened_at_run_time) {
        return None;
    }
    catalogue.for_backend(backend).filter(|description| description.builds_for(&target.triple))
}

/// Whether the compilers of a toolkit need GCC for the target.
#[must_use]
pub fn needs_gcc(description: &Description) -> bool {
    description.cross.as_ref().is_some_and(|cross| cross.gcc)
}

/// The wheels of a toolkit for a target.
#[must_use]
pub fn wheels(description: &Description, target: &Target) -> Option<TargetWheels> {
    let cross = description.cross.as_ref().filter(|_| description.builds_for(&target.triple))?;
    let (triple, platform) = (target.triple.clone(), target.platform()?);
    Some(TargetWheels { triple, platform, programs: cross.programs.clone() })
}

/// Sets the verdict of a backend: whether the toolkit for the target is installed. Drivers and host compilers of this machine do not matter.
pub fn judge(
    matrix: &mut Matrix,
    inventory: &Inventory,
    description: &Description,
    backend: Backend,
    target: &Target,
) {
    for verdict in matrix.verdicts.iter_mut().filter(|verdict| verdict.backend == backend) {
        verdict.driver = None;
        verdict.build_reasons.clear();
        verdict.build = Readiness::Ready;
        if inventory.chosen(&description.id).is_none() {
            let text = format!("the {} for {} is not installed", description.name, target.triple);
            let command = format!("gpubuild toolkit install {} --target {}", description.id, target.triple);
            verdict.build = Readiness::Blocked;
            verdict.build_reasons.push(Reason::new(id!("cross.toolkit-missing"), text).hint(command));
        }
    }
}
