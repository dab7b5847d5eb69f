//! Errors of `gpubuild new`.

use std::io::ErrorKind;

use gpubuild_core::backend::Backend;
use gpubuild_core::text::quoted;
use gpubuild_detect::diagnostic::{self, Diagnostic, DiagnosticId};
use gpubuild_detect::id;

use super::template::templates;

/// Why a project cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewError {
    /// No template is specified.
    #[error("no template is specified; available:\n{}", template_list())]
    NoTemplate,
    /// The template does not exist.
    #[error("unknown template `{name}`; available:\n{}", template_list())]
    Template {
        /// The name as given.
        name: String,
    },
    /// No folder is specified.
    #[error("template `{template}` requires a folder for the new project")]
    NoPath {
        /// The template.
        template: String,
    },
    /// The name is not allowed for a crate.
    #[error("invalid crate name `{name}`: {why}")]
    Name {
        /// The name.
        name: String,
        /// Why it is not allowed.
        why: String,
    },
    /// The list of backends is invalid.
    #[error("{0}")]
    Backends(String),
    /// The template does not support a backend.
    #[error("template `{template}` does not support {backend}; supported: {}", ids(.known))]
    Backend {
        /// The template.
        template: String,
        /// The backend.
        backend: Backend,
        /// The supported backends.
        known: Vec<Backend>,
    },
    /// Files that would be written already exist.
    #[error("{} already {}; nothing was written", quoted(.paths), if .paths.len() == 1 { "exists" } else { "exist" })]
    Exists {
        /// The existing files.
        paths: Vec<String>,
    },
    /// A folder of the project is a link, so files could be written elsewhere.
    #[error("`{path}` is a symbolic link; nothing was written")]
    Link {
        /// The link.
        path: String,
    },
    /// The workspace cannot be extended.
    #[error("{why}; nothing was written")]
    Workspace {
        /// The problem.
        why: String,
        /// How to fix it.
        hint: String,
    },
    /// The folder of `--gpubuild-path` is not a gpubuild checkout.
    #[error("no gpubuild checkout in `{folder}`: {why}")]
    Gpubuild {
        /// The folder.
        folder: String,
        /// The problem.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{message}; {}", if *.undone { "all changes were undone" } else { "some changes could not be undone" })]
    File {
        /// The problem, with the path.
        message: String,
        /// The kind of the error, which selects the hint.
        kind: ErrorKind,
        /// Whether all changes were undone.
        undone: bool,
    },
}

fn template_list() -> String {
    let width = templates().iter().map(|one| one.id.len()).max().unwrap_or_default();
    let lines: Vec<String> =
        templates().iter().map(|one| format!("  {:width$}  {}", one.id, one.about.title)).collect();
    lines.join("\n")
}

fn ids(list: &[Backend]) -> String {
    list.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(", ")
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
            Self::Link { .. } => id!("new.link"),
            Self::Workspace { .. } => id!("new.workspace"),
            Self::Gpubuild { .. } => id!("new.gpubuild-path"),
            Self::File { .. } => id!("file.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoTemplate => {
                "specify one, for example `gpubuild new PATH --template own-kernels`".to_owned()
            }
            Self::Template { name } => {
                let near = templates()
                    .iter()
                    .map(|one| (gpubuild_core::backend::edit_distance(name, one.id), one.id))
                    .min()
                    .filter(|(distance, _)| *distance <= 3);
                return near.map(|(_, id)| format!("did you mean `{id}`?"));
            }
            Self::NoPath { template } => format!("specify it: `gpubuild new PATH --template {template}`"),
            Self::Name { .. } => "set the name of the crate with `--name NAME`".to_owned(),
            Self::Backends(_) => {
                let known = Backend::ALL.map(Backend::id).join(", ");
                format!("backends are {known}; `auto` and `all` are selections")
            }
            Self::Backend { .. } => "omit it, or add it to the project later".to_owned(),
            Self::Exists { .. } => "specify another folder, or move the existing files".to_owned(),
            Self::Link { .. } => "replace it by a folder, or specify another folder".to_owned(),
            Self::Workspace { hint, .. } => hint.clone(),
            Self::Gpubuild { .. } => "specify the folder of a gpubuild checkout".to_owned(),
            Self::File { kind, .. } => diagnostic::file_hint(*kind).to_owned(),
        })
    }
}
