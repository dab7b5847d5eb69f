//! `doctor --validate`: compiles, links and runs a small program per backend.

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_detect::toolkit::description::Stage;
use gpubuild_doctor::validate::{Bench, Outcome, plan, run};

use super::machine::Examined;
use crate::cli::{Context, Failure};

/// Tries every backend that was asked for, or all that can be built here; each in its turn.
pub(super) fn outcomes(
    context: &Context<'_>,
    examined: &Examined,
    asked: Option<&[Backend]>,
) -> Result<Vec<Outcome>, Failure> {
    let sight = &examined.sight;
    let bench = Bench {
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        matrix: &sight.matrix,
        os: sight.facts.platform.os,
    };
    let parent = gpubuild_host::folders::cache_folder(context.host)
        .map(|cache| cache.join("validate"))
        .ok_or_else(|| {
            Failure::usage("doctor.no-cache", "there is no folder of the user's to work in")
                .hint("set GPUBUILD_CACHE")
        })?;
    let tried = |backend: &Backend| match asked {
        Some(asked) => asked.contains(backend),
        None => sight.matrix.verdict(*backend).build == Readiness::Ready,
    };
    let outcomes = Backend::ALL.into_iter().filter(tried).map(|backend| {
        context.printer.say(&format!("{backend}: compiling, linking and running a test program"));
        match plan(&bench, backend) {
            Ok(trial) => run(context.host, &trial, &parent),
            Err(why) => Outcome::untried(backend, why),
        }
    });
    Ok(outcomes.map(|outcome| excuse(outcome, examined)).collect())
}

/// A program that does not run where there is no device for it says nothing against the toolchain.
fn excuse(outcome: Outcome, examined: &Examined) -> Outcome {
    let verdict = examined.sight.matrix.verdict(outcome.backend);
    if outcome.failed == Some(Stage::Run) && verdict.hardware != Presence::Present {
        let message = format!("compiled and linked; no device to run it on ({})", outcome.message);
        return Outcome { failed: None, message, ..outcome };
    }
    outcome
}
