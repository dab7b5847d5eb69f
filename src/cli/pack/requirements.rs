//! Requirements of a variant that was built.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_plan::plan::archs::ArchSelection;
use gpubuild_release::ReleaseMachine;
use gpubuild_release::manifest::ReleaseVariant;
use gpubuild_release::pack::{PackError, describe};

use super::super::CommandContext;
use super::super::Failure;
use super::super::build::PlannedBuild;
use super::{PackArguments, failure};

/// The requirements of the variant that can be derived from the build.
pub(super) fn requirements(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    (planned, outcome): (&PlannedBuild, &BuildOutcome),
) -> Result<ReleaseVariant, Failure> {
    let host = context.host;
    let unknown = |error: describe::UnknownRequirement| failure(&PackError::Requirement(error));
    let built = &outcome.manifest;
    let platform = planned.selection.target.platform(host)?;
    let os = platform.os;
    let cuda = planned.machine.catalogue.for_backend(Backend::Cuda);
    let floor = |release: &Version| cuda?.driver_floor(release, os).cloned();
    let toolkit = |compiler: &str| {
        let (id, path) = (Backend::Cuda.id(), host.path(compiler));
        let of_target = planned.machine.for_target.get(id).into_iter().flatten();
        let mut copies = planned.machine.inventory.of(id).iter().chain(of_target);
        let own = copies.find(|copy| path.is_inside(&copy.root));
        own.and_then(|copy| copy.version()).cloned()
    };
    Ok(ReleaseVariant {
        backends: built.backends.clone(),
        portable: is_portable(arguments, context, (planned, outcome)),
        cuda: describe::cuda(built, toolkit, floor).map_err(unknown)?,
        rocm: describe::rocm(built).map_err(unknown)?,
        cpu: describe::cpu(built, platform.arch.id(), planned.project.file.audit.cpu.as_deref())
            .map_err(unknown)?,
        ..ReleaseVariant::default()
    })
}

/// Whether the variant supports all devices: `portable` in gpubuild.toml, else whether its device code covers all architectures of the
/// toolkit instead of the GPUs of this machine.
fn is_portable(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    (planned, outcome): (&PlannedBuild, &BuildOutcome),
) -> bool {
    let file = &planned.project.file;
    let table = planned
        .selection
        .variant
        .as_ref()
        .and_then(|name| file.variants.iter().find(|table| table.name == *name));
    if let Some(portable) = table.and_then(|table| table.portable) {
        return portable;
    }
    let host = context.host;
    let machine =
        ReleaseMachine::of(&planned.machine.facts, &planned.machine.matrix, &planned.machine.catalogue);
    let covers_all = |backend: Backend| {
        let flag = arguments.selection.cuda_archs.as_deref();
        let selection = match backend {
            Backend::Cuda => ArchSelection::cuda(flag, host.env(), Some(file)),
            _ => ArchSelection::rocm(host.env(), Some(file)),
        };
        let has_devices = machine.backends.get(&backend).is_some_and(|backend| !backend.devices.is_empty());
        matches!(selection.text.as_str(), "all" | "all-major") || (selection.text == "auto" && !has_devices)
    };
    let with_device_code: Vec<Backend> = [Backend::Cuda, Backend::Rocm]
        .into_iter()
        .filter(|one| outcome.manifest.backends.contains(one))
        .collect();
    !with_device_code.is_empty() && with_device_code.into_iter().all(covers_all)
}
