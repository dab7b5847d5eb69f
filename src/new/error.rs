//! Why a project cannot be created.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;

use super::template::templates;

/// Why a project cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewError {
    /// No template is named.
    #[error("no template is named; there are\n{}", listed())]
    NoTemplate,
    /// There is no such template.
    #[error("unknown template `{name}`; available:\n{}", listed())]
    Template {
        /// As it was named.
        name: String,
    },
    /// No folder is named.
    #[error("template `{template}` wants the folder of the new project")]
    NoPath {
        /// The template.
        template: String,
    },
    /// A crate cannot have this name.
    #[error("a crate cannot be called `{name}`: {why}")]
    Name {
        /// The name.
        name: String,
        /// The problem with it.
        why: String,
    },
    /// A list of backends that cannot be read.
    #[error("{0}")]
    Backends(String),
    /// A backend that the template has nothing for.
    #[error("template `{template}` has nothing for {backend}; it knows {}", ids(.known))]
    Backend {
        /// The template.
        template: String,
        /// The backend.
        backend: Backend,
        /// Those that it knows.
        known: Vec<Backend>,
    },
    /// Files that would be written are there already.
    #[error("there already {}: {}; nothing was written", if .paths.len() == 1 { "is" } else { "are" }, quoted(.paths))]
    Exists {
        /// The files.
        paths: Vec<String>,
    },
    /// The workspace cannot take the new crates.
    #[error("{why}; nothing was written")]
    Workspace {
        /// The problem.
        why: String,
        /// What to do.
        hint: String,
    },
    /// The folder that `--gpubuild-path` names.
    #[error("no gpubuild checkout in `{folder}`: {why}")]
    Gpubuild {
        /// The folder.
        folder: String,
        /// The problem.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{message}; {}", if *.undone { "nothing is left of what was written" } else { "what was written could not be taken back" })]
    File {
        /// What the system says.
        message: String,
        /// Whether everything is as it was.
        undone: bool,
    },
}

fn listed() -> String {
    let width = templates().iter().map(|one| one.id.len()).max().unwrap_or_default();
    let lines: Vec<String> =
        templates().iter().map(|one| format!("  {:width$}  {}", one.id, one.about.title)).collect();
    lines.join("\n")
}

fn ids(list: &[Backend]) -> String {
    list.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(", ")
}

fn quoted(list: &[String]) -> String {
    list.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
}

impl Diagnostic for NewError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoTemplate | Self::Template { .. } => id!("new.template"),
            Self::NoPath { .. } => id!("new.path"),
            Self::Name { .. } => id!("new.name"),
            Self::Backends(_) => id!("backend.unknown"),
            Self::Backend { .. } => id!("new.backend"),
            Self::Exists { .. } => id!("new.exists"),
            Self::Workspace { .. } => id!("new.workspace"),
            Self::Gpubuild { .. } => id!("new.gpubuild-path"),
            Self::File { .. } => id!("file.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoTemplate => "name one: `gpubuild new PATH --template own-kernels`".to_owned(),
            Self::Template { name } => {
                let near = templates()
                    .iter()
                    .map(|one| (gpubuild_core::backend::edit_distance(name, one.id), one.id))
                    .min()
                    .filter(|(distance, _)| *distance <= 3);
                return near.map(|(_, id)| format!("did you mean `{id}`?"));
            }
            Self::NoPath { template } => format!("name it: `gpubuild new PATH --template {template}`"),
            Self::Name { .. } => "name the crate with `--name NAME`".to_owned(),
            Self::Backends(_) => {
                let known = Backend::ALL.map(Backend::id).join(", ");
                format!("backends are {known}; `auto` and `all` are selections")
            }
            Self::Backend { .. } => "leave it out, and add it to the project later".to_owned(),
            Self::Exists { .. } => "name another folder, or move these away".to_owned(),
            Self::Workspace { hint, .. } => hint.clone(),
            Self::Gpubuild { .. } => "name the folder of a checkout of gpubuild".to_owned(),
            Self::File { .. } => return None,
        })
    }
}
