//! The embedded templates in `templates/new/<id>/`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use serde::{Deserialize, Serialize};

/// A template.
#[derive(Debug)]
pub struct Template {
    /// The value of `--template`.
    pub id: &'static str,
    /// The content of `template.toml`.
    pub about: TemplateAbout,
    /// The files: the name in the template folder, and the text with placeholders.
    pub files: &'static [(&'static str, &'static str)],
}

/// The schema of `template.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateAbout {
    /// A description on one line.
    pub title: String,
    /// The supported backends, `cpu` first.
    pub backends: Vec<Backend>,
    /// Tools that the commands need, besides Rust.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The default name of the crate; `None` for the name of the project folder.
    pub name: Option<String>,
    /// The commands that build and run the project, in order.
    pub command: Vec<TemplateCommand>,
    /// Files that are renamed in a project: template name to project name.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// The additions to an existing workspace; `None` if the template creates a folder.
    pub workspace: Option<Workspace>,
}

/// A command with a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TemplateCommand {
    /// The command line, to be run in the project folder.
    pub run: String,
    /// A description of the command.
    pub what: String,
}

/// Additions to a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// The new members.
    pub members: Vec<String>,
    /// Aliases for `.cargo/config.toml`.
    #[serde(default)]
    pub alias: BTreeMap<String, String>,
    /// Files that are not written if they already exist.
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

/// Finds a template by its id.
///
/// # Errors
/// No template is specified, or it does not exist.
pub fn find(name: Option<&str>) -> Result<&'static Template, super::NewError> {
    let name = name.ok_or(super::NewError::NoTemplate)?;
    let found = templates().iter().find(|one| one.id == name);
    found.ok_or_else(|| super::NewError::Template { name: name.to_owned() })
}
