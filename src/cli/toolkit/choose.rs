//! The release that `toolkit install` installs: the named one, else one that fits this machine and the current project.

use gpubuild_core::arch::parse_cuda_list;
use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Inventory;
use gpubuild_host::HostInfo;
use gpubuild_plan::offer::{self, OfferMachine, ReleaseQuery};
use gpubuild_plan::plan::archs::ArchSelection;
use gpubuild_plan::plan::provision::{Objection, ReleaseChoice};
use gpubuild_plan::project::Project;
use gpubuild_plan::wheels::WheelLock;

use crate::cli::machine::MachineState;
use crate::cli::project::open_project;
use crate::cli::{CommandContext, Failure, plan};

/// Values of `--cuda-archs` that are not lists.
const ARCH_KEYWORDS: [&str; 4] = ["auto", "native", "all", "all-major"];

/// The release as requested on the command line.
pub(super) struct RequestedRelease<'a> {
    /// Id of the toolkit.
    pub(super) toolkit: &'a str,
    /// The release after the `@`.
    pub(super) release: Option<&'a str>,
    /// `--cuda-archs`.
    pub(super) cuda_archs: Option<&'a str>,
    /// Whether it is for another platform, so that driver, devices and compilers of this machine do not matter.
    pub(super) is_for_target: bool,
}

/// Selects a release and its lock; `None` if gpubuild offers no release of the toolkit.
pub(super) fn choose(
    requested: &RequestedRelease<'_>,
    context: &CommandContext<'_>,
    host: &dyn HostInfo,
    state: &MachineState,
) -> Result<Option<(ReleaseChoice, WheelLock)>, Failure> {
    let Some(description) = state.catalogue.get(requested.toolkit) else { return Ok(None) };
    if !offer::which::is_offered(requested.toolkit) {
        return Ok(None);
    }
    let project = current_project(context)?;
    let locks = plan::locks(context, project.as_ref())?;
    let backend = description.backends.first().copied().unwrap_or(Backend::Cuda);
    let table = project.as_ref().and_then(|project| project.file.backends.get(&backend));
    let of_project = project.as_ref().map(|project| &project.file);
    let archs = ArchSelection::cuda(requested.cuda_archs, host.env(), of_project);
    if let Some(list) = requested.cuda_archs.filter(|list| !ARCH_KEYWORDS.contains(list)) {
        parse_cuda_list(list).map_err(|error| {
            Failure::usage(id!("cuda.arch.invalid"), format!("{error} (--cuda-archs {list})"))
        })?;
    }
    let verdict = state.matrix.verdict(backend);
    let nothing = Inventory::default();
    let mut machine = OfferMachine {
        facts: &state.facts,
        inventory: &state.inventory,
        catalogue: &state.catalogue,
        driver: verdict.driver.as_ref(),
        devices: &verdict.devices,
    };
    if requested.is_for_target {
        machine = OfferMachine { inventory: &nothing, driver: None, devices: &[], ..machine };
    }
    let query = ReleaseQuery {
        asked: requested.release,
        archs: Some(&archs),
        requirement: table.and_then(|table| table.toolkit.as_deref()),
    };
    let choice = offer::which(&machine, description, &query, &locks).map_err(|reasons| refused(&reasons))?;
    let lock = locks
        .into_iter()
        .find(|lock| lock.toolkit == requested.toolkit && lock.version == choice.version)
        .ok_or_else(|| {
            Failure::negative(id!("toolkit.lock-invalid"), "the lock of the release is missing")
        })?;
    Ok(Some((choice, lock)))
}

/// The project in the current folder or above, if there is one.
fn current_project(context: &CommandContext<'_>) -> Result<Option<Project>, Failure> {
    match open_project(context, None) {
        Ok(project) => Ok(Some(project)),
        Err(failure) if failure.id == "project.not-found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The failure if no release fits, with the root cause first.
fn refused(reasons: &[Objection]) -> Failure {
    let Some((root, others)) = reasons.split_first() else {
        return Failure::usage(id!("toolkit.unknown-release"), "no release fits this machine");
    };
    let mut failure = Failure::usage(root.id, root.text.clone());
    failure.notes = others.iter().map(|one| format!("{} [{}]", one.text, one.id)).collect();
    failure.hint.clone_from(&root.hint);
    failure
}
