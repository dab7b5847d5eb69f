//! Converts recognised failures to findings with remedies for the machine of the log. Consequences are attached to their causes.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{
    Consequence, Evidence, Finding, FindingDraft, FindingEntry, Findings, Severity, catalogue,
};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;

use super::{LogCause, LogGuess, LogReading};

/// The finding for a log in which no failure was recognised.
pub const UNRECOGNISED: DiagnosticId = id!("build.unrecognised");

/// Returns the findings of a log, root cause first. If nothing is recognised, returns one finding with severity `info`, which
/// quotes the most probable first error. `log` is the name of the log in the evidence.
#[must_use]
pub fn to_findings(
    reading: &LogReading,
    log: &str,
    renderer: &FindingRenderer<'_>,
    findings: &Findings,
) -> Vec<Finding> {
    if reading.causes.is_empty() {
        return vec![renderer.render(&unrecognised(reading, log), Severity::Info)];
    }
    let mut found: Vec<Finding> = Vec::new();
    for cause in &reading.causes {
        let mut draft = draft(cause, log);
        if let Some(guess) = reading.guess.as_ref().filter(|_| cause.is_weak) {
            draft = draft.evidence(Evidence::file(format!("{log}:{}", guess.line), &guess.text));
        }
        let mut finding = renderer.render(&draft, Severity::Error);
        explain_missing_command(&mut finding, findings);
        found.push(finding);
    }
    let reported = attach_consequences(found, findings);
    match &reading.guess {
        Some(_) if reading.causes[0].is_late => {
            let mut first = renderer.render(&unrecognised(reading, log).case("earlier"), Severity::Error);
            first.consequences.extend(reported.iter().map(consequence));
            std::iter::once(first).chain(reported).collect()
        }
        _ => reported,
    }
}

/// Lists each finding that follows from another one under it, whichever is first in the log: the output of parallel builds is
/// mixed.
fn attach_consequences(found: Vec<Finding>, findings: &Findings) -> Vec<Finding> {
    let entries: Vec<Option<&FindingEntry>> = found.iter().map(|finding| findings.get(&finding.id)).collect();
    let root = |at: usize| -> Option<usize> {
        let entry = entries[at]?;
        (0..found.len()).find(|&other| {
            let follows = entry.follows.iter().any(|pattern| catalogue::matches(pattern, &found[other].id));
            let mutual = entries[other].is_some_and(|entry| {
                entry.follows.iter().any(|pattern| catalogue::matches(pattern, &found[at].id))
            });
            let symptom = entry.symptom && found[other].backend == found[at].backend;
            let is_before = other < at;
            let other_is_symptom = entries[other].is_some_and(|entry| entry.symptom);
            other != at
                && ((follows && (is_before || !mutual)) || (symptom && (is_before || !other_is_symptom)))
        })
    };
    let roots: Vec<Option<usize>> = (0..found.len()).map(root).collect();
    // The root of a root; a circle ends after as many steps as there are findings.
    let last = |at: usize| {
        let mut current = at;
        for _ in 0..found.len() {
            let Some(next) = roots[current] else { return Some(current) };
            current = next;
        }
        None
    };
    let targets: Vec<usize> = (0..found.len()).map(|at| last(at).unwrap_or(at)).collect();
    let mut attached: Vec<Vec<Consequence>> = vec![Vec::new(); found.len()];
    for (at, finding) in found.iter().enumerate() {
        if targets[at] != at {
            attached[targets[at]].push(consequence(finding));
        }
    }
    let with_targets = found.into_iter().zip(attached).enumerate();
    with_targets
        .filter(|(at, _)| targets[*at] == *at)
        .map(|(_, (mut finding, consequences))| {
            finding.consequences.extend(consequences);
            finding
        })
        .collect()
}

fn consequence(finding: &Finding) -> Consequence {
    Consequence { id: finding.id, backend: finding.backend, summary: finding.summary.clone() }
}

/// Adds the reason to a remedy without commands.
fn explain_missing_command(finding: &mut Finding, findings: &Findings) {
    if !finding.remedy.commands.is_empty() {
        return;
    }
    let entry = findings.get(&finding.id);
    let manual = entry.and_then(|entry| entry.manual.as_deref());
    let why = manual.unwrap_or(match entry {
        Some(entry) if !entry.commands.is_empty() => "none is known for this platform",
        _ => "it depends on the project",
    });
    finding.remedy.text = format!("{} (no command: {why})", finding.remedy.text);
}

fn draft(cause: &LogCause, log: &str) -> FindingDraft {
    let mut draft =
        FindingDraft::new(cause.id).evidence(Evidence::file(format!("{log}:{}", cause.line), &cause.text));
    if cause.count > 1 {
        let count = format!("{} lines report it, the last in line {}", cause.count, cause.last);
        draft = draft.evidence(Evidence::file(log, count));
    }
    for (name, value) in &cause.values {
        draft = draft.value(name, value);
    }
    draft.backends.extend(cause.backend);
    draft.summary.clone_from(&cause.summary);
    draft.exact_fix.clone_from(&cause.fix);
    draft.commands.clone_from(&cause.commands);
    draft
}

fn unrecognised(reading: &LogReading, log: &str) -> FindingDraft {
    let draft = FindingDraft::new(UNRECOGNISED).value("lines", reading.lines.to_string());
    match &reading.guess {
        Some(LogGuess { text, context, search, is_doubtful, .. }) => {
            let draft = draft.value("error", text).value("search", search);
            let draft = if *is_doubtful { draft.case("doubtful") } else { draft };
            context.iter().fold(draft, |draft, (number, line)| {
                draft.evidence(Evidence::file(format!("{log}:{number}"), line))
            })
        }
        None => draft.case("calm"),
    }
}
