//! NVIDIA's stubs of the driver's library, which are for the linker only, not for the loader.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind, Severity};
use gpubuild_detect::id;
use gpubuild_host::Os;

use super::{chosen, evidence, has_driver_library, is_windows, release};
use crate::DiagnosisCase;
use crate::checks::nvidia::NvidiaView;

/// What `cuInit` of a stub answers.
const STUB: u32 = 34;

/// The linker finds nothing for `-lcuda`: neither a driver nor a stub.
pub(super) fn missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = chosen(case) else { return Vec::new() };
    if case.facts.platform.os != Os::Linux || has_driver_library(case) || case.signs.cuda_toolkit.links_stubs
    {
        return Vec::new();
    }
    let draft = FindingDraft::new(id!("cuda.stub-missing"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("root", copy.root.as_str())
        .value("dashed", release(copy).replace('.', "-"))
        .evidence(evidence(copy))
        .evidence(Evidence::file("libcuda.so", "absent"));
    vec![match copy.part("driver-stub").and_then(gpubuild_host::HostPath::parent) {
        // CMake and gpubuild find it there; plain linkers and crates need its path.
        Some(folder) => draft
            .kind(FindingKind::Note)
            .case("told")
            .value("folder", folder.as_str())
            .evidence(Evidence::env("LIBRARY_PATH", case.env.get("LIBRARY_PATH").unwrap_or("unset"))),
        None => draft.evidence(Evidence::file(copy.root.join("lib64/stubs/libcuda.so").as_str(), "absent")),
    }]
}

/// The loader searches a folder of stubs and would use a stub as the driver.
pub(super) fn at_runtime(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    if is_windows(case) {
        return Vec::new();
    }
    let loader = case.inventory.runtimes.get(&Backend::Cuda).and_then(|runtime| runtime.loader.as_ref());
    let taken = loader.filter(|loader| loader.value.as_str().split('/').any(|name| name == "stubs"));
    let Some(first) = case.signs.cuda_toolkit.stubs.first() else { return Vec::new() };
    let mut draft = FindingDraft::new(id!("cuda.stub-at-runtime"))
        .backend(Backend::Cuda)
        .affects(Affects::Run)
        .value("origin", first.origin.clone())
        .value("folder", first.folder.as_str());
    for stubs in &case.signs.cuda_toolkit.stubs {
        draft = draft.evidence(match stubs.origin.as_str() {
            "LD_LIBRARY_PATH" => Evidence::env("LD_LIBRARY_PATH", stubs.folder.as_str()),
            file => Evidence::file(file, stubs.folder.as_str()),
        });
    }
    let answered = NvidiaView::new(case).and_then(|view| view.code());
    if taken.is_none() && answered.is_some_and(|code| code != STUB) {
        // The driver itself answered: this is not why programs find no GPU.
        draft = draft.severity(Severity::Warning);
    }
    if let Some(loader) = taken {
        draft = draft
            .evidence(Evidence::file(loader.value.as_str(), "a stub, which the loader uses as the driver"));
    }
    if first.origin != "LD_LIBRARY_PATH" {
        return vec![draft.case("configuration")];
    }
    let kept: Vec<&str> = case
        .env
        .get("LD_LIBRARY_PATH")
        .unwrap_or_default()
        .split(':')
        .filter(|folder| !folder.is_empty() && !folder.split('/').any(|name| name == "stubs"))
        .collect();
    vec![draft.value("kept", kept.join(":"))]
}
