//! Toolkits with a layout that tools do not expect.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;
use gpubuild_host::Arch;

use super::roots::is_debians;
use super::{chosen, evidence, release};
use crate::DiagnosisCase;

/// Variables that name the root folder of a toolkit.
const ROOTS: [&str; 5] = ["CUDAToolkit_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];

/// Debian's own package is spread over `/usr`, so tools that expect a single root folder do not find its parts.
pub(super) fn debian_split(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(debian) = &case.signs.cuda_toolkit.debian else { return Vec::new() };
    let Some(copy) = chosen(case).filter(|copy| copy.root.as_str() == "/usr") else { return Vec::new() };
    // Tools that need the library folder find it through this variable.
    if case.env.get("CUDA_LIBRARY_PATH").is_some() {
        return Vec::new();
    }
    let draft = FindingDraft::new(id!("cuda.toolkit.debian-split"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", release(copy))
        .value("libraries", debian.libraries.as_str())
        .evidence(evidence(copy))
        .evidence(Evidence::file("/usr/lib/nvidia-cuda-toolkit", "present"))
        .evidence(Evidence::file(debian.libraries.as_str(), "libraries"));
    let wrong = ROOTS.iter().find_map(|name| {
        let value = case.env.get(name)?;
        is_debians(case, &gpubuild_host::HostPath::new(copy.root.rules(), value)).then_some((*name, value))
    });
    vec![match wrong {
        Some((variable, value)) => draft
            .kind(FindingKind::Fault)
            .case("variable")
            .value("variable", variable)
            .value("place", value)
            .evidence(Evidence::env(variable, value)),
        // Only tools that expect a single root folder have a problem.
        None => draft.kind(FindingKind::Note),
    }]
}

/// A conda environment has its headers in `targets`, or has no headers.
pub(super) fn conda_layout(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(conda) = &case.signs.cuda_toolkit.conda else { return Vec::new() };
    let Some(nvcc) = &conda.nvcc else { return Vec::new() };
    let draft = FindingDraft::new(id!("cuda.toolkit.conda-layout"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("prefix", conda.prefix.as_str())
        .evidence(Evidence::env("CONDA_PREFIX", conda.prefix.as_str()))
        .evidence(Evidence::file(nvcc.as_str(), "present"));
    if !conda.headers {
        return vec![
            draft
                .case("headers")
                .evidence(Evidence::file(conda.prefix.join("targets").as_str(), "no headers")),
        ];
    }
    let Some(target) = &conda.target else { return Vec::new() };
    let is_chosen = chosen(case).is_some_and(|copy| copy.root.is_inside(&conda.real));
    let flags = ["CFLAGS", "CXXFLAGS", "CPPFLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "NVCC_PREPEND_FLAGS"];
    let is_set =
        flags.iter().chain(&ROOTS).filter_map(|name| case.env.get(name)).any(|text| text.contains("targets"));
    if !is_chosen || is_set {
        return Vec::new();
    }
    let draft = draft
        .value("target", target.as_str())
        .evidence(Evidence::file(target.join("include").as_str(), "headers"));
    let names_prefix = |name: &&&str| {
        case.env.get(name).is_some_and(|value| value.trim_end_matches(['/', '\\']) == conda.prefix.as_str())
    };
    vec![match ROOTS.iter().find(names_prefix) {
        Some(variable) => draft
            .kind(FindingKind::Caution)
            .case("variable")
            .value("variable", *variable)
            .evidence(Evidence::env(*variable, conda.prefix.as_str())),
        None => draft.kind(FindingKind::Note),
    }]
}

/// An ARM server has its libraries only in the folder of its target.
pub(super) fn sbsa(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(folder) = &case.signs.cuda_toolkit.target_libraries else { return Vec::new() };
    let is_plain = |copy: &&Installation| !super::is_of_environment(case, copy);
    let Some(copy) = chosen(case).filter(is_plain) else { return Vec::new() };
    let variables = ["LIBRARY_PATH", "CUDA_LIBRARY_PATH"];
    let is_set =
        variables.iter().filter_map(|name| case.env.get(name)).any(|text| text.contains("sbsa-linux"));
    if case.facts.platform.arch != Arch::Aarch64 || is_set {
        return Vec::new();
    }
    vec![
        FindingDraft::new(id!("cuda.toolkit.sbsa"))
            .backend(Backend::Cuda)
            .affects(Affects::Build)
            .value("folder", folder.as_str())
            .value("root", copy.root.as_str())
            .evidence(Evidence::file(folder.as_str(), "the only libraries"))
            .evidence(Evidence::file(copy.root.join("lib64").as_str(), "absent")),
    ]
}
