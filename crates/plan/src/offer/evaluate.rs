//! The backend matrix with the toolkits that gpubuild could install.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::matrix::{self, Matrix, Probes, Reason};
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};

use super::which::{self, OfferMachine};

/// [`matrix::evaluate`], with `gpubuild toolkit install` as a hint wherever a toolkit is missing and a release of it suits.
#[must_use]
pub fn evaluate(facts: &Facts, inventory: &Inventory, catalogue: &Catalogue, probes: &Probes) -> Matrix {
    let mut matrix = matrix::evaluate(facts, inventory, catalogue, probes);
    for verdict in matrix.verdicts.iter_mut().filter(|verdict| verdict.backend != Backend::Cpu) {
        let Some(description) = catalogue.for_backend(verdict.backend) else { continue };
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

/// The way without root, where a toolkit is missing and a release of it suits.
fn offer(machine: &OfferMachine<'_>, description: &Description, reasons: &mut [Reason]) {
    let ids = (description.missing.iter().chain(&description.root_invalid))
        .chain(description.parts.values().filter_map(|part| part.missing.as_ref()));
    let ids: Vec<&DiagnosticId> = ids.collect();
    let Some(reason) = reasons.iter_mut().find(|reason| ids.contains(&&reason.id)) else { return };
    if which::command(machine, description).is_some() {
        let other = reason.hint.take().map(|hint| format!(", or {hint}")).unwrap_or_default();
        reason.hint = Some(format!("{}{other}", which::words(description)));
    }
}
