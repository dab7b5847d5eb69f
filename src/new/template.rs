//! The templates: `templates/new/<id>/`, embedded. A further one is a folder there and a line in the table below.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use serde::{Deserialize, Serialize};

/// A template.
#[derive(Debug)]
pub struct Template {
    /// What `--template` names.
    pub id: &'static str,
    /// Its `template.toml`.
    pub about: TemplateAbout,
    /// Its files: the name in the folder, and the text with placeholders.
    pub files: &'static [(&'static str, &'static str)],
}

/// The form of `template.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateAbout {
    /// One line for people.
    pub title: String,
    /// Backends that it has something for, `cpu` first.
    pub backends: Vec<Backend>,
    /// What its commands need beside Rust.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Default name of its crate; without it, the name of the folder.
    pub name: Option<String>,
    /// The commands that build and run it, in their order.
    pub command: Vec<TemplateCommand>,
    /// Files that have another name in a project.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// What it adds to a workspace; without it, the template creates a folder.
    pub workspace: Option<Workspace>,
}

/// A command and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateCommand {
    /// As it is typed in the folder of the project.
    pub run: String,
    /// What it does.
    pub what: String,
}

/// What a workspace gets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// Its new members.
    pub members: Vec<String>,
    /// Aliases for `.cargo/config.toml`.
    #[serde(default)]
    pub alias: BTreeMap<String, String>,
    /// Files that stay as they are where they are there already.
    #[serde(default)]
    pub optional: Vec<String>,
}

/// All templates.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "a test reads the embedded descriptions")]
pub fn templates() -> &'static [Template] {
    static TEMPLATES: OnceLock<Vec<Template>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let read = |one: &gpubuild_templates::TemplateProject| Template {
            id: one.id,
            about: gpubuild_toml::from_str(one.about).expect("templates/new/*/template.toml are tested"),
            files: one.files,
        };
        gpubuild_templates::PROJECTS.iter().map(read).collect()
    })
}

/// The template of this name.
///
/// # Errors
/// No template has this name.
pub fn find(name: Option<&str>) -> Result<&'static Template, super::NewError> {
    let name = name.ok_or(super::NewError::NoTemplate)?;
    let found = templates().iter().find(|one| one.id == name);
    found.ok_or_else(|| super::NewError::Template { name: name.to_owned() })
}
