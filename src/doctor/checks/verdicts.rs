//! What the verdicts of the matrix say already, as drafts: `detect` and the doctor never disagree.

use crate::backend::Backend;
use crate::doctor::Case;
use crate::finding::{Affects, Draft, Evidence, EvidenceKind};
use crate::matrix::{Presence, Readiness, Reason, Verdict};

/// One draft per reason, each told once although it blocks several backends.
pub(in crate::doctor) fn verdicts(case: &Case<'_>) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for verdict in &case.matrix.verdicts {
        let groups = [
            (Affects::Hardware, &verdict.hardware_reasons),
            (Affects::Build, &verdict.build_reasons),
            (Affects::Run, &verdict.run_reasons),
        ];
        for (affects, reasons) in groups {
            for reason in reasons.iter().filter(|reason| is_finding(case, verdict, affects, reason)) {
                let draft = draft(verdict, affects, reason);
                match drafts.iter_mut().find(|known| known.id == draft.id) {
                    Some(known) => *known = known.clone().backend(verdict.backend).affects(affects),
                    None => drafts.push(draft),
                }
            }
        }
    }
    drafts
}

/// That a machine has no AMD card, or is no Mac, is no finding: nobody is ill of it. It is one for who asked for it.
fn is_finding(case: &Case<'_>, verdict: &Verdict, affects: Affects, reason: &Reason) -> bool {
    let absent = reason.id.ends_with(".platform") || reason.id.ends_with(".hardware.absent");
    let asked = case.asked.is_some_and(|asked| asked.contains(&verdict.backend));
    let told_elsewhere = affects == Affects::Run && verdict.hardware == Presence::Absent;
    let works = affects == Affects::Run && verdict.run == Readiness::Ready;
    !absent || (asked && !told_elsewhere && !works)
}

fn draft(verdict: &Verdict, affects: Affects, reason: &Reason) -> Draft {
    let mut draft = Draft::new(&reason.id).summary(&reason.text).affects(affects);
    if verdict.backend != Backend::Cpu || reason.id.starts_with("cpu.") {
        draft = draft.backend(verdict.backend);
    }
    draft.values.clone_from(&reason.values);
    draft.fix.clone_from(&reason.hint);
    draft.about.clone_from(&reason.about);
    for (name, value) in &reason.values {
        draft = match name.as_str() {
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
    if affects != Affects::Build
        && let Some(gpu) = verdict.devices.first()
    {
        draft = gpu.evidence.iter().take(1).cloned().fold(draft, Draft::evidence);
    }
    draft
}
