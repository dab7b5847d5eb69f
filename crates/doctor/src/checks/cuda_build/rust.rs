//! Requirements of the build scripts of Rust crates besides the toolkit.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;

use crate::DiagnosisCase;
use crate::checks::cuda_toolkit::chosen;
use crate::signs::cuda_build::LibclangSign;

/// Crates that query `nvidia-smi` for the architecture panic without it.
pub(super) fn needs_smi(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.cuda_build;
    if chosen(case).is_none() || signs.nvidia_smi.is_some() || case.env.get("CUDA_COMPUTE_CAP").is_some() {
        return Vec::new();
    }
    let arch = case.matrix.verdict(Backend::Cuda).devices.iter().find_map(|gpu| gpu.arch.as_deref());
    let number = arch.map(|arch| arch.trim_start_matches("sm_").to_owned());
    let draft = FindingDraft::new(id!("cuda.arch.needs-smi"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("arch", number.unwrap_or_else(|| "89".to_owned()))
        .evidence(Evidence::env("PATH", "no nvidia-smi"))
        .evidence(Evidence::env("CUDA_COMPUTE_CAP", "unset"));
    vec![draft]
}

/// bindgen needs libclang, which is missing or which `LIBCLANG_PATH` does not lead to.
pub(super) fn libclang_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.cuda_build;
    let draft = FindingDraft::new(id!("cuda.libclang-missing")).affects(Affects::Build);
    let Some(libclang) = &signs.libclang else { return Vec::new() };
    if let LibclangSign::InvalidVariable(place) = libclang {
        let draft = draft.case("variable").value("place", place.as_str()).kind(FindingKind::Caution);
        return vec![draft.evidence(Evidence::env("LIBCLANG_PATH", place.as_str()))];
    }
    if chosen(case).is_none() || *libclang == LibclangSign::Found {
        return Vec::new();
    }
    let draft = draft.evidence(Evidence::env("LIBCLANG_PATH", "unset"));
    vec![draft.evidence(Evidence::file("libclang", "not found in the folders of LLVM"))]
}
