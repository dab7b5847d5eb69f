//! Vulkan, Metal, OpenCL and SYCL.

mod metal;
mod opencl;
mod sycl;
mod vulkan;

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::finding::{Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_host::Os;

use super::DoctorCheck;
use super::nvidia::NvidiaView;
use super::rocm::{invalid_root, is_asked, looked_for, reason};
use crate::DiagnosisCase;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("vk.sdk-path-wrong"), run: vulkan::sdk_path_wrong },
    DoctorCheck { id: id!("vk.header-mismatch"), run: vulkan::header_mismatch },
    DoctorCheck { id: id!("vk.headers-missing"), run: vulkan::headers_incomplete },
    DoctorCheck { id: id!("vk.library-missing"), run: vulkan::library_missing },
    DoctorCheck { id: id!("vk.glslc-missing"), run: vulkan::glslc_missing },
    DoctorCheck { id: id!("vk.loader-missing"), run: vulkan::loader_missing },
    DoctorCheck { id: id!("vk.icd-missing"), run: vulkan::icd_missing },
    DoctorCheck { id: id!("vk.software-only"), run: vulkan::software_only },
    DoctorCheck { id: id!("metal.clt-only"), run: metal::tools_only },
    DoctorCheck { id: id!("metal.toolchain-asset"), run: metal::asset },
    DoctorCheck { id: id!("ocl.no-icd"), run: opencl::no_driver },
    DoctorCheck { id: id!("ocl.software-only"), run: opencl::software_only },
    DoctorCheck { id: id!("sycl.level-zero-missing"), run: sycl::level_zero },
    DoctorCheck { id: id!("sycl.env-not-sourced"), run: sycl::not_sourced },
    DoctorCheck { id: id!("sycl.driver.missing"), run: sycl::driver_missing },
    DoctorCheck { id: id!("sycl.render-missing"), run: sycl::render_missing },
    DoctorCheck { id: id!("sycl.toolkit.root-invalid"), run: sycl::root_invalid },
    DoctorCheck { id: id!("vk.sdk-missing"), run: absences },
];

pub(super) use opencl::wants as wants_opencl;
pub(super) use sycl::wants as wants_sycl;
pub(super) use vulkan::is_last_resort;
pub(super) use vulkan::wants as wants_vulkan;

/// Toolkits that are not installed, with the places that were searched.
fn absences(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    [
        (id!("vk.sdk-missing"), Backend::Vulkan),
        (id!("metal.sdk-missing"), Backend::Metal),
        (id!("ocl.sdk-missing"), Backend::Opencl),
        (id!("sycl.toolkit.missing"), Backend::Sycl),
    ]
    .into_iter()
    .filter(|(id, backend)| reason(case, *backend, *id).is_some())
    .map(|(id, backend)| looked_for(case, FindingDraft::new(id), backend))
    .chain(no_hardware(case))
    .collect()
}

/// Requested backends without hardware, with evidence of its absence.
fn no_hardware(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let evidence = match case.facts.platform.os {
        Os::Linux => Evidence::file("/sys/bus/pci/devices", "no such GPU"),
        Os::Windows => Evidence::new(
            EvidenceKind::Registry,
            r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}",
            "no such GPU",
        ),
        Os::Macos => Evidence::new(EvidenceKind::Dlopen, "probe:metal", "no such GPU"),
    };
    [Backend::Rocm, Backend::Vulkan, Backend::Metal, Backend::Opencl, Backend::Sycl]
        .into_iter()
        .filter(|backend| is_asked(case, *backend))
        .flat_map(|backend| {
            let reasons = case.matrix.verdict(backend).hardware_reasons.iter();
            reasons.map(move |reason| FindingDraft::new(reason.id).backend(backend))
        })
        .map(|draft| draft.evidence(evidence.clone()))
        .collect()
}

fn has_loader(case: &DiagnosisCase<'_>, backend: Backend) -> bool {
    case.inventory.runtimes.get(&backend).is_some_and(|runtime| runtime.loader.is_some())
}

/// Adds a backend's loader and its drivers as evidence.
fn with_runtime(case: &DiagnosisCase<'_>, backend: Backend, mut draft: FindingDraft) -> FindingDraft {
    let Some(runtime) = case.inventory.runtimes.get(&backend) else { return draft };
    for one in runtime.loader.iter().flat_map(|fact| &fact.evidence) {
        draft = draft.evidence(one.clone());
    }
    for driver in &runtime.drivers {
        let state =
            if driver.found { driver.library.clone() } else { format!("{} (not found)", driver.library) };
        draft = draft.evidence(Evidence::file(driver.manifest.as_str(), state));
    }
    draft
}

/// The GPUs that a backend can use, without software devices.
fn gpus<'a>(case: &DiagnosisCase<'a>, backend: Backend) -> Vec<&'a Gpu> {
    case.matrix.verdict(backend).devices.iter().filter(|gpu| gpu.vendor != Vendor::Software).collect()
}

/// Whether every one of these GPUs runs with a backend other than this one.
fn are_used_otherwise(case: &DiagnosisCase<'_>, gpus: &[&Gpu], backend: Backend) -> bool {
    let runs = |gpu: &Gpu| {
        case.matrix.verdicts.iter().any(|other| {
            other.backend != backend
                && other.backend != Backend::Cpu
                && other.run == Readiness::Ready
                && other.hardware == Presence::Present
                && other.devices.iter().any(|device| device.vendor == gpu.vendor)
        })
    };
    !gpus.is_empty() && gpus.iter().all(|gpu| runs(gpu))
}

/// The case of a graphics driver that belongs to NVIDIA's driver, with the branch for names of packages.
fn of_nvidia(case: &DiagnosisCase<'_>, draft: FindingDraft) -> FindingDraft {
    let draft = draft.case("nvidia");
    match NvidiaView::new(case) {
        Some(view) => view.with_branch(draft, "nvidia-replaced"),
        None => draft,
    }
}

/// Whether all GPUs are compute GPUs without a display that run with another backend, so that graphics drivers are not expected.
fn compute_only(case: &DiagnosisCase<'_>, backend: Backend) -> bool {
    let gpus = gpus(case, backend);
    let headless = &case.signs.graphics.without_display;
    let is_headless = |gpu: &&Gpu| gpu.pci.as_ref().is_some_and(|address| headless.contains(address));
    !gpus.is_empty() && gpus.iter().all(is_headless) && are_used_otherwise(case, &gpus, backend)
}
