//! Findings from what a log shows: words, the remedy for this machine, consequences under their causes.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Consequence, Evidence, Finding, FindingDraft, Findings, Severity, catalogue};
use gpubuild_detect::id;
use gpubuild_detect::tell::Teller;

use super::{LogCause, LogReading};

/// The finding of a log in which nothing was recognised.
pub const UNRECOGNISED: DiagnosticId = id!("build.unrecognised");

/// The findings of a log, the root cause first; one note if nothing is recognised. `place` is the name under which the log
/// is quoted.
#[must_use]
pub fn tell(reading: &LogReading, place: &str, teller: &Teller<'_>, findings: &Findings) -> Vec<Finding> {
    if reading.causes.is_empty() {
        return vec![teller.tell(&unrecognised(reading), Severity::Info)];
    }
    let mut told: Vec<Finding> = Vec::new();
    for cause in &reading.causes {
        let finding = teller.tell(&draft(cause, place), Severity::Error);
        match root(&told, &finding, findings) {
            Some(at) => told[at].consequences.push(Consequence {
                id: finding.id,
                backend: finding.backend,
                summary: finding.summary,
            }),
            None => told.push(finding),
        }
    }
    told
}

fn draft(cause: &LogCause, place: &str) -> FindingDraft {
    let mut draft =
        FindingDraft::new(cause.id).evidence(Evidence::file(format!("{place}:{}", cause.line), &cause.text));
    for (name, value) in &cause.values {
        draft = draft.value(name, value);
    }
    draft.backends.extend(cause.backend);
    draft.summary.clone_from(&cause.summary);
    draft.fix.clone_from(&cause.fix);
    draft
}

/// The cause that a finding follows from, among those that stand before it in the log.
fn root(told: &[Finding], finding: &Finding, findings: &Findings) -> Option<usize> {
    let entry = findings.get(&finding.id)?;
    let follows =
        |cause: &Finding| entry.follows.iter().any(|pattern| catalogue::matches(pattern, &cause.id));
    told.iter().position(|cause| follows(cause) || (entry.symptom && cause.backend == finding.backend))
}

fn unrecognised(reading: &LogReading) -> FindingDraft {
    let draft = FindingDraft::new(UNRECOGNISED).value("lines", reading.lines.to_string());
    match &reading.first_error {
        Some(error) => draft.value("error", error),
        None => draft.case("calm"),
    }
}
