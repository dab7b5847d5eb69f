//! OpenCL: the loader and its drivers.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;

use super::{are_used_otherwise, gpus, is_asked, of_nvidia, reason, with_runtime};
use crate::DiagnosisCase;

/// Whether OpenCL is used on this machine. A loader alone proves nothing: it is part of CUDA Toolkits and other software.
pub(in crate::checks) fn wants(case: &DiagnosisCase<'_>) -> bool {
    let signs = &case.signs.graphics.opencl;
    // Debian's package of the CUDA Toolkit installs OpenCL's headers in `/usr`.
    let has_split = case.signs.cuda_toolkit.debian.is_some();
    let of_cuda = |root: &str| root.to_lowercase().contains("cuda") || has_split && root == "/usr";
    is_asked(case, Backend::Opencl)
        || signs.chosen.is_some()
        || signs.clinfo.is_some()
        || signs.vendors.is_some()
        || case.inventory.of("opencl").iter().any(|copy| !of_cuda(copy.root.as_str()))
}

/// The loader finds no driver for the GPU.
pub(super) fn no_driver(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("ocl.no-icd");
    let signs = &case.signs.graphics.opencl;
    let known = reason(case, Backend::Opencl, id);
    let gpus = gpus(case, Backend::Opencl);
    let mut draft = FindingDraft::new(id).backend(Backend::Opencl).affects(Affects::Run);
    if known.is_none() {
        // The system's loader works; the loader of the environment searches its own folder.
        let Some((loader, folder)) =
            signs.conda.as_ref().filter(|_| !gpus.is_empty() && signs.chosen.is_none())
        else {
            return Vec::new();
        };
        draft = draft.kind(if signs.conda_user.is_some() { FindingKind::Fault } else { FindingKind::Note });
        return vec![in_conda(draft, loader.as_str(), folder.as_str())];
    }
    let is_idle = !are_used_otherwise(case, &gpus, Backend::Opencl);
    let is_fault = signs.from_cuda.is_none() && (wants(case) || is_idle || signs.conda_user.is_some());
    draft = draft.kind(if is_fault || is_asked(case, Backend::Opencl) {
        FindingKind::Fault
    } else {
        FindingKind::Note
    });
    draft = with_runtime(case, Backend::Opencl, draft);
    if let Some((name, value, leads)) = &signs.chosen {
        draft = draft.value("variable", name).value("value", value).evidence(Evidence::env(name, value));
        return vec![draft.case(if *leads { "variable" } else { "variable-absent" })];
    }
    if let Some((loader, folder)) = &signs.conda {
        return vec![in_conda(draft, loader.as_str(), folder.as_str())];
    }
    draft = match gpus.first() {
        Some(gpu) if gpu.vendor == Vendor::Intel => draft.case("intel"),
        Some(gpu) if gpu.kernel_driver.as_deref() == Some("nvidia") => match &signs.unregistered_nvidia {
            Some(library) => draft
                .case("nvidia-unregistered")
                .value("library", library.as_str())
                .evidence(Evidence::file(library.as_str(), "present")),
            None => of_nvidia(case, draft),
        },
        _ => draft,
    };
    let vendors = if signs.vendors.is_some() { "no driver for the GPU" } else { "absent" };
    vec![draft.evidence(Evidence::file("/etc/OpenCL/vendors", vendors))]
}

fn in_conda(draft: FindingDraft, loader: &str, folder: &str) -> FindingDraft {
    draft
        .case("conda")
        .value("folder", folder)
        .evidence(Evidence::file(loader, "present"))
        .evidence(Evidence::file(folder, "no driver"))
}

/// Only a software device is present; a note if the GPU is used by another backend and OpenCL was not requested.
pub(super) fn software_only(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("ocl.software-only");
    if reason(case, Backend::Opencl, id).is_none() {
        return Vec::new();
    }
    let gpus = gpus(case, Backend::Opencl);
    if gpus.is_empty() {
        return vec![FindingDraft::new(id).backend(Backend::Opencl).case("no-card").kind(FindingKind::Note)];
    }
    let is_used = are_used_otherwise(case, &gpus, Backend::Opencl);
    let kind = match (is_asked(case, Backend::Opencl), is_used) {
        (true, _) => FindingKind::Fault,
        (false, true) => FindingKind::Note,
        (false, false) => FindingKind::Caution,
    };
    let draft = FindingDraft::new(id).backend(Backend::Opencl).affects(Affects::Run).kind(kind);
    vec![with_runtime(case, Backend::Opencl, draft)]
}
