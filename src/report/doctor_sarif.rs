//! Renders the document of the doctor as SARIF 2.1.0, for code scanning.
//!
//! GitHub requires more than the standard: `$schema`, `shortDescription`, `fullDescription` and `help.text` of a rule, `partialFingerprints`
//! of a result, and a physical location with a region for every result; otherwise it rejects the complete file. A finding about a machine has
//! no location in a file, so its result is located at the start of gpubuild.toml and has a logical location in addition.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_core::clean;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::finding::{EvidenceKind, Finding, FindingEntry, FindingKind, Findings, Severity};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::doctor::DoctorReport;
use super::doctor_words::{self as words, FindingLocation, LEFT_OUT, SENTENCE, VALUE};
use super::markdown::prose;

/// Maximum number of characters of a description that GitHub shows.
const DESCRIPTION: usize = 1000;
/// Maximum number of results that GitHub accepts.
const RESULTS: usize = 5000;
/// The file in which findings about the machine are located.
const PROJECT: &str = "gpubuild.toml";

/// Renders the SARIF file.
#[must_use]
pub fn sarif(document: &DoctorReport, findings: &Findings) -> String {
    let mut ids: Vec<&str> = document.checked.iter().map(String::as_str).collect();
    ids.extend(document.findings.iter().map(|finding| finding.id.as_str()));
    ids.sort_indirect();
    ids.dedup();
    let rules: Vec<Value> = ids.iter().map(|id| rule(id, findings)).collect();
    let mut seen = BTreeMap::new();
    let results: Vec<Value> = document
        .findings
        .iter()
        .take(RESULTS)
        .map(|finding| result(document, finding, &ids, &mut seen))
        .collect();
    let sarif = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "gpubuild",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "automationDetails": { "id": "gpubuild-doctor/" },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    // `{:#}` of a `Value` is its indented JSON.
    clean::json(&format!("{sarif:#}\n")).into_owned()
}

fn rule(id: &str, findings: &Findings) -> Value {
    let id = clean::short(id, VALUE);
    let Some((family, entry)) = findings.find(&id) else {
        let text = "a finding of a custom toolkit description";
        return json!({
            "id": id,
            "shortDescription": { "text": text },
            "fullDescription": { "text": text },
            "help": { "text": text },
        });
    };
    let level = match entry.kind {
        FindingKind::Fault | FindingKind::Absence => "error",
        FindingKind::Caution => "warning",
        FindingKind::Note => "note",
    };
    let mut tags = vec![family.family.as_str()];
    tags.extend(entry.backend.map(gpubuild_core::backend::Backend::id));
    let mut rule = json!({
        "id": id,
        "shortDescription": { "text": clean::short(&entry.title, DESCRIPTION) },
        "fullDescription": { "text": clean::short(&entry.meaning, DESCRIPTION) },
        "help": help(entry),
        "defaultConfiguration": { "level": level },
        "properties": { "tags": tags },
    });
    if let Some(link) = entry.links.iter().find(|link| is_uri(link)) {
        rule["helpUri"] = json!(link);
    }
    rule
}

fn is_uri(text: &str) -> bool {
    text.starts_with("https://")
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&byte))
}

/// The explanation of a finding in the catalogue, for its alert.
fn help(entry: &FindingEntry) -> Value {
    let parts = [("meaning", &entry.meaning), ("recognised by", &entry.recognised), ("fix", &entry.fix)];
    let parts = parts.iter().filter(|(_, text)| !text.is_empty());
    let text: Vec<String> = parts.clone().map(|(label, text)| format!("{label}: {text}")).collect();
    let markdown: Vec<String> =
        parts.map(|(label, text)| format!("**{label}:** {}", prose(text, usize::MAX))).collect();
    json!({ "text": clean::line(&text.join("; ")), "markdown": markdown.join("\n\n") })
}

fn result(
    document: &DoctorReport,
    finding: &Finding,
    ids: &[&str],
    seen: &mut BTreeMap<String, usize>,
) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let place = place(document, finding);
    let subject = finding.backend.map_or("machine", gpubuild_core::backend::Backend::id);
    let mark = fingerprint(&[&finding.id, subject, &place.path]);
    // Repeated problems in a file are numbered in order, not identified by line, which changes with every edit above.
    let times = seen.entry(mark.clone()).or_default();
    *times += 1;
    let mut location = json!({ "physicalLocation": physical(&place) });
    if document.host.is_some() {
        location["logicalLocations"] = json!([{
            "name": subject,
            "fullyQualifiedName": format!("machine/{subject}"),
            "kind": "resource",
        }]);
    }
    json!({
        "ruleId": clean::short(&finding.id, VALUE),
        "ruleIndex": ids.binary_search(&finding.id.as_str()).unwrap_or_default(),
        "level": level,
        "message": { "text": message(finding) },
        "locations": [location],
        "partialFingerprints": { "primaryLocationLineHash": format!("{mark}:{times}") },
    })
}

/// The location of a finding: the line of the examined file, the file if the line is unknown, else gpubuild.toml.
fn place(document: &DoctorReport, finding: &Finding) -> FindingLocation {
    let whole = |path: &str| FindingLocation { path: path.to_owned(), line: 1, column: None };
    words::location(document, finding)
        .or_else(|| {
            let mut files = finding.evidence.iter().filter(|evidence| evidence.kind == EvidenceKind::File);
            let file = files.next().filter(|_| document.host.is_none())?;
            words::file(&file.place).map(|path| whole(&path))
        })
        .unwrap_or_else(|| whole(PROJECT))
}

fn physical(place: &FindingLocation) -> Value {
    let column = place.column.unwrap_or(1);
    json!({
        "artifactLocation": { "uri": uri(&place.path) },
        "region": {
            "startLine": place.line,
            "startColumn": column,
            "endLine": place.line,
            "endColumn": column.saturating_add(1),
        },
    })
}

/// A path as a URI: relative to the repository, or `file:` for an absolute path.
fn uri(path: &str) -> String {
    let relative = path.trim_start_matches("./");
    let drive = relative.as_bytes().get(1..3) == Some(b":/");
    let mut uri = match (relative.starts_with('/'), drive) {
        (true, _) => "file://".to_owned(),
        (false, true) => "file:///".to_owned(),
        (false, false) => String::new(),
    };
    for byte in relative.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn message(finding: &Finding) -> String {
    let mut lines = vec![clean::short(&finding.summary, SENTENCE).into_owned()];
    if !finding.remedy.text.is_empty() {
        lines.push(format!("fix: {}", clean::short(&finding.remedy.text, SENTENCE)));
    }
    for command in &finding.remedy.commands {
        lines.push(
            clean::command(command).map_or_else(|| format!("({LEFT_OUT})"), |command| format!("  {command}")),
        );
    }
    // `[text](target)` is a link in a SARIF message.
    let text = lines.join("\n").replace("](", "] (");
    if text.trim().is_empty() { finding.id.to_string() } else { text }
}

fn fingerprint(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_becomes_a_uri() {
        for (path, expected) in [
            ("Dockerfile", "Dockerfile"),
            ("./docker/a b.yml", "docker/a%20b.yml"),
            ("/tmp/build.log", "file:///tmp/build.log"),
            ("C:/logs/x", "file:///C%3A/logs/x"),
            ("a:b", "a%3Ab"),
            ("ü?#", "%C3%BC%3F%23"),
        ] {
            assert_eq!(uri(path), expected);
        }
    }
}
