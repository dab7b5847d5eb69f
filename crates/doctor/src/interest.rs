//! Assigns severities from the requested backends and the hardware present.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::variables::{self, VariableRow};
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::finding::{Affects, FindingDraft, FindingKind, Findings, Severity};
use gpubuild_detect::matrix::{Presence, Readiness, Reason, Verdict};
use gpubuild_host::Os;

use super::DiagnosisCase;

/// Severities of the drafts. An absence becomes an error if it leaves a GPU unused, which depends on the other drafts.
pub(super) fn severities(
    case: &DiagnosisCase<'_>,
    findings: &Findings,
    drafts: &[FindingDraft],
) -> Vec<Severity> {
    let initial: Vec<Severity> = drafts.iter().map(|draft| severity(case, findings, draft)).collect();
    let is_reported = |(_, severity): &(&FindingDraft, &Severity)| **severity < Severity::Info;
    let reported: Vec<&FindingDraft> =
        drafts.iter().zip(&initial).filter(is_reported).map(|(draft, _)| draft).collect();
    let leaves_idle = |draft: &FindingDraft| {
        let backends = backends(findings, draft);
        draft.severity.is_none()
            && kind(findings, draft) == FindingKind::Absence
            && matters(case, &backends)
            && backends.iter().any(|backend| leaves_a_gpu_idle(case, findings, &reported, *backend))
    };
    let both = drafts.iter().zip(&initial);
    both.map(|(draft, initial)| if leaves_idle(draft) { Severity::Error } else { *initial }).collect()
}

fn kind(findings: &Findings, draft: &FindingDraft) -> FindingKind {
    draft.kind.unwrap_or_else(|| findings.get(&draft.id).map_or(FindingKind::Fault, |entry| entry.kind))
}

pub(super) fn backends(findings: &Findings, draft: &FindingDraft) -> Vec<Backend> {
    if draft.backends.is_empty() {
        findings.get(&draft.id).and_then(|entry| entry.backend).into_iter().collect()
    } else {
        draft.backends.clone()
    }
}

/// Whether one of the backends was requested or has its hardware present. A finding without a backend always matters.
fn matters(case: &DiagnosisCase<'_>, backends: &[Backend]) -> bool {
    let present = |backend: &Backend| case.matrix.verdict(*backend).hardware == Presence::Present;
    backends.is_empty()
        || match case.asked {
            Some(asked) => backends.iter().any(|backend| asked.contains(backend)),
            None => backends.iter().any(present),
        }
}

/// Severity of a draft regardless of the other drafts.
fn severity(case: &DiagnosisCase<'_>, findings: &Findings, draft: &FindingDraft) -> Severity {
    if let Some(severity) = draft.severity {
        return severity;
    }
    let backends = backends(findings, draft);
    match (kind(findings, draft), matters(case, &backends)) {
        (FindingKind::Fault, true) => Severity::Error,
        (FindingKind::Absence, true) if case.asked.is_some() => Severity::Error,
        (FindingKind::Note, true) if case.asked.is_some_and(|asked| blocks(case, asked, draft)) => {
            Severity::Error
        }
        (FindingKind::Caution, true) => Severity::Warning,
        (FindingKind::Fault, false)
            if case.asked.is_none()
                && affects_build(findings, draft)
                && backends.iter().any(|backend| is_builder(case, *backend)) =>
        {
            Severity::Warning
        }
        _ => Severity::Info,
    }
}

/// Whether a draft is the reason for which a requested backend can be neither built nor run here.
fn blocks(case: &DiagnosisCase<'_>, asked: &[Backend], draft: &FindingDraft) -> bool {
    asked.iter().any(|backend| {
        let verdict = case.matrix.verdict(*backend);
        let is_reason = |reasons: &[Reason]| reasons.iter().any(|reason| reason.id == draft.id);
        (verdict.build == Readiness::Blocked && is_reason(&verdict.build_reasons))
            || (verdict.run == Readiness::Blocked && is_reason(&verdict.run_reasons))
    })
}

fn affects_build(findings: &Findings, draft: &FindingDraft) -> bool {
    let own = findings.get(&draft.id).map(|entry| entry.affects.as_slice()).unwrap_or_default();
    let affects = if draft.affects.is_empty() { own } else { &draft.affects };
    affects.contains(&Affects::Build)
}

/// Whether a machine without a GPU serves as a builder for a backend: it has the compiler (for Vulkan the headers), as CI jobs
/// and images do. Such a machine exists to build, so a blocked build is a warning even without a request.
fn is_builder(case: &DiagnosisCase<'_>, backend: Backend) -> bool {
    let is_real = |gpu: &Gpu| !matches!(gpu.vendor, Vendor::Virtual | Vendor::Software);
    let Some(description) = case.catalogue.for_backend(backend) else { return false };
    let copies = case.inventory.of(&description.id);
    let marker = if backend == Backend::Vulkan { "headers" } else { "compiler" };
    !case.facts.gpus.iter().any(is_real) && copies.iter().any(|copy| copy.part(marker).is_some())
}

/// Whether a GPU that is not integrated has this backend as its native one, works, and has no other backend that can be built
/// for it. The missing toolkit is then the problem that the user wants to know about.
fn leaves_a_gpu_idle(
    case: &DiagnosisCase<'_>,
    findings: &Findings,
    reported: &[&FindingDraft],
    backend: Backend,
) -> bool {
    let verdict = case.matrix.verdict(backend);
    let is_own = |gpu: &&Gpu| {
        gpu.integrated != Some(true) && gpu.vendor != Vendor::Software && native(gpu.vendor) == Some(backend)
    };
    let Some(gpu) = verdict.devices.iter().find(is_own) else { return false };
    if backend == Backend::Cuda && !uses_cuda(case) {
        return false;
    }
    let drives = |other: &Verdict| other.devices.iter().any(|device| device.vendor == gpu.vendor);
    // AMD and Intel GPUs are mostly used through Mesa's Vulkan. NVIDIA's Vulkan is part of every driver, so its presence
    // proves nothing.
    let by_mesa = matches!(gpu.vendor, Vendor::Amd | Vendor::Intel);
    if by_mesa && is_useful_without_toolkit(case, gpu.vendor) {
        return false;
    }
    let serves = |other: &&Verdict| {
        (other.build == Readiness::Ready || by_mesa) && other.run == Readiness::Ready && drives(other)
    };
    // A broken component takes precedence over a missing one.
    let is_absence = |id: &str| findings.get(id).is_some_and(|entry| entry.kind == FindingKind::Absence);
    let is_reported = |id: &str| reported.iter().any(|draft| draft.id == id);
    let can_wait = |id: &str| if by_mesa { !is_reported(id) } else { is_absence(id) };
    let works = verdict.run_reasons.iter().all(|reason| can_wait(&reason.id));
    let is_for_card = |backend: &Backend| *backend != Backend::Cpu && drives(case.matrix.verdict(*backend));
    let is_broken = by_mesa && reported.iter().any(|draft| draft.backends.iter().any(is_for_card));
    works && !is_broken && !case.matrix.verdicts.iter().any(|other| serves(&other))
}

/// Whether anything beside the driver is for CUDA. The driver alone proves nothing: every NVIDIA card needs it for its display.
fn uses_cuda(case: &DiagnosisCase<'_>) -> bool {
    let signs = &case.signs.cuda_toolkit;
    let is_of_cuda = |row: &&VariableRow| row.backend == Some(Backend::Cuda);
    case.asked.is_some_and(|asked| asked.contains(&Backend::Cuda))
        || case.project.is_some_and(|project| project.backends.contains_key(&Backend::Cuda))
        || !case.inventory.of("cuda").is_empty()
        || !signs.runtimes.is_empty()
        || signs.conda.is_some()
        || variables::rows()
            .iter()
            .filter(is_of_cuda)
            .flat_map(|row| &row.names)
            .any(|name| case.env.get(name).is_some())
}

/// Whether an AMD or Intel GPU is useful without a toolkit: in a container, which serves a specific purpose; on Windows, where
/// the driver contains everything that programs need; where programs bundle the toolkit's libraries; or if another backend
/// is ready.
fn is_useful_without_toolkit(case: &DiagnosisCase<'_>, vendor: Vendor) -> bool {
    let is_ready = |verdict: &&Verdict| {
        verdict.backend != Backend::Cpu
            && verdict.hardware == Presence::Present
            && verdict.build == Readiness::Ready
            && verdict.run == Readiness::Ready
    };
    let has_traces = match vendor {
        Vendor::Amd => !case.signs.rocm.traces.is_empty(),
        _ => case.signs.graphics.sycl.folder.is_some() || case.signs.graphics.sycl.sourced_by.is_some(),
    };
    case.facts.container.is_some()
        || case.facts.platform.os == Os::Windows
        || has_traces
        || case.matrix.verdicts.iter().any(|verdict| is_ready(&verdict))
}

/// The native backend of a vendor's GPUs.
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
