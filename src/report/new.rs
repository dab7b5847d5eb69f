//! The documents of `gpubuild new`, and their text.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use serde::Serialize;

use super::Schema;
use crate::new::template::TemplateCommand;
use crate::new::{PlacedProject, Template};

/// The document of `new --list --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TemplateListReport<'a> {
    schema: Schema,
    /// The templates.
    templates: Vec<Listed<'a>>,
}

/// A template.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Listed<'a> {
    /// Id of the template.
    id: &'a str,
    /// One line.
    title: &'a str,
    /// Backends that it supports.
    backends: &'a [Backend],
    /// Tools that the commands need, besides Rust.
    needs: &'a [String],
    /// Whether it extends the workspace in the current folder instead of creating a folder.
    into_workspace: bool,
    /// The commands that build and run the project, in order.
    commands: &'a [TemplateCommand],
}

impl<'a> TemplateListReport<'a> {
    /// The document of these templates.
    #[must_use]
    pub fn new(templates: &'a [Template]) -> Self {
        let listed = |one: &'a Template| Listed {
            id: one.id,
            title: &one.about.title,
            backends: &one.about.backends,
            needs: &one.about.needs,
            into_workspace: one.about.workspace.is_some(),
            commands: &one.about.command,
        };
        Self {
            schema: Schema { name: "templates", version: 1 },
            templates: templates.iter().map(listed).collect(),
        }
    }
}

/// The templates as text.
#[must_use]
pub fn list(templates: &[Template]) -> String {
    let width = templates.iter().map(|one| one.id.len()).max().unwrap_or_default();
    let mut text = String::new();
    for one in templates {
        let backends: Vec<&str> = one.about.backends.iter().map(|backend| backend.id()).collect();
        let _ = writeln!(text, "{:width$}  {}", one.id, one.about.title);
        let _ = writeln!(
            text,
            "{:width$}    for {}; needs Rust, {}",
            "",
            backends.join(", "),
            one.about.needs.join(", ")
        );
    }
    text
}

/// The document of `new --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NewReport<'a> {
    schema: Schema,
    /// Id of the template.
    template: &'a str,
    /// Name of the project.
    name: &'a str,
    /// Folder of the project.
    root: &'a str,
    /// Whether the files were written; `false` for `--dry-run`.
    written: bool,
    /// New files, then changed ones.
    files: Vec<Listing<'a>>,
    /// The commands that build and run the project, in order.
    commands: &'a [TemplateCommand],
}

/// A file of a new project.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Listing<'a> {
    /// Its path.
    path: String,
    /// `new` or `changed`.
    state: &'static str,
    /// Description of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<&'a str>,
}

/// Whether the files of a project were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenReport {
    /// They were written.
    Yes,
    /// They were not written: `--dry-run`.
    No,
}

impl<'a> NewReport<'a> {
    /// The document of a project.
    #[must_use]
    pub fn new(made: &'a PlacedProject, written: WrittenReport) -> Self {
        Self {
            schema: Schema { name: "new", version: 1 },
            template: made.template,
            name: &made.name,
            root: made.root.as_str(),
            written: written == WrittenReport::Yes,
            files: listings(made),
            commands: &made.commands,
        }
    }
}

/// New files, then changed ones, each sorted.
fn listings(made: &PlacedProject) -> Vec<Listing<'_>> {
    let new = made.files.iter().map(|file| Listing {
        path: made.root.join(&file.path).to_string(),
        state: "new",
        what: None,
    });
    let edits = made.edits.iter().map(|edit| Listing {
        path: edit.path.to_string(),
        state: if edit.before.is_some() { "changed" } else { "new" },
        what: Some(&edit.what),
    });
    new.chain(edits).collect()
}

/// The output of `--dry-run`.
#[must_use]
pub fn plan(made: &PlacedProject) -> String {
    let mut text = String::new();
    for one in listings(made) {
        let what = one.what.map(|what| format!(" ({what})")).unwrap_or_default();
        let _ = writeln!(text, "{:7}  {}{what}", one.state, one.path);
    }
    text
}

/// The next commands: `cd` into the folder, which is quoted for a shell, and the commands of the template without the one that is `done`.
#[must_use]
pub fn next(made: &PlacedProject, folder: Option<&str>, done: Option<&str>) -> String {
    let mut lines: Vec<(String, &str)> = folder.iter().map(|folder| (format!("cd {folder}"), "")).collect();
    let left = made.commands.iter().filter(|command| Some(command.run.as_str()) != done);
    lines.extend(left.map(|command| (command.run.clone(), command.what.as_str())));
    let width = lines.iter().map(|(run, _)| run.len()).max().unwrap_or_default();
    let mut text = "next:".to_owned();
    for (run, what) in &lines {
        let remark = if what.is_empty() { String::new() } else { format!("    # {what}") };
        let _ = write!(text, "\n  {}", format!("{run:width$}{remark}").trim_end());
    }
    text
}
