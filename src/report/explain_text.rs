//! The text of `gpubuild explain`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::detect_text::Tone;
use super::explain::{BackendDocument, ErrorDocument, ExplainedRequirement, FindingDocument};
use super::words::wrap;

/// Maximum width of a line.
const WIDTH: usize = 100;
/// Column at which the text of a line starts.
const INDENT: usize = 12;

type ExplainPaint<'a> = &'a dyn Fn(Tone, &str) -> String;

/// The requirements of a backend, each with what this machine has.
#[must_use]
pub fn backend(document: &BackendDocument, paint: ExplainPaint<'_>) -> String {
    let mut text = format!("{}\n", paint(Tone::Strong, &document.name));
    for line in wrap(&document.summary, WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    for requirement in &document.requirements {
        text += &lines(requirement, paint);
    }
    let _ = writeln!(text, "\n{}", paint(Tone::Strong, "install here"));
    match document.install.as_slice() {
        [] => list(&mut text, &[format!("from {}", document.download)], "  ", Tone::Dim, paint),
        steps => list(&mut text, steps, "  ", Tone::Hint, paint),
    }
    let _ = writeln!(text, "{}", paint(Tone::Strong, "verify the installation"));
    list(&mut text, &document.verify, "  ", Tone::Hint, paint);
    list(&mut text, &document.links, "", Tone::Dim, paint);
    text
}

fn lines(requirement: &ExplainedRequirement, paint: ExplainPaint<'_>) -> String {
    let (mark, tone) = match requirement.met {
        Some(true) => ("here  ✓", Tone::Good),
        Some(false) => ("here  ✗", Tone::Bad),
        None => ("here", Tone::Dim),
    };
    let mut text = format!("\n{}\n", paint(Tone::Strong, requirement.id));
    if !requirement.needed.is_empty() {
        text += &entry("needs", None, &requirement.needed, paint);
    }
    let nothing = ["nothing found".to_owned()];
    let here = if requirement.here.is_empty() { &nothing[..] } else { &requirement.here };
    if !(requirement.here.is_empty() && requirement.id == "python") {
        text += &entry(mark, Some(tone), here, paint);
    }
    text
}

fn entry(label: &str, tone: Option<Tone>, items: &[String], paint: ExplainPaint<'_>) -> String {
    let mut text = String::new();
    let mut label = Some(label);
    for item in items {
        for line in wrap(item, WIDTH - INDENT) {
            let head = format!("  {:<width$}", label.take().unwrap_or_default(), width = INDENT - 2);
            let head = tone.map_or_else(|| head.clone(), |tone| paint(tone, &head));
            let _ = writeln!(text, "{head}{line}");
        }
    }
    text
}

/// The explanation of a finding.
#[must_use]
pub fn finding(document: &FindingDocument, paint: ExplainPaint<'_>) -> String {
    let mut text = format!("{}: {}\n\n", paint(Tone::Strong, &document.id), document.title);
    let recognised = format!("Recognised: {}", document.recognised);
    for part in [&document.meaning, &recognised] {
        for line in part.lines().flat_map(|line| wrap(line, WIDTH)) {
            let _ = writeln!(text, "{line}");
        }
        text += "\n";
    }
    fix(&mut text, "fix", &document.fix, &document.commands, paint);
    if !document.needs.is_empty() {
        let _ = writeln!(text, "needs: {}", document.needs.join(", "));
    }
    if let Some(verify) = &document.verify {
        let _ = writeln!(text, "check: {}", paint(Tone::Hint, verify));
    }
    for (name, case) in &document.cases {
        fix(&mut text, &format!("fix ({name})"), &case.fix, &case.commands, paint);
    }
    if has_placeholder(&text) {
        text += "\nNames in braces are placeholders: `gpubuild doctor` prints the values for the machine.\n";
    }
    if !document.links.is_empty() {
        text += "\n";
    }
    list(&mut text, &document.links, "", Tone::Dim, paint);
    text
}

/// Whether a text contains a name in braces, such as `{version}`.
fn has_placeholder(text: &str) -> bool {
    text.split('{').skip(1).any(|rest| {
        let name = rest.split_once('}').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    })
}

/// The explanation of an error.
#[must_use]
pub fn error(document: &ErrorDocument, paint: ExplainPaint<'_>) -> String {
    let mut text = format!("{}\n\n", paint(Tone::Strong, &document.id));
    for line in wrap(&document.meaning, WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    text += "\n";
    fix(&mut text, "fix", &document.fix, &BTreeMap::new(), paint);
    text
}

fn fix(
    text: &mut String,
    head: &str,
    fix: &str,
    commands: &BTreeMap<String, Vec<String>>,
    paint: ExplainPaint<'_>,
) {
    let _ = writeln!(text, "{}", wrap(&format!("{head}: {fix}"), WIDTH).join("\n     "));
    for (key, commands) in commands {
        for (index, command) in commands.iter().enumerate() {
            let label = if index == 0 { key.as_str() } else { "" };
            let _ = writeln!(text, "  {label:<11} {}", paint(Tone::Hint, command));
        }
    }
}

fn list(text: &mut String, items: &[String], indent: &str, tone: Tone, paint: ExplainPaint<'_>) {
    for item in items {
        let _ = writeln!(text, "{indent}{}", paint(tone, item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_recognised() {
        assert!(has_placeholder("install CUDA {toolkit}, or {a} and {b_c}"));
        for text in ["", "no braces", "${HOME}/x", "find . -exec rm {} ;", "{driver: nvidia}", "open { only"]
        {
            assert!(!has_placeholder(text), "{text}");
        }
    }

    #[test]
    fn a_command_is_separated_from_its_system() {
        let mut text = String::new();
        let commands = BTreeMap::from([("singularity".to_owned(), vec!["run".to_owned()])]);
        fix(&mut text, "fix", "do it", &commands, &|_, text| text.to_owned());
        assert_eq!(text, "fix: do it\n  singularity run\n");
    }
}
