//! The pages of the documentation that are made from data: `backends.md`, `findings.md` and `errors.md` of
//! `docs/reference/`. A test compares.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::ErrorEntry;
use gpubuild_detect::finding::{FindingEntry, FindingKind, Findings};
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_detect::toolkit::description::{Description, ToolkitAbout, is_on};
use gpubuild_host::Os;

use super::explain::{description, place};

const MADE: &str =
    "<!-- Made from the data by `GPUBUILD_UPDATE_DOCS=1 cargo test --test documents`; do not edit. -->\n";

/// `docs/reference/backends.md`: what every backend needs.
#[must_use]
pub fn backends(catalogue: &Catalogue) -> String {
    let pages: Vec<(Backend, &Description, &ToolkitAbout)> = Backend::ALL
        .into_iter()
        .filter_map(|backend| {
            let (description, about) = description(catalogue, backend)?;
            Some((backend, description, about))
        })
        .collect();
    let mut text = format!("{MADE}\n# Backends and what they need\n\n");
    text +=
        "`gpubuild explain BACKEND` shows the same with what the machine at hand has beside each line.\n\n";
    text += "| backend | toolkit | Linux | Windows | macOS | Python packages |\n|---|---|---|---|---|---|\n";
    for (backend, description, about) in &pages {
        let on = |os: Os| about.platforms.get(&os).map_or("", String::as_str);
        let python = if about.python.is_empty() { "none" } else { "for its runtime" };
        let _ = writeln!(
            text,
            "| [{backend}](#{backend}) | {} | {} | {} | {} | {python} |",
            description.name,
            on(Os::Linux),
            on(Os::Windows),
            on(Os::Macos)
        );
    }
    for (backend, description, about) in &pages {
        text += &backend_page(*backend, description, about);
    }
    text
}

fn backend_page(backend: Backend, description: &Description, about: &ToolkitAbout) -> String {
    let mut text = format!("\n## {backend}\n\n{}: {}.\n\n", description.name, about.summary);
    let _ = writeln!(text, "- Download: <{}>", about.download);
    let _ = writeln!(text, "- Hardware: {}", about.hardware);
    let _ = writeln!(text, "- Driver: {}", about.driver);
    let mut variables: Vec<String> = description
        .roots
        .iter()
        .filter_map(|root| root.env.as_ref())
        .map(|name| format!("`{name}`"))
        .collect();
    variables.dedup();
    if !variables.is_empty() {
        let _ = writeln!(
            text,
            "- Variables that name its folder, the first that is set counts: {}",
            variables.join(", ")
        );
    }
    for (name, words) in &about.run_variables {
        let _ = writeln!(text, "- `{name}`: {words}");
    }
    let python =
        if about.python.is_empty() { String::new() } else { format!("{}; ", about.python.join("; ")) };
    let _ = writeln!(text, "- Python packages: {python}{}", about.python_note);
    for os in [Os::Linux, Os::Windows, Os::Macos] {
        let places: Vec<String> = description
            .roots
            .iter()
            .filter(|root| is_on(&root.on, os) && (root.known.is_some() || root.registry.is_some()))
            .filter(|root| !root.on.is_empty())
            .filter_map(place)
            .map(|place| format!("`{place}`"))
            .collect();
        if !places.is_empty() {
            let _ = writeln!(text, "- Common paths on {}: {}", os.label(), places.join(", "));
        }
    }
    let _ = writeln!(
        text,
        "- To see that it is there: {}",
        about.verify.iter().map(|line| format!("`{line}`")).collect::<Vec<_>>().join(", ")
    );
    text += "\n| to install with | toolkit | driver |\n|---|---|---|\n";
    let mut keys: Vec<&String> =
        description.install.keys().chain(description.install_driver.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let cell = |table: &std::collections::BTreeMap<String, String>| {
            table.get(key).map(|command| format!("`{command}`")).unwrap_or_default()
        };
        let _ = writeln!(
            text,
            "| {key} | {} | {} |",
            cell(&description.install),
            cell(&description.install_driver)
        );
    }
    text
}

/// `docs/reference/findings.md`: every finding.
#[must_use]
pub fn findings(findings: &Findings) -> String {
    let mut text = format!("{MADE}\n# Findings\n\n");
    text += "Every id that `gpubuild` reports, family by family. `gpubuild explain ID` shows one of them.\n";
    text += "An error blocks a backend that was asked for, or whose hardware is present; otherwise it is information.\n";
    for family in findings.families().iter().filter(|family| !family.findings.is_empty()) {
        let _ = write!(text, "\n## {}\n", family.title);
        for (id, entry) in &family.findings {
            text += &finding(id, entry);
        }
    }
    text
}

fn finding(id: &str, entry: &FindingEntry) -> String {
    let kind = match entry.kind {
        FindingKind::Fault => "error",
        FindingKind::Absence => "error where it was asked for",
        FindingKind::Caution => "warning",
        FindingKind::Note => "information",
    };
    let mut text = format!("\n### `{id}`\n\n{} ({kind}). {}\n\n", upper(&entry.title), entry.meaning.trim());
    let _ = writeln!(text, "- Recognised: {}", entry.recognised.trim());
    let _ = writeln!(text, "- Fix: {}", entry.fix);
    commands(&mut text, entry);
    if !entry.needs.is_empty() {
        let _ = writeln!(text, "- Needs: {}", entry.needs.join(", "));
    }
    if let Some(verify) = &entry.verify {
        let _ = writeln!(text, "- Check: `{verify}`");
    }
    for name in entry.cases.keys() {
        let case = entry.for_case(Some(name));
        let _ = writeln!(text, "- Fix in the case `{name}`: {}", case.fix);
        if case.commands != entry.commands {
            commands(&mut text, &case);
        }
    }
    if !entry.links.is_empty() {
        let links: Vec<String> = entry.links.iter().map(|link| format!("<{link}>")).collect();
        let _ = writeln!(text, "- See: {}", links.join(", "));
    }
    text
}

/// `docs/reference/errors.md`: every error that is not a finding, by the first part of its id.
#[must_use]
pub fn errors(errors: &BTreeMap<String, ErrorEntry>) -> String {
    let mut text = format!("{MADE}\n# Errors\n\n");
    text += "A command that fails prints what is wrong, what to do and an id, and `--json` prints the same as an `error` \
             document. `gpubuild explain ID` shows the row of this page. Ids that are not here are [findings](findings.md); \
             the exit codes are on [their page](exit-codes.md).\n";
    let mut family = "";
    for (id, entry) in errors {
        let first = id.split('.').next().unwrap_or_default();
        if first != family {
            family = first;
            let _ = write!(text, "\n## {family}\n\n| id | meaning | fix |\n|---|---|---|\n");
        }
        let cell = |words: &str| words.replace('|', "\\|");
        let _ = writeln!(text, "| `{id}` | {} | {} |", cell(&entry.meaning), upper(&cell(&entry.fix)));
    }
    text
}

fn commands(text: &mut String, entry: &FindingEntry) {
    for (key, commands) in &entry.commands {
        let commands: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
        let _ = writeln!(text, "  - {key}: {}", commands.join(", then "));
    }
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
