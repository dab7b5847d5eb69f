//! How much a finding matters here: what was asked for, and what hardware is present.

use crate::backend::Backend;
use crate::facts::{Gpu, Vendor};
use crate::finding::{Affects, Draft, Entry, Findings, Kind, Severity};
use crate::matrix::{Presence, Readiness, Verdict};

use super::Case;

/// The severity of a draft.
pub(super) fn severity(case: &Case<'_>, findings: &Findings, draft: &Draft) -> Severity {
    if let Some(severity) = draft.severity {
        return severity;
    }
    let entry = findings.get(&draft.id);
    let kind = draft.kind.unwrap_or_else(|| entry.map_or(Kind::Absence, |entry| entry.kind));
    let own: Vec<Backend> = entry.and_then(|entry| entry.backend).into_iter().collect();
    let backends = if draft.backends.is_empty() { &own } else { &draft.backends };
    let matters = match case.asked {
        Some(asked) => backends.is_empty() || backends.iter().any(|backend| asked.contains(backend)),
        None => {
            backends.is_empty()
                || backends.iter().any(|backend| case.matrix.verdict(*backend).hardware == Presence::Present)
        }
    };
    match (kind, matters) {
        (Kind::Fault, true) => Severity::Error,
        (Kind::Absence, true) if case.asked.is_some() => Severity::Error,
        (Kind::Absence, true)
            if backends.iter().any(|backend| leaves_a_gpu_idle(case, findings, *backend)) =>
        {
            Severity::Error
        }
        (Kind::Caution, true) => Severity::Warning,
        (Kind::Fault, false)
            if case.asked.is_none()
                && affects_build(draft, entry)
                && backends.iter().any(|backend| is_builder(case, *backend)) =>
        {
            Severity::Warning
        }
        _ => Severity::Info,
    }
}

fn affects_build(draft: &Draft, entry: Option<&Entry>) -> bool {
    let own = entry.map(|entry| entry.affects.as_slice()).unwrap_or_default();
    let affects = if draft.affects.is_empty() { own } else { &draft.affects };
    affects.contains(&Affects::Build)
}

/// Whether a machine without any GPU is there to build for a backend: a CI job or an image with its compiler. What stops
/// the build is no error as long as nobody asks, but it is what such a machine is for.
fn is_builder(case: &Case<'_>, backend: Backend) -> bool {
    let is_real = |gpu: &Gpu| !matches!(gpu.vendor, Vendor::Virtual | Vendor::Software);
    let Some(description) = case.catalogue.for_backend(backend) else { return false };
    let copies = case.inventory.of(&description.id);
    !case.facts.gpus.iter().any(is_real) && copies.iter().any(|copy| copy.part("compiler").is_some())
}

/// Whether this backend is the first choice for a card of its own that works and for which nothing else can be built: then
/// its missing toolkit is what the user came for.
fn leaves_a_gpu_idle(case: &Case<'_>, findings: &Findings, backend: Backend) -> bool {
    let verdict = case.matrix.verdict(backend);
    let is_own = |gpu: &&Gpu| {
        gpu.integrated != Some(true) && gpu.vendor != Vendor::Software && native(gpu.vendor) == Some(backend)
    };
    let Some(gpu) = verdict.devices.iter().find(is_own) else { return false };
    // Mesa's Vulkan is what most cards of AMD and Intel are used with. NVIDIA's comes along with any driver and tells nothing.
    let runs_is_enough = matches!(gpu.vendor, Vendor::Amd | Vendor::Intel);
    let serves = |other: &&Verdict| {
        (other.build == Readiness::Ready || runs_is_enough)
            && other.run == Readiness::Ready
            && other.devices.iter().any(|device| device.vendor == gpu.vendor)
    };
    // What is broken is told first; what is missing beside it can wait.
    let is_absence = |id: &str| findings.get(id).is_some_and(|entry| entry.kind == Kind::Absence);
    let works = verdict.run_reasons.iter().all(|reason| is_absence(&reason.id));
    works && !case.matrix.verdicts.iter().any(|other| serves(&other))
}

/// The backend that a maker's cards are made for.
fn native(vendor: Vendor) -> Option<Backend> {
    Some(match vendor {
        Vendor::Nvidia => Backend::Cuda,
        Vendor::Amd => Backend::Rocm,
        Vendor::Intel => Backend::Sycl,
        Vendor::Apple => Backend::Metal,
        Vendor::Qualcomm => Backend::Opencl,
        Vendor::Virtual | Vendor::Software | Vendor::Other => return None,
    })
}
