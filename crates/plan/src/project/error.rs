//! Why there is no project.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;

use super::{FILE_NAME, SCHEMA};

/// Why there is no project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// No file here or above.
    #[error("no `{FILE_NAME}` in `{start}` or any folder above it")]
    NotFound {
        /// Where the search began.
        start: String,
    },
    /// It cannot be read.
    #[error("failed to read `{path}`: {message}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
    /// It is not what it should be; the message shows line and column.
    #[error("`{path}` is not valid: {message}")]
    Invalid {
        /// The file.
        path: String,
        /// The parser's message, with the line and a caret.
        message: String,
    },
    /// Written for a later version.
    #[error("`{path}` has schema {found}, and this gpubuild reads up to {SCHEMA}")]
    Newer {
        /// The file.
        path: String,
        /// The number in it.
        found: i64,
    },
    /// No such profile.
    #[error("`{path}` names the unknown profile `{name}`; known are {}", .known.join(", "))]
    UnknownProfile {
        /// The file.
        path: String,
        /// As written.
        name: String,
        /// The ones that exist.
        known: Vec<String>,
    },
    /// The CMake project is not there.
    #[error("`{path}` names the source folder `{source_folder}`, and there is no CMakeLists.txt in it")]
    NoSource {
        /// The file.
        path: String,
        /// The folder.
        source_folder: String,
    },
}

impl Diagnostic for ProjectError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NotFound { .. } => id!("project.not-found"),
            Self::Unreadable { .. } => id!("project.unreadable"),
            Self::Invalid { .. } => id!("project.invalid"),
            Self::Newer { .. } => id!("project.newer-schema"),
            Self::UnknownProfile { .. } => id!("project.unknown-profile"),
            Self::NoSource { .. } => id!("project.source-missing"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound { .. } => {
                format!("run it inside a project, or name one with `--project DIR` ({FILE_NAME})")
            }
            Self::Unreadable { .. } => "check that the file is there and that you may read it".to_owned(),
            Self::Invalid { .. } => {
                "correct the marked place; docs/reference/project-file.md lists every key".to_owned()
            }
            Self::Newer { .. } => "update gpubuild: `cargo install gpubuild`".to_owned(),
            Self::UnknownProfile { .. } => "use `cmake` for any other CMake project".to_owned(),
            Self::NoSource { .. } => {
                "correct `source`, or fetch the submodule that should be there".to_owned()
            }
        })
    }
}
