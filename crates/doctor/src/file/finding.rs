//! Converts finding drafts into findings. The result does not depend on the machine that runs the check.

use gpubuild_detect::finding::{Finding, FindingDraft, Findings, Remedy, Severity};

/// The finding of a draft. Summary and fix come from the draft if it has them, the rest from the catalogue's entry.
#[must_use]
pub fn to_finding(draft: &FindingDraft, findings: &Findings) -> Finding {
    let entry = findings.get(&draft.id);
    let title = || entry.map_or_else(|| draft.id.to_string(), |entry| entry.title.clone());
    let affects = match (draft.affects.is_empty(), entry) {
        (true, Some(entry)) => entry.affects.clone(),
        _ => draft.affects.clone(),
    };
    let text = draft.fix.clone().or_else(|| entry.map(|entry| entry.fix.clone())).unwrap_or_default();
    Finding {
        id: draft.id,
        severity: draft.severity.unwrap_or(Severity::Error),
        backend: draft.backends.first().copied().or_else(|| entry.and_then(|entry| entry.backend)),
        affects,
        summary: draft.summary.clone().unwrap_or_else(title),
        evidence: draft.evidence.clone(),
        remedy: Remedy { text, ..Remedy::default() },
        links: entry.map(|entry| entry.links.clone()).unwrap_or_default(),
        consequences: Vec::new(),
    }
}
