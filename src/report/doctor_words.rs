//! Parts that the output formats of the doctor share: phrases, limits, and the location of a finding in a file.

use std::borrow::Cow;

use gpubuild_core::clean;
use gpubuild_detect::finding::{Evidence, EvidenceKind, Finding, Severity};
use gpubuild_detect::matrix::Readiness;
use gpubuild_detect::toolkit::description::PipelineStage;
use gpubuild_doctor::snapshot::SnapshotChange;
use gpubuild_doctor::validate::TrialOutcome;

use super::doctor::{DoctorReport, DoctorSummary};

/// Maximum number of characters of a summary or remedy.
pub(super) const SENTENCE: usize = 600;
/// Maximum number of characters of a path or value.
pub(super) const VALUE: usize = 300;
/// Maximum number of observations per finding.
pub(super) const OBSERVATIONS: usize = 20;

/// Replaces commands that cannot be shown exactly.
pub(super) const LEFT_OUT: &str = "a command is omitted: it contains characters that cannot be shown";

/// A location in a file of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FindingLocation {
    /// The path as it was given, with `/`.
    pub(super) path: String,
    /// The line, from 1.
    pub(super) line: u32,
    /// The column, from 1.
    pub(super) column: Option<u32>,
}

/// The location of a finding in a file. `None` for findings about a machine, whose files do not belong to a project.
pub(super) fn location(document: &DoctorReport, finding: &Finding) -> Option<FindingLocation> {
    if document.host.is_some() {
        return None;
    }
    finding.evidence.iter().find_map(place)
}

/// Parses `path:line` or `path:line:column`.
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

/// A path for display; `None` if it has no visible characters.
pub(super) fn file(path: &str) -> Option<String> {
    let path = clean::short(path, VALUE);
    (!path.trim().is_empty()).then(|| path.replace('\\', "/"))
}

fn number_at_end(text: &str) -> Option<(&str, u32)> {
    let (head, number) = text.rsplit_once(':')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (!head.is_empty()).then_some((head, number))
}

/// The name of a severity.
pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// What a remedy needs, in words.
pub(super) fn needs(finding: &Finding) -> Vec<Cow<'_, str>> {
    let word = |need: &'_ String| match need.as_str() {
        "relogin" => Cow::Borrowed("re-login"),
        "host" => Cow::Borrowed("a shell outside of the container"),
        "windows" => Cow::Borrowed("a shell in Windows"),
        _ => Cow::Owned(clean::short(need, VALUE).into_owned()),
    };
    finding.remedy.needs.iter().map(word).collect()
}

/// Kind, place and value of an observation.
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

/// A change: `550.54 -> 535.1`.
pub(super) fn change(change: &SnapshotChange) -> String {
    let value = |value: &str| clean::short(value, VALUE).into_owned();
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{} -> {}", value(before), value(after)),
        (Some(before), None) => format!("removed, was {}", value(before)),
        (None, after) => format!("new: {}", value(after.as_deref().unwrap_or_default())),
    }
}

/// The result of a test program: its state and a description.
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
    // A note about a log or a file means that it could not be diagnosed, not that it has no problems.
    is_calm && (document.host.is_some() || document.findings.is_empty())
}

/// A line about the backends that are ready, for a document without errors and warnings.
pub(super) fn healthy(document: &DoctorReport) -> String {
    let ready: Vec<&str> = document
        .backends
        .iter()
        .filter(|entry| entry.build.state == Readiness::Ready && entry.run.state == Readiness::Ready)
        .map(|entry| entry.id.id())
        .collect();
    let best = document.recommended.as_ref().map(|recommended| recommended.run.id());
    match (&ready[..], best) {
        ([], _) => "no problems found".to_owned(),
        ([only], _) => format!("no problems found: {only} builds and runs here"),
        (_, Some(best)) => {
            format!("no problems found: {} build and run here, the best is {best}", ready.join(", "))
        }
        (_, None) => format!("no problems found: {} build and run here", ready.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_in_a_file_has_a_line() {
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
