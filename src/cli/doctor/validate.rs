//! `doctor --validate`: compiles, links and runs a small program per backend.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Presence;
use gpubuild_detect::toolkit::description::PipelineStage;
use gpubuild_doctor::validate::{TrialOutcome, ValidationContext, plan, run};

use super::diagnose::Diagnosis;
use crate::cli::{CommandContext, Failure};

/// Tests the requested backends, or all that can be built here, one after another.
pub(super) fn outcomes(
    context: &CommandContext<'_>,
    diagnosis: &Diagnosis,
    requested: Option<&[Backend]>,
) -> Result<Vec<TrialOutcome>, Failure> {
    let machine = &diagnosis.machine;
    let validation = ValidationContext {
        inventory: &machine.inventory,
        catalogue: &machine.catalogue,
        matrix: &machine.matrix,
        os: machine.facts.platform.os,
    };
    let parent = gpubuild_host::folders::cache_folder(context.host)
        .map(|cache| cache.join("validate"))
        .ok_or_else(|| {
            Failure::usage(id!("doctor.no-cache"), "the user's cache folder is unknown")
                .hint("set GPUBUILD_CACHE")
        })?;
    let is_selected = |backend: &Backend| match requested {
        Some(requested) => requested.contains(backend),
        None => machine.matrix.verdict(*backend).build.is_possible(),
    };
    let outcomes = Backend::ALL.into_iter().filter(is_selected).map(|backend| {
        context.printer.status(&format!("{backend}: compiling, linking and running a test program"));
        match plan(&validation, backend) {
            Ok(trial) => run(context.host, &trial, &parent),
            Err(why) => TrialOutcome::untried(backend, why),
        }
    });
    Ok(outcomes.map(|outcome| without_device_failure(outcome, diagnosis)).collect())
}

/// Does not count a failed run as a failure if no device is present: that is not a problem of the toolchain.
fn without_device_failure(outcome: TrialOutcome, diagnosis: &Diagnosis) -> TrialOutcome {
    let verdict = diagnosis.machine.matrix.verdict(outcome.backend);
    if outcome.failed == Some(PipelineStage::Run) && verdict.hardware != Presence::Present {
        let message = format!("compiled and linked; no device to run it on ({})", outcome.message);
        return TrialOutcome { failed: None, message, ..outcome };
    }
    outcome
}
