//! Converts the reasons of the verdicts to drafts, so that `detect` and the doctor always agree.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, Severity};
use gpubuild_detect::matrix::{Presence, Readiness, Reason, Verdict};
use gpubuild_host::Os;

use crate::DiagnosisCase;

/// One draft per reason; a reason that blocks several backends becomes one draft.
pub(crate) fn verdicts(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let mut drafts: Vec<FindingDraft> = Vec::new();
    for verdict in &case.matrix.verdicts {
        let groups = [
            (Affects::Hardware, &verdict.hardware_reasons),
            (Affects::Build, &verdict.build_reasons),
            (Affects::Run, &verdict.run_reasons),
        ];
        for (affects, reasons) in groups {
            for reason in reasons.iter().filter(|reason| is_finding(case, verdict, affects, reason)) {
                let draft = draft(case, verdict, affects, reason);
                match drafts.iter_mut().find(|known| known.id == draft.id) {
                    // Without a backend it concerns every build.
                    Some(known) if known.id.starts_with("env.") && known.backends.is_empty() => {
                        *known = known.clone().affects(affects);
                    }
                    Some(known) => *known = known.clone().backend(verdict.backend).affects(affects),
                    None => drafts.push(draft),
                }
            }
        }
    }
    drafts
}

/// Whether a reason is a finding. Absent hardware and other platforms are findings only for requested backends.
fn is_finding(case: &DiagnosisCase<'_>, verdict: &Verdict, affects: Affects, reason: &Reason) -> bool {
    let absent = reason.id.ends_with(".platform") || reason.id.ends_with(".hardware.absent");
    let is_requested = case.asked.is_some_and(|asked| asked.contains(&verdict.backend));
    let is_reported_as_hardware = affects == Affects::Run && verdict.hardware == Presence::Absent;
    let works = affects == Affects::Run && verdict.run == Readiness::Ready;
    !absent || (is_requested && !is_reported_as_hardware && !works)
}

/// Whether a reason comes from a variable that every build reads.
fn is_of_all_backends(case: &DiagnosisCase<'_>, reason: &Reason) -> bool {
    let variable = reason.values.get("variable");
    case.facts.variables.iter().any(|wrong| Some(&wrong.name) == variable && wrong.backend.is_none())
}

/// Evidence of absent hardware or of another platform: the devices that are present, or the system.
fn absence(case: &DiagnosisCase<'_>, id: &str) -> Option<Evidence> {
    let os = case.facts.platform.os;
    if id.ends_with(".platform") {
        return Some(Evidence::new(EvidenceKind::File, "operating system", format!("{os:?}").to_lowercase()));
    }
    if !id.ends_with(".hardware.absent") {
        return None;
    }
    let names: Vec<&str> = case.facts.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let seen = if names.is_empty() { "no GPU".to_owned() } else { format!("only {}", names.join(", ")) };
    Some(match os {
        Os::Linux => Evidence::file("/sys/bus/pci/devices", seen),
        Os::Windows => Evidence::new(EvidenceKind::Registry, "display adapters", seen),
        Os::Macos => Evidence::new(EvidenceKind::File, "the system's GPU", seen),
    })
}

fn draft(case: &DiagnosisCase<'_>, verdict: &Verdict, affects: Affects, reason: &Reason) -> FindingDraft {
    let mut draft = FindingDraft::new(reason.id).summary(&reason.text).affects(affects);
    let is_general = reason.id.starts_with("env.") && is_of_all_backends(case, reason);
    if !is_general && (verdict.backend != Backend::Cpu || reason.id.starts_with("cpu.")) {
        draft = draft.backend(verdict.backend);
    }
    // A backend that can be built but has no device, as in CI, only cannot run.
    if affects == Affects::Hardware && verdict.build == Readiness::Ready {
        draft = draft.severity(Severity::Warning);
    }
    draft.values.clone_from(&reason.values);
    draft.fix.clone_from(&reason.hint);
    draft.about.clone_from(&reason.about);
    for (name, value) in &reason.values {
        draft = match name.as_str() {
            // The value of a variable is not necessarily a path.
            "place" if reason.id.starts_with("env.") || reason.id.starts_with("cuda.arch.") => draft,
            "node" | "manifest" | "place" | "root" => draft.evidence(Evidence::file(value, "")),
            "variable" => {
                let place = reason.values.get("place").cloned().unwrap_or_default();
                draft.evidence(Evidence::env(value, place))
            }
            _ => draft,
        };
    }
    if let Some(error) = reason.id.starts_with("probe.").then_some(&reason.text) {
        let place = format!("__probe {}", verdict.backend);
        draft = draft.evidence(Evidence::new(EvidenceKind::Dlopen, place, error));
    }
    if let Some(evidence) = absence(case, &reason.id) {
        draft = draft.evidence(evidence);
    }
    if affects != Affects::Build
        && let Some(gpu) = verdict.devices.first()
    {
        draft = gpu.evidence.iter().take(1).cloned().fold(draft, FindingDraft::evidence);
    }
    draft
}
