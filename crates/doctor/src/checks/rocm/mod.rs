//! ROCm and HIP.

mod access;
mod copies;
mod devices;
mod kernel;
mod overrides;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::finding::{Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;

use super::DoctorCheck;
use crate::DiagnosisCase;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("rocm.kfd-permission"), run: access::permission },
    DoctorCheck { id: id!("rocm.kfd-missing"), run: kernel::missing },
    DoctorCheck { id: id!("rocm.driver.missing"), run: kernel::driver_missing },
    DoctorCheck { id: id!("rocm.kernel-mismatch"), run: kernel::mismatch },
    DoctorCheck { id: id!("rocm.tools-false-negative"), run: kernel::tools },
    DoctorCheck { id: id!("rocm.gfx803"), run: devices::gfx803 },
    DoctorCheck { id: id!("rocm.gfx-unsupported"), run: devices::unsupported },
    DoctorCheck { id: id!("rocm.igpu-first"), run: devices::igpu_first },
    DoctorCheck { id: id!("rocm.override-dangerous"), run: overrides::dangerous },
    DoctorCheck { id: id!("rocm.override-windows"), run: overrides::windows },
    DoctorCheck { id: id!("rocm.two-installs"), run: copies::two_installs },
    DoctorCheck { id: id!("rocm.distro-layout"), run: copies::distro_layout },
    DoctorCheck { id: id!("rocm.device-libs-missing"), run: copies::device_libraries },
    DoctorCheck { id: id!("rocm.cmake-config"), run: copies::cmake_config },
    DoctorCheck { id: id!("rocm.toolkit.missing"), run: toolkit_missing },
    DoctorCheck { id: id!("rocm.runtime-missing"), run: runtime_missing },
    DoctorCheck { id: id!("rocm.toolkit.root-invalid"), run: root_invalid },
    DoctorCheck { id: id!("rocm.toolkit.headers-missing"), run: headers_missing },
];

/// Whether ROCm is requested, or anything on this machine shows that it is used.
fn is_wanted(case: &DiagnosisCase<'_>) -> bool {
    is_asked(case, Backend::Rocm) || !case.signs.rocm.traces.is_empty()
}

/// Whether a backend is requested.
pub(super) fn is_asked(case: &DiagnosisCase<'_>, backend: Backend) -> bool {
    case.asked.is_some_and(|asked| asked.contains(&backend))
}

/// The reason with this id among the build and run reasons of a backend.
pub(super) fn reason<'a>(case: &DiagnosisCase<'a>, backend: Backend, id: DiagnosticId) -> Option<&'a Reason> {
    let verdict = case.matrix.verdict(backend);
    verdict.build_reasons.iter().chain(&verdict.run_reasons).find(|reason| reason.id == id)
}

/// A fault if ROCm is wanted, otherwise an absence.
fn wanted_kind(case: &DiagnosisCase<'_>) -> FindingKind {
    if is_wanted(case) { FindingKind::Fault } else { FindingKind::Absence }
}

/// AMD GPUs from the facts, in the order in which programs see them.
fn gpus<'a>(case: &DiagnosisCase<'a>) -> Vec<&'a Gpu> {
    let all: Vec<&Gpu> = case.facts.gpus.iter().filter(|gpu| gpu.vendor == Vendor::Amd).collect();
    let nodes = &case.signs.rocm.kernel.nodes;
    let at = |address: &str| all.iter().find(|gpu| gpu.pci.as_deref() == Some(address)).copied();
    let ordered: Vec<&Gpu> = nodes.iter().filter_map(|node| at(&node.address)).collect();
    if ordered.is_empty() { all } else { ordered }
}

/// The variable that restricts the visible GPUs, with its value; `None` if none is set.
fn visible(case: &DiagnosisCase<'_>) -> Option<(&'static str, String)> {
    ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
        .into_iter()
        .find_map(|name| Some((name, case.env.get_raw(name)?.trim().to_owned())))
}

/// Whether the GPU with this index is visible to programs.
fn is_visible(case: &DiagnosisCase<'_>, index: usize) -> bool {
    let Some((_, list)) = visible(case) else { return true };
    let mut items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    // An item that is not a number is a unique id of a GPU, which the facts do not contain; treat it as a match.
    items.any(|item| item.parse::<usize>().map_or(true, |number| number == index))
}

/// A missing ROCm is only a note if no release supports any of the GPUs.
fn toolkit_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    if reason(case, Backend::Rocm, id!("rocm.toolkit.missing")).is_none() {
        return Vec::new();
    }
    let draft = looked_for(case, FindingDraft::new(id!("rocm.toolkit.missing")), Backend::Rocm);
    let gpus = gpus(case);
    let too_old = |gpu: &&Gpu| {
        let description = case.catalogue.for_backend(Backend::Rocm);
        let conflict = gpu
            .arch
            .as_deref()
            .zip(description)
            .and_then(|(arch, one)| one.device_conflict(arch, None, None));
        conflict.is_some_and(|row| row.id == "rocm.gfx803")
    };
    if !gpus.is_empty() && gpus.iter().all(too_old) {
        return vec![draft.kind(FindingKind::Note)];
    }
    vec![draft]
}

/// Adds the places where a backend's toolkit was searched, as evidence of its absence.
pub(super) fn looked_for(case: &DiagnosisCase<'_>, draft: FindingDraft, backend: Backend) -> FindingDraft {
    let draft = draft.backend(backend);
    let Some(toolkit) = case.catalogue.for_backend(backend) else { return draft };
    let os = case.facts.platform.os;
    let roots = toolkit.roots.iter().filter(|root| root.on.is_empty() || root.on.contains(&os));
    let unset = roots.filter_map(|root| root.env.as_ref()).filter(|name| case.env.get(name).is_none());
    let draft = unset.fold(draft, |draft, name| draft.evidence(Evidence::env(name, "not set")));
    let searched = case.inventory.searched.get(&toolkit.id).map_or(&[][..], Vec::as_slice);
    searched.iter().fold(draft, |draft, place| draft.evidence(Evidence::file(place, "absent")))
}

/// Images and machines that only run programs set the variable too; a missing compiler is not a fault there.
fn root_invalid(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    invalid_root(case, Backend::Rocm, id!("rocm.toolkit.root-invalid"))
}

/// The draft for a variable that names a folder without the compiler; a fault only on machines that build.
pub(super) fn invalid_root(
    case: &DiagnosisCase<'_>,
    backend: Backend,
    id: DiagnosticId,
) -> Vec<FindingDraft> {
    if reason(case, backend, id).is_none() {
        return Vec::new();
    }
    let has_loader = case.inventory.runtimes.get(&backend).is_some_and(|runtime| runtime.loader.is_some());
    let only_runs = has_loader || case.facts.container.is_some();
    let kind = if only_runs { FindingKind::Absence } else { FindingKind::Fault };
    vec![FindingDraft::new(id).backend(backend).kind(kind)]
}

/// Some programs bundle the compiler alone, so missing headers are a fault only next to CMake's package files.
fn headers_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("rocm.toolkit.headers-missing");
    if reason(case, Backend::Rocm, id).is_none() {
        return Vec::new();
    }
    let kind = if case.signs.rocm.copies.has_cmake { FindingKind::Fault } else { FindingKind::Absence };
    vec![FindingDraft::new(id).backend(Backend::Rocm).kind(kind)]
}

/// A missing runtime library is a fault if a toolkit is installed, otherwise a part of its absence.
fn runtime_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(_) = reason(case, Backend::Rocm, id!("rocm.runtime-missing")) else { return Vec::new() };
    let has_toolkit = !case.inventory.of("rocm").is_empty();
    let kind = if has_toolkit { FindingKind::Fault } else { FindingKind::Absence };
    vec![FindingDraft::new(id!("rocm.runtime-missing")).backend(Backend::Rocm).kind(kind)]
}
