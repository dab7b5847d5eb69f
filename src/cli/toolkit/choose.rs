//! Which release `toolkit install` takes: what was named, else what suits this machine and the project here.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_host::HostInfo;
use gpubuild_plan::offer::{self, OfferMachine, ReleaseQuery};
use gpubuild_plan::plan::archs::ArchSelection;
use gpubuild_plan::plan::provision::{Objection, ReleaseChoice};
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::WheelLock;

use crate::cli::look::{self, MachineState};
use crate::cli::{CommandContext, Failure, plan};

/// What is asked of the release.
pub(super) struct RequestedRelease<'a> {
    /// Id of the toolkit.
    pub(super) toolkit: &'a str,
    /// What stands after the `@`.
    pub(super) release: Option<&'a str>,
    /// `--cuda-archs`.
    pub(super) cuda_archs: Option<&'a str>,
}

/// The release and its lock; `None` for a toolkit that is not offered at all.
pub(super) fn choose(
    asked: &RequestedRelease<'_>,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
    sight: &MachineState,
) -> Result<Option<(ReleaseChoice, WheelLock)>, Failure> {
    let Some(description) = sight.catalogue.get(asked.toolkit) else { return Ok(None) };
    if !offer::which::is_offered(asked.toolkit) {
        return Ok(None);
    }
    let project = project_here(context)?;
    let locks = plan::locks(context, project.as_ref())?;
    let backend = description.backends.first().copied().unwrap_or(Backend::Cuda);
    let table = project.as_ref().and_then(|project| project.file.backends.get(&backend));
    let archs =
        ArchSelection::cuda(asked.cuda_archs, host.env(), table.and_then(|table| table.archs.as_ref()));
    let verdict = sight.matrix.verdict(backend);
    let machine = OfferMachine {
        facts: &sight.facts,
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        driver: verdict.driver.as_ref(),
        devices: &verdict.devices,
    };
    let wish = ReleaseQuery {
        asked: asked.release,
        archs: Some(&archs),
        requirement: table.and_then(|table| table.toolkit.as_deref()),
    };
    let choice = offer::which(&machine, description, &wish, &locks).map_err(|reasons| refused(&reasons))?;
    let lock = locks
        .into_iter()
        .find(|lock| lock.toolkit == asked.toolkit && lock.version == choice.version)
        .ok_or_else(|| Failure::negative(id!("toolkit.lock-invalid"), "the lock of the release is gone"))?;
    Ok(Some((choice, lock)))
}

/// The project in the current folder or above, if there is one.
fn project_here(context: &CommandContext<'_>) -> Result<Option<Project>, Failure> {
    match look::project(context, None) {
        Ok(project) => Ok(Some(project)),
        Err(failure) if failure.id == "project.not-found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Why nothing is installed, the root cause first.
fn refused(reasons: &[Objection]) -> Failure {
    let Some((root, others)) = reasons.split_first() else {
        return Failure::usage(id!("toolkit.unknown-release"), "nothing suits this machine");
    };
    let mut failure = Failure::usage(root.id, root.text.clone());
    failure.notes = others.iter().map(|one| format!("{} [{}]", one.text, one.id)).collect();
    failure.hint.clone_from(&root.hint);
    failure
}
