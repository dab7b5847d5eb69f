//! Adds installation hints to the backend matrix.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::matrix::{self, Matrix, Probes, Reason};
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};

use super::which::{self, OfferMachine};
use crate::packages;

/// [`matrix::evaluate`], with the hint `gpubuild toolkit install` for each missing toolkit of which a release suits the
/// machine.
#[must_use]
pub fn evaluate(facts: &Facts, inventory: &Inventory, catalogue: &Catalogue, probes: &Probes) -> Matrix {
    let mut matrix = matrix::evaluate(facts, inventory, catalogue, probes);
    for verdict in matrix.verdicts.iter_mut().filter(|verdict| verdict.backend != Backend::Cpu) {
        let Some(description) = catalogue.for_backend(verdict.backend) else { continue };
        offer_packages(facts, description, &mut verdict.build_reasons);
        if inventory.chosen(&description.id).is_some() {
            continue;
        }
        let (driver, devices) = (verdict.driver.as_ref(), verdict.devices.as_slice());
        offer(
            &OfferMachine { facts, inventory, catalogue, driver, devices },
            description,
            &mut verdict.build_reasons,
        );
    }
    matrix
}

/// Prepends the installation command to the hint of the reason that reports the missing toolkit, if a release suits.
fn offer(machine: &OfferMachine<'_>, description: &Description, reasons: &mut [Reason]) {
    let ids = (description.missing.iter().chain(&description.root_invalid))
        .chain(description.parts.values().filter_map(|part| part.missing.as_ref()));
    let ids: Vec<&DiagnosticId> = ids.collect();
    let Some(reason) = reasons.iter_mut().find(|reason| ids.contains(&&reason.id)) else { return };
    if which::command(machine, description).is_some() {
        prepend(reason, description);
    }
}

/// Prepends the installation command to the hints of the reasons that packages of this distribution resolve.
fn offer_packages(facts: &Facts, description: &Description, reasons: &mut [Reason]) {
    for reason in reasons {
        if packages::command(facts, &reason.id).is_some() {
            prepend(reason, description);
        }
    }
}

fn prepend(reason: &mut Reason, description: &Description) {
    let other = reason.hint.take().map(|hint| format!(", or {hint}")).unwrap_or_default();
    reason.hint = Some(format!("{}{other}", which::install_hint(description)));
}
