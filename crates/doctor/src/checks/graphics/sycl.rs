//! SYCL: Level Zero, oneAPI's environment, and Intel's kernel drivers.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Gpu;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::json;
use gpubuild_detect::matrix::Presence;
use gpubuild_host::ProbeStatus;

use super::{gpus, has_loader, invalid_root, is_asked, reason, with_runtime};
use crate::DiagnosisCase;

/// Whether SYCL or Level Zero is requested or installed.
pub(in crate::checks) fn wants(case: &DiagnosisCase<'_>) -> bool {
    is_asked(case, Backend::Sycl)
        || !case.inventory.of("oneapi").is_empty()
        || case.signs.graphics.sycl.folder.is_some()
        || case.signs.graphics.sycl.sourced_by.is_some()
        || has_loader(case, Backend::Sycl)
}

fn kind(case: &DiagnosisCase<'_>) -> FindingKind {
    if wants(case) { FindingKind::Fault } else { FindingKind::Absence }
}

/// The Level Zero loader, its driver, or both are missing.
pub(super) fn level_zero(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("sycl.level-zero-missing");
    if let Some(draft) = left_out(case, id) {
        return vec![draft];
    }
    let Some(known) = reason(case, Backend::Sycl, id) else { return without_driver(case, id) };
    let library = known.values.get("library").cloned().unwrap_or_default();
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Sycl)
        .affects(Affects::Run)
        .kind(level_zero_kind(case))
        .value("library", &library)
        .evidence(Evidence::file(&library, "absent"));
    draft = with_runtime(case, Backend::Sycl, draft);
    let gpus = gpus(case, Backend::Sycl);
    if !gpus.is_empty() && gpus.iter().all(|gpu| gpu.is_legacy()) {
        draft = draft.value("card", &gpus[0].name).case("legacy");
    }
    vec![draft]
}

/// The driver is installed, and its release no longer supports the GPUs. 24.35 has build number 30872. Only a probe proves it, so it is
/// a caution.
/// Source: intel/compute-runtime, `LEGACY_PLATFORMS.md`.
fn left_out(case: &DiagnosisCase<'_>, id: DiagnosticId) -> Option<FindingDraft> {
    const LAST: u64 = 30872;
    let (driver, build) = case.signs.graphics.sycl.driver.as_ref().filter(|(_, build)| *build > LAST)?;
    let gpus = gpus(case, Backend::Sycl);
    let first = gpus.first().filter(|_| gpus.iter().all(|gpu| gpu.is_legacy()))?;
    let drivers = &case.inventory.runtimes.get(&Backend::Sycl)?.drivers;
    if drivers.iter().any(|driver| driver.found && driver.library.contains("legacy")) {
        return None;
    }
    let draft = FindingDraft::new(id)
        .backend(Backend::Sycl)
        .affects(Affects::Run)
        .kind(FindingKind::Caution)
        .case("left-out")
        .value("card", &first.name)
        .value("library", driver.as_str())
        .evidence(Evidence::file(driver.as_str(), format!("build {build}")));
    Some(first.evidence.iter().cloned().fold(draft, FindingDraft::evidence))
}

/// A caution if Level Zero was never installed and oneAPI's environment is not set: the environment comes first.
fn level_zero_kind(case: &DiagnosisCase<'_>) -> FindingKind {
    let is_set = case.signs.graphics.sycl.sourced_by.is_some();
    match kind(case) {
        FindingKind::Fault
            if !has_loader(case, Backend::Sycl) && !is_set && !is_asked(case, Backend::Sycl) =>
        {
            FindingKind::Caution
        }
        kind => kind,
    }
}

/// The GPU is available only through OpenCL, because the driver of Level Zero is missing. That is slower, and some libraries do
/// not support it.
fn without_driver(case: &DiagnosisCase<'_>, id: DiagnosticId) -> Vec<FindingDraft> {
    let driver = case
        .inventory
        .runtimes
        .get(&Backend::Sycl)
        .is_some_and(|runtime| runtime.drivers.iter().any(|driver| driver.found));
    if driver || !has_loader(case, Backend::Sycl) || !answers_through_opencl_only(case) {
        return Vec::new();
    }
    let library = "libze_intel_gpu.so.1";
    let draft = FindingDraft::new(id)
        .backend(Backend::Sycl)
        .affects(Affects::Run)
        .kind(FindingKind::Caution)
        .value("library", library)
        .summary(format!(
            "the GPU is available only through OpenCL: Level Zero's driver `{library}` was not found"
        ))
        .evidence(Evidence::file(library, "absent"));
    vec![with_runtime(case, Backend::Sycl, draft)]
}

/// Whether the SYCL probe lists GPUs, but none through Level Zero.
fn answers_through_opencl_only(case: &DiagnosisCase<'_>) -> bool {
    let Some(answer) = case.probes.get(&Backend::Sycl) else { return false };
    let Some(document) = json::parse(&answer.answer) else { return false };
    let devices = document["devices"].as_array().cloned().unwrap_or_default();
    let field = |device: &serde_json::Value, key: &str| {
        device[key].as_str().unwrap_or_default().to_lowercase().replace('-', "_")
    };
    let gpus: Vec<_> = devices.iter().filter(|device| field(device, "type").contains("gpu")).collect();
    !gpus.is_empty() && gpus.iter().all(|device| field(device, "backend").contains("opencl"))
}

/// oneAPI is installed and its environment is not set.
pub(super) fn not_sourced(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.graphics.sycl;
    let (Some(folder), None) = (&signs.folder, &signs.sourced_by) else { return Vec::new() };
    let Some(copy) = case.inventory.of("oneapi").first() else { return Vec::new() };
    let mut draft = FindingDraft::new(id!("sycl.env-not-sourced"))
        .backend(Backend::Sycl)
        .affects(Affects::Build)
        .value("folder", folder.to_string())
        .evidence(Evidence::file(copy.root.as_str(), "icpx"))
        .evidence(Evidence::env("ONEAPI_ROOT", "not set"))
        .evidence(Evidence::env("PATH", "no icpx"));
    if let Some(script) = &signs.script {
        draft =
            draft.value("script", script.to_string()).evidence(Evidence::file(script.as_str(), "present"));
    }
    // The runtime's libraries are in a folder that only the script adds to the loader's search path.
    let probe_failed = case.probes.get(&Backend::Sycl).is_some_and(|answer| answer.status != ProbeStatus::Ok);
    if probe_failed {
        draft = draft.affects(Affects::Run);
    }
    // A machine without a GPU is for building.
    let no_gpu = case.matrix.verdict(Backend::Sycl).hardware != Presence::Present;
    if probe_failed || no_gpu || is_asked(case, Backend::Sycl) {
        draft = draft.kind(FindingKind::Fault);
    }
    vec![draft]
}

/// The kernel driver is missing; a fault only if SYCL is wanted.
pub(super) fn driver_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let drafts = named(case, id!("sycl.driver.missing"));
    let Some((kernel, running, first)) = old_kernel(case) else { return drafts };
    let old = |draft: FindingDraft| {
        let draft = draft.value("kernel", running.to_string()).value("first", first.to_string());
        draft.evidence(Evidence::file("/proc/sys/kernel/osrelease", kernel)).case("old-kernel")
    };
    drafts.into_iter().map(old).collect()
}

/// The kernel, its release, and the first release that drives all Intel GPUs, if that is a later one.
fn old_kernel<'a>(case: &DiagnosisCase<'a>) -> Option<(&'a str, Version, Version)> {
    let kernel = case.facts.kernel.as_ref()?.value.as_str();
    let running: Version = kernel.split(['-', '+']).next()?.parse().ok()?;
    let first = gpus(case, Backend::Sycl).into_iter().filter_map(Gpu::first_kernel).max()?;
    (running < first).then_some((kernel, running, first))
}

/// Images that only run programs set the variable too; see [`invalid_root`].
pub(super) fn root_invalid(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    invalid_root(case, Backend::Sycl, id!("sycl.toolkit.root-invalid"))
}

/// The render node is missing.
pub(super) fn render_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    named(case, id!("sycl.render-missing"))
}

fn named(case: &DiagnosisCase<'_>, id: DiagnosticId) -> Vec<FindingDraft> {
    if reason(case, Backend::Sycl, id).is_none() {
        return Vec::new();
    }
    vec![FindingDraft::new(id).backend(Backend::Sycl).affects(Affects::Run).kind(kind(case))]
}
