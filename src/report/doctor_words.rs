//! What the renderings of the doctor's document have in common: words, limits, and where in a file a finding is.

use std::borrow::Cow;

use gpubuild_core::clean;
use gpubuild_detect::finding::{Evidence, EvidenceKind, Finding, Severity};
use gpubuild_detect::matrix::Readiness;
use gpubuild_detect::toolkit::description::PipelineStage;
use gpubuild_doctor::snapshot::SnapshotChange;
use gpubuild_doctor::validate::TrialOutcome;

use super::doctor::{DoctorReport, DoctorSummary};

/// Most characters of a summary or a remedy.
pub(super) const SENTENCE: usize = 600;
/// Most characters of a path or a value.
pub(super) const VALUE: usize = 300;
/// Most observations of one finding.
pub(super) const OBSERVATIONS: usize = 20;

/// The line for commands that can't be shown exactly.
pub(super) const LEFT_OUT: &str = "a command is left out: it holds characters that can't be shown";

/// A place in a user's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FindingLocation {
    /// As it was named, with `/`.
    pub(super) path: String,
    /// From 1.
    pub(super) line: u32,
    /// From 1.
    pub(super) column: Option<u32>,
}

/// Where in a file a finding is. On a machine there is no such place: its files are not those of a project.
pub(super) fn location(document: &DoctorReport, finding: &Finding) -> Option<FindingLocation> {
    if document.host.is_some() {
        return None;
    }
    finding.evidence.iter().find_map(place)
}

/// `path:line` or `path:line:column`.
fn place(evidence: &Evidence) -> Option<FindingLocation> {
    if evidence.kind != EvidenceKind::File {
        return None;
    }
    let (rest, last) = number_at_end(&evidence.place)?;
    let (path, line, column) = match number_at_end(rest) {
        Some((path, line)) => (path, line, Some(last)),
        None => (rest, last, None),
    };
    Some(FindingLocation { path: file(path)?, line, column })
}

/// A path as printed; `None` if none of it is visible.
pub(super) fn file(path: &str) -> Option<String> {
    let path = clean::short(path, VALUE);
    (!path.trim().is_empty()).then(|| path.replace('\\', "/"))
}

fn number_at_end(text: &str) -> Option<(&str, u32)> {
    let (head, number) = text.rsplit_once(':')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!head.is_empty()).then_some((head, number))
}

/// The word of a severity.
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// What a remedy asks of a person, in words.
pub(super) fn needs(finding: &Finding) -> Vec<Cow<'_, str>> {
    let word = |need: &'_ String| match need.as_str() {
        "relogin" => Cow::Borrowed("re-login"),
        "host" => Cow::Borrowed("to be done outside of the container"),
        "windows" => Cow::Borrowed("to be done in Windows"),
        _ => Cow::Owned(clean::short(need, VALUE).into_owned()),
    };
    finding.remedy.needs.iter().map(word).collect()
}

/// An observation in one line.
pub(super) fn observation(evidence: &Evidence) -> (&'static str, Cow<'_, str>, Cow<'_, str>) {
    let kind = match evidence.kind {
        EvidenceKind::File => "file",
        EvidenceKind::Env => "variable",
        EvidenceKind::Exec => "program",
        EvidenceKind::Dlopen => "library",
        EvidenceKind::Registry => "registry",
    };
    (kind, clean::short(&evidence.place, VALUE), clean::short(&evidence.value, VALUE))
}

/// `1 error, 2 warnings, 3 notes`; notes only if there are any.
pub(super) fn count(summary: DoctorSummary) -> String {
    let mut words =
        vec![number(summary.errors, Severity::Error), number(summary.warnings, Severity::Warning)];
    if summary.infos > 0 {
        words.push(number(summary.infos, Severity::Info));
    }
    words.join(", ")
}

/// `1 error`, `2 errors`.
pub(super) fn number(count: usize, kind: Severity) -> String {
    format!("{count} {}{}", severity(kind), if count == 1 { "" } else { "s" })
}

/// What a change was: `550.54 -> 535.1`.
pub(super) fn change(change: &SnapshotChange) -> String {
    let value = |value: &str| clean::short(value, VALUE).into_owned();
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{} -> {}", value(before), value(after)),
        (Some(before), None) => format!("gone, was {}", value(before)),
        (None, after) => format!("new: {}", value(after.as_deref().unwrap_or_default())),
    }
}

/// Result of a test program: one word, and what happened.
pub(super) fn proof(outcome: &TrialOutcome) -> (&'static str, String) {
    let message = clean::short(&outcome.message, SENTENCE);
    let failed = |stage: &str| ("fails", format!("{stage}: {message}"));
    match (outcome.ok, outcome.failed) {
        (true, _) => {
            let device = outcome.device.as_deref().unwrap_or("a device");
            ("works", format!("compiled, linked and ran on {}", clean::short(device, VALUE)))
        }
        (false, Some(PipelineStage::Compile)) => failed("compiling"),
        (false, Some(PipelineStage::Link)) => failed("linking"),
        (false, Some(PipelineStage::Run)) => failed("running"),
        (false, None) => ("not tried", message.into_owned()),
    }
}

/// Whether neither an error nor a warning was found.
pub(super) fn is_healthy(document: &DoctorReport) -> bool {
    let is_calm = document.summary.errors + document.summary.warnings == 0;
    // A note on a log or a file says that it could not be judged, not that it is in order.
    is_calm && (document.host.is_some() || document.findings.is_empty())
}

/// One line on what is ready, for a document without errors and warnings.
pub(super) fn healthy(document: &DoctorReport) -> String {
    let ready: Vec<&str> = document
        .backends
        .iter()
        .filter(|entry| entry.build.state == Readiness::Ready && entry.run.state == Readiness::Ready)
        .map(|entry| entry.id.id())
        .collect();
    let best = document.recommended.as_ref().map(|recommended| recommended.run.id());
    match (&ready[..], best) {
        ([], _) => "nothing wrong was found".to_owned(),
        ([only], _) => format!("nothing wrong was found: {only} builds and runs here"),
        (_, Some(best)) => {
            format!("nothing wrong was found: {} build and run here, best is {best}", ready.join(", "))
        }
        (_, None) => format!("nothing wrong was found: {} build and run here", ready.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_file_has_a_line() {
        for (text, expected) in [
            ("Dockerfile:12", Some(("Dockerfile", 12, None))),
            (".github\\workflows\\ci.yml:3:7", Some((".github/workflows/ci.yml", 3, Some(7)))),
            ("C:\\log.txt:4", Some(("C:/log.txt", 4, None))),
            ("C:\\log.txt", None),
            ("/usr/local/cuda", None),
            ("Dockerfile:0", None),
            ("Dockerfile:99999999999", None),
            (":7", None),
        ] {
            let found = place(&Evidence::file(text, "FROM x"));
            let found = found.as_ref().map(|one| (one.path.as_str(), one.line, one.column));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(place(&Evidence::env("A:1", "x")), None);
    }
}
