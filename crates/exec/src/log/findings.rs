//! Converts recognised failures to findings with remedies for this machine. Consequences are attached to their causes.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Consequence, Evidence, Finding, FindingDraft, Findings, Severity, catalogue};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;

use super::{LogCause, LogReading};

/// The finding for a log in which no failure was recognised.
pub const UNRECOGNISED: DiagnosticId = id!("build.unrecognised");

/// Returns the findings of a log, root cause first. If nothing is recognised, returns one finding with severity `info`.
/// `log` is the name of the log in the evidence.
#[must_use]
pub fn to_findings(
    reading: &LogReading,
    log: &str,
    renderer: &FindingRenderer<'_>,
    findings: &Findings,
) -> Vec<Finding> {
    if reading.causes.is_empty() {
        return vec![renderer.render(&unrecognised(reading), Severity::Info)];
    }
    let mut reported: Vec<Finding> = Vec::new();
    for cause in &reading.causes {
        let finding = renderer.render(&draft(cause, log), Severity::Error);
        match root(&reported, &finding, findings) {
            Some(at) => reported[at].consequences.push(Consequence {
                id: finding.id,
                backend: finding.backend,
                summary: finding.summary,
            }),
            None => reported.push(finding),
        }
    }
    reported
}

fn draft(cause: &LogCause, log: &str) -> FindingDraft {
    let mut draft =
        FindingDraft::new(cause.id).evidence(Evidence::file(format!("{log}:{}", cause.line), &cause.text));
    for (name, value) in &cause.values {
        draft = draft.value(name, value);
    }
    draft.backends.extend(cause.backend);
    draft.summary.clone_from(&cause.summary);
    draft.fix.clone_from(&cause.fix);
    draft
}

/// Index of the reported finding that is the cause of a later one.
fn root(reported: &[Finding], finding: &Finding, findings: &Findings) -> Option<usize> {
    let entry = findings.get(&finding.id)?;
    let follows =
        |cause: &Finding| entry.follows.iter().any(|pattern| catalogue::matches(pattern, &cause.id));
    reported.iter().position(|cause| follows(cause) || (entry.symptom && cause.backend == finding.backend))
}

fn unrecognised(reading: &LogReading) -> FindingDraft {
    let draft = FindingDraft::new(UNRECOGNISED).value("lines", reading.lines.to_string());
    match &reading.first_error {
        Some(error) => draft.value("error", error),
        None => draft.case("calm"),
    }
}
