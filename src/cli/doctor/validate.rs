//! `doctor --validate`: compiles, links and runs a small program per backend.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_detect::toolkit::description::PipelineStage;
use gpubuild_doctor::validate::{Bench, TrialOutcome, plan, run};

use super::machine::Examined;
use crate::cli::{CommandContext, Failure};

/// Tries every backend that was asked for, or all that can be built here; each in its turn.
pub(super) fn outcomes(
    context: &CommandContext<'_>,
    examined: &Examined,
    asked: Option<&[Backend]>,
) -> Result<Vec<TrialOutcome>, Failure> {
    let sight = &examined.sight;
    let bench = Bench {
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        matrix: &sight.matrix,
        os: sight.facts.platform.os,
    };
    let parent =
        gpubuild_host::folders::cache_folder(context.host).map(|cache| cache.join("validate")).ok_or_else(
            || Failure::usage(id!("doctor.no-cache"), "no user folder to work in").hint("set GPUBUILD_CACHE"),
        )?;
    let tried = |backend: &Backend| match asked {
        Some(asked) => asked.contains(backend),
        None => sight.matrix.verdict(*backend).build == Readiness::Ready,
    };
    let outcomes = Backend::ALL.into_iter().filter(tried).map(|backend| {
        context.printer.say(&format!("{backend}: compiling, linking and running a test program"));
        match plan(&bench, backend) {
            Ok(trial) => run(context.host, &trial, &parent),
            Err(why) => TrialOutcome::untried(backend, why),
        }
    });
    Ok(outcomes.map(|outcome| excuse(outcome, examined)).collect())
}

/// A program that fails because no device is present is not a problem of the toolchain.
fn excuse(outcome: TrialOutcome, examined: &Examined) -> TrialOutcome {
    let verdict = examined.sight.matrix.verdict(outcome.backend);
    if outcome.failed == Some(PipelineStage::Run) && verdict.hardware != Presence::Present {
        let message = format!("compiled and linked; no device to run it on ({})", outcome.message);
        return TrialOutcome { failed: None, message, ..outcome };
    }
    outcome
}
