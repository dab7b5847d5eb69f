//! Drafts become findings. Nothing in them depends on the machine that looks at a file.

use gpubuild_detect::finding::{Finding, FindingDraft, Findings, Remedy, Severity};

/// The finding of a draft: its words are its own, links and questions may come from the catalogue.
#[must_use]
pub fn tell(draft: &FindingDraft, findings: &Findings) -> Finding {
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
