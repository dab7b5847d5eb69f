//! Renders the document of the doctor as annotations of a GitHub workflow: `::error file=…,line=…,title=…::message`.
//!
//! GitHub keeps ten annotations of each kind per step and silently drops the others; the last line counts those.

use std::borrow::Cow;
use std::fmt::Write as _;

use gpubuild_core::clean;
use gpubuild_detect::finding::{Finding, Severity};

use super::doctor::DoctorReport;
use super::doctor_words::{self as words, LEFT_OUT, SENTENCE, VALUE};

/// Number of annotations of one kind that GitHub shows per step.
const PER_KIND: usize = 10;

/// One line per annotation, errors first, and a summary line.
#[must_use]
pub fn annotations(document: &DoctorReport) -> String {
    let mut out = String::new();
    let mut left = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let of_kind: Vec<&Finding> =
            document.findings.iter().filter(|finding| finding.severity == severity).collect();
        for finding in of_kind.iter().take(PER_KIND) {
            out += &annotation(document, finding);
            out.push('\n');
        }
        if of_kind.len() > PER_KIND {
            left.push(words::number(of_kind.len() - PER_KIND, severity));
        }
    }
    out += "gpubuild doctor: ";
    out += &words::count(document.summary);
    if !left.is_empty() {
        let _ =
            write!(out, "; not annotated, because GitHub keeps {PER_KIND} of each kind: {}", left.join(", "));
    }
    out.push('\n');
    out
}

fn annotation(document: &DoctorReport, finding: &Finding) -> String {
    let kind = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let mut properties = Vec::new();
    if let Some(place) = words::location(document, finding) {
        properties.push(format!("file={}", property(&place.path)));
        properties.push(format!("line={}", place.line));
        properties.extend(place.column.map(|column| format!("col={column}")));
    }
    properties.push(format!("title={}", property(&clean::short(&finding.id, VALUE))));
    format!("::{kind} {}::{}", properties.join(","), data(&message(finding)))
}

/// The summary, the fix and its commands, one per line.
fn message(finding: &Finding) -> String {
    let mut lines = vec![clean::short(&finding.summary, SENTENCE)];
    if !finding.remedy.text.is_empty() {
        lines.push(format!("fix: {}", clean::short(&finding.remedy.text, SENTENCE)).into());
    }
    for command in &finding.remedy.commands {
        lines.push(clean::command(command).map_or_else(
            || Cow::Owned(format!("({LEFT_OUT})")),
            |command| Cow::Owned(format!("  {command}")),
        ));
    }
    lines.join("\n")
}

/// Escapes the message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
