//! Renders the document of the doctor as Markdown, for the summary of a GitHub step.

use std::fmt::Write as _;

use gpubuild_core::clean;
use gpubuild_detect::finding::{Finding, Severity};

use super::detect::BackendEntry;
use super::detect_text::{presence, readiness};
use super::doctor::DoctorReport;
use super::doctor_words::{self as words, LEFT_OUT, OBSERVATIONS, SENTENCE, VALUE};
use super::markdown::{block, code, link, prose};

/// Maximum size in bytes of a step's summary. GitHub accepts 1 MiB per step; the rest remains for other commands.
pub const STEP_SUMMARY: usize = 1000 * 1024;
/// Maximum number of changes that are printed.
const CHANGES: usize = 50;
/// Space for the head, the matrix and the line about omitted parts.
const FRAME: usize = 16 * 1024;

/// Renders the Markdown. Findings that do not fit into `limit` bytes are omitted and counted.
#[must_use]
pub fn markdown(document: &DoctorReport, limit: usize) -> String {
    let mut out = format!("### gpubuild doctor: {}\n\n", words::count(document.summary));
    if words::is_healthy(document) {
        let _ = writeln!(out, "✓ {}\n", prose(&words::healthy(document), SENTENCE));
    }
    let shell = match &document.host {
        Some(host) if host.os == "windows" => "powershell",
        _ => "sh",
    };
    changes(&mut out, document);
    proofs(&mut out, document);
    let mut end = String::new();
    matrix(&mut end, document);
    let limit = limit.saturating_sub(end.len() + FRAME);
    let is_note = |finding: &&Finding| finding.severity == Severity::Info;
    let (notes, serious): (Vec<&Finding>, Vec<&Finding>) = document.findings.iter().partition(is_note);
    let mut left = sections(&mut out, &serious, shell, limit);
    if left == 0 && !notes.is_empty() {
        let _ = writeln!(out, "<details><summary>notes</summary>\n");
        left = sections(&mut out, &notes, shell, limit);
        let _ = writeln!(out, "</details>\n");
    } else {
        left += notes.len();
    }
    if left > 0 {
        let _ = writeln!(
            out,
            "**{left} of {} findings are omitted** to keep the size limit; \
             `gpubuild doctor --format json` prints all of them.\n",
            document.findings.len()
        );
    }
    out + &end
}

/// Adds findings as long as they fit. Returns the number of omitted ones.
fn sections(out: &mut String, findings: &[&Finding], shell: &str, limit: usize) -> usize {
    for (index, finding) in findings.iter().enumerate() {
        let text = section(finding, shell);
        if out.len() + text.len() > limit {
            return findings.len() - index;
        }
        out.push_str(&text);
    }
    0
}

/// Changes since a snapshot (`--diff`).
fn changes(out: &mut String, document: &DoctorReport) {
    let Some(changes) = &document.changes else { return };
    if changes.is_empty() {
        out.push_str("Nothing changed since the snapshot.\n\n");
        return;
    }
    out.push_str("Changed since the snapshot, causes before effects:\n\n");
    for change in changes.iter().take(CHANGES) {
        let name = code(&clean::short(&change.name, VALUE));
        let _ = writeln!(out, "- {name} {}", prose(&words::change(change), 2 * VALUE + 20));
    }
    if let Some(more) = changes.len().checked_sub(CHANGES).filter(|more| *more > 0) {
        let _ = writeln!(out, "- and {more} more");
    }
    out.push('\n');
}

/// Results of the test programs (`--validate`).
fn proofs(out: &mut String, document: &DoctorReport) {
    let Some(outcomes) = &document.validation else { return };
    out.push_str("Test programs:\n\n");
    for outcome in outcomes {
        let (state, text) = words::proof(outcome);
        let _ = writeln!(out, "- {} {state}: {}", outcome.backend, prose(&text, 2 * SENTENCE));
    }
    out.push('\n');
}

fn section(finding: &Finding, shell: &str) -> String {
    let symbol = match finding.severity {
        Severity::Error => "✗",
        Severity::Warning => "!",
        Severity::Info => "-",
    };
    let mut out = format!(
        "**{symbol} {}:** {} {}\n\n",
        words::severity(finding.severity),
        prose(&finding.summary, SENTENCE),
        code(&clean::short(&finding.id, VALUE))
    );
    let remedy = &finding.remedy;
    if !remedy.text.is_empty() {
        let _ = writeln!(out, "fix: {}\n", prose(&remedy.text, SENTENCE));
    }
    let commands: Vec<&str> = remedy.commands.iter().filter_map(|text| clean::command(text)).collect();
    if !commands.is_empty() {
        let _ = writeln!(out, "{}", block(shell, &commands));
    }
    if commands.len() < remedy.commands.len() {
        let _ = writeln!(out, "({LEFT_OUT})\n");
    }
    let needs = words::needs(finding).join(", ");
    if !needs.is_empty() {
        let _ = writeln!(out, "needs: {}\n", prose(&needs, SENTENCE));
    }
    if let Some(verify) = remedy.verify.as_deref().and_then(clean::command) {
        let _ = writeln!(out, "verify: {}\n", code(verify));
    }
    details(&mut out, finding);
    out
}

/// The consequences, evidence and links of a finding in a collapsed section.
fn details(out: &mut String, finding: &Finding) {
    let mut list = String::new();
    for one in finding.consequences.iter().take(OBSERVATIONS) {
        let id = code(&clean::short(&one.id, VALUE));
        let _ = writeln!(list, "- so: {} {id}", prose(&one.summary, SENTENCE));
    }
    for evidence in finding.evidence.iter().take(OBSERVATIONS) {
        let (kind, place, value) = words::observation(evidence);
        let _ = writeln!(list, "- seen: {kind} {} is {}", code(&place), code(&value));
    }
    for target in finding.links.iter().take(OBSERVATIONS) {
        let _ = writeln!(list, "- see: {}", link(&clean::short(target, VALUE)));
    }
    let longest = finding.consequences.len().max(finding.evidence.len());
    if longest > OBSERVATIONS {
        let _ = writeln!(list, "- and up to {} more of each kind", longest - OBSERVATIONS);
    }
    if !list.is_empty() {
        let _ = writeln!(out, "<details><summary>why</summary>\n\n{list}\n</details>\n");
    }
}

fn matrix(out: &mut String, document: &DoctorReport) {
    if document.backends.is_empty() {
        return;
    }
    out.push_str("| backend | hardware | build | run |\n| --- | --- | --- | --- |\n");
    for entry in &document.backends {
        let cell = |(_, symbol, word): (_, &str, &str)| format!("{symbol} {word}");
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            entry.id,
            cell(presence(entry.hardware.state)),
            cell(readiness(entry.build.state)),
            cell(readiness(entry.run.state))
        );
    }
    out.push('\n');
    let devices: Vec<String> = document.backends.iter().filter_map(devices).collect();
    if !devices.is_empty() {
        let _ = writeln!(out, "{}\n", devices.join("  \n"));
    }
}

/// `cuda: NVIDIA H200`. Not in the table, because a name can contain `|`.
fn devices(entry: &BackendEntry) -> Option<String> {
    let names: Vec<String> =
        entry.hardware.devices.iter().take(OBSERVATIONS).map(|device| prose(&device.name, VALUE)).collect();
    (!names.is_empty()).then(|| format!("{}: {}", entry.id, names.join("; ")))
}
