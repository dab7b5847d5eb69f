//! Checks that belong to no vendor.

use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;
use gpubuild_host::Os;

use super::DoctorCheck;
use crate::DiagnosisCase;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("cpu.compiler-missing"), run: no_compiler },
    DoctorCheck { id: id!("cmake.missing"), run: cmake_missing },
    DoctorCheck { id: id!("cmake.outdated"), run: cmake_outdated },
    DoctorCheck { id: id!("cmake.build-tool-missing"), run: no_build_tool },
];

/// CMake is not installed on a machine for development. gpubuild fetches its own copy.
fn cmake_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    if !is_for_development(case) || !case.inventory.of("cmake").is_empty() {
        return Vec::new();
    }
    let draft = FindingDraft::new(id!("cmake.missing")).affects(Affects::Build);
    vec![draft.evidence(Evidence::env("PATH", "no cmake"))]
}

/// Every installed CMake is older than gpubuild and current projects need.
fn cmake_outdated(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let minimum = case.catalogue.get("cmake").and_then(|about| about.minimum.as_ref());
    let newest = case.inventory.of("cmake").iter().filter_map(Installation::version).max();
    let (Some(minimum), Some(newest)) = (minimum, newest) else { return Vec::new() };
    if !is_for_development(case) || newest >= minimum {
        return Vec::new();
    }
    let draft = FindingDraft::new(id!("cmake.outdated"))
        .affects(Affects::Build)
        .value("found", newest.to_string())
        .value("minimum", minimum.to_string());
    let programs = case.inventory.of("cmake").iter().filter_map(|copy| copy.part("program"));
    vec![programs.fold(draft, |draft, program| draft.evidence(Evidence::file(program.as_str(), "present")))]
}

/// Neither Ninja nor Make, one of which CMake runs. Visual Studio brings its own build tool.
fn no_build_tool(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let has_tool = case.signs.has_make || !case.inventory.of("ninja").is_empty();
    if has_tool || case.facts.platform.os == Os::Windows || !is_for_development(case) {
        return Vec::new();
    }
    let draft = FindingDraft::new(id!("cmake.build-tool-missing")).affects(Affects::Build);
    vec![draft.evidence(Evidence::env("PATH", "neither ninja nor make"))]
}

/// Whether native programs are built here: a C++ compiler, and the compiler or the headers of a backend, or a request.
fn is_for_development(case: &DiagnosisCase<'_>) -> bool {
    let is_complete = |tool: &str| case.inventory.of(tool).iter().any(Installation::is_complete);
    let has = |(toolkit, part): (&str, &str)| {
        case.inventory.of(toolkit).iter().any(|copy| copy.part(part).is_some())
    };
    let toolkits =
        [("cuda", "compiler"), ("rocm", "compiler"), ("oneapi", "compiler"), ("vulkan", "headers")];
    ["gcc", "clang", "msvc"].into_iter().any(is_complete)
        && (case.asked.is_some() || toolkits.into_iter().any(has))
}

/// Whether anything that only builds need is installed. Without it, the machine may be for running programs only.
fn has_tools(case: &DiagnosisCase<'_>) -> bool {
    let toolkits = ["cmake", "ninja", "cuda", "rocm", "oneapi", "vulkan", "opencl"];
    case.signs.has_make || toolkits.into_iter().any(|tool| !case.inventory.of(tool).is_empty())
}

/// No host compiler; adds the places that were searched as evidence.
fn no_compiler(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let is_reported = case
        .matrix
        .verdicts
        .iter()
        .flat_map(|verdict| &verdict.build_reasons)
        .any(|reason| reason.id == "cpu.compiler-missing");
    if !is_reported {
        return Vec::new();
    }
    let path = case.env.get("PATH").unwrap_or_default();
    let named = ["CC", "CXX"].iter().filter_map(|name| Some(Evidence::env(*name, case.env.get(name)?)));
    let places = std::iter::once(Evidence::new(EvidenceKind::Env, "PATH", path)).chain(named);
    let mut draft = places.fold(FindingDraft::new(id!("cpu.compiler-missing")), FindingDraft::evidence);
    let is_appliance = case.facts.system.is_some_and(|system| system.appliance);
    if is_appliance && case.facts.container.is_none() && case.asked.is_none() {
        draft = draft.kind(FindingKind::Note);
    } else if case.asked.is_none() && case.project.is_none() && !has_tools(case) {
        draft = draft.kind(FindingKind::Caution);
    }
    vec![draft]
}
