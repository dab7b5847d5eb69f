//! Errors while a project is found and loaded.

use gpubuild_core::shell;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::Os;

use super::{FILE_NAME, SCHEMA};

/// A project of another user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{file}` is not used: `{path}` belongs to user {owner}, and gpubuild runs as user {user}")]
pub struct ForeignProject {
    /// The project file.
    pub file: String,
    /// The file or folder of the other user.
    pub path: String,
    /// The id and name of its owner.
    pub owner: String,
    /// The id and name of the user who runs gpubuild.
    pub user: String,
    /// The folder of the project file.
    pub folder: String,
    /// The command that allows the folder; `None` if its name must not be part of a command.
    pub allow: Option<String>,
}

/// A project that cannot be found or loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// No project file in the folder or any parent folder.
    #[error("no `{FILE_NAME}` in `{start}` or any folder above it")]
    NotFound {
        /// The folder where the search started.
        start: String,
    },
    /// The file or its folder belongs to another user.
    #[error(transparent)]
    OtherOwner(Box<ForeignProject>),
    /// The file cannot be read.
    #[error("failed to read `{path}`: {message}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's error.
        message: String,
    },
    /// The file is invalid.
    #[error("`{path}` is not valid: {message}")]
    Invalid {
        /// The file.
        path: String,
        /// The parser's message, with the line and a caret.
        message: String,
    },
    /// The file requires a later version of gpubuild.
    #[error("`{path}` has schema {found}, but this version of gpubuild reads schemas up to {SCHEMA}")]
    Newer {
        /// The file.
        path: String,
        /// Its schema.
        found: i64,
    },
    /// The profile does not exist.
    #[error("`{path}` uses the unknown profile `{name}`; known profiles: {}", .known.join(", "))]
    UnknownProfile {
        /// The file.
        path: String,
        /// The name as written.
        name: String,
        /// Existing profiles.
        known: Vec<String>,
    },
    /// The source folder is not a CMake project.
    #[error("`{path}` sets the source folder to `{source_folder}`, which does not contain a CMakeLists.txt")]
    NoSource {
        /// The file.
        path: String,
        /// The folder.
        source_folder: String,
    },
    /// A folder of the project is in the folder where it is built.
    #[error("`{path}` sets `{key}` to `{folder}`, which is in the build folder `{build}`")]
    InsideBuild {
        /// The file.
        path: String,
        /// The key.
        key: &'static str,
        /// The folder that it names.
        folder: String,
        /// The build folder.
        build: String,
    },
    /// The downloaded sources are not on this machine.
    #[error("the sources of this project, {source_name}, were not fetched: {why}")]
    SourceNotFetched {
        /// The sources.
        source_name: String,
        /// What is missing.
        why: String,
        /// The folder of the project.
        folder: String,
    },
    /// The downloaded sources lack the folder that `path` names.
    #[error("{source_name} has no folder `{path}`")]
    SourcePath {
        /// The sources.
        source_name: String,
        /// The path as written.
        path: String,
        /// Folders at its top.
        folders: Vec<String>,
    },
    /// The lock file is invalid.
    #[error("`{path}` is not valid: {message}")]
    SourceLock {
        /// The file.
        path: String,
        /// The problem.
        message: String,
    },
}

impl Diagnostic for ProjectError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NotFound { .. } => id!("project.not-found"),
            Self::OtherOwner(_) => id!("project.other-owner"),
            Self::Unreadable { .. } => id!("project.unreadable"),
            Self::Invalid { .. } => id!("project.invalid"),
            Self::Newer { .. } => id!("project.newer-schema"),
            Self::UnknownProfile { .. } => id!("project.unknown-profile"),
            Self::NoSource { .. } => id!("project.source-missing"),
            Self::InsideBuild { .. } => id!("project.inside-build"),
            Self::SourceNotFetched { .. } => id!("source.not-fetched"),
            Self::SourcePath { .. } => id!("source.path-missing"),
            Self::SourceLock { .. } => id!("source.lock-invalid"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound { .. } => {
                format!(
                    "run the command in a project, or select one with `--project DIR` (contains {FILE_NAME})"
                )
            }
            Self::OtherOwner(project) => format!(
                "a project file can run programs; if you trust this one, {}add `{}` to `safe_directories` in gpubuild's \
                 config.toml",
                project.allow.as_ref().map(|command| format!("run `{command}`, or ")).unwrap_or_default(),
                project.folder
            ),
            Self::Unreadable { .. } => "check that the file exists and is readable".to_owned(),
            Self::Invalid { .. } => {
                "correct the marked line; docs/reference/project-file.md lists all keys".to_owned()
            }
            Self::Newer { .. } => "update gpubuild: `cargo install gpubuild`".to_owned(),
            Self::UnknownProfile { .. } => "use `cmake` for any other CMake project".to_owned(),
            Self::NoSource { .. } => "correct `source`, or fetch the submodule".to_owned(),
            Self::InsideBuild { .. } => {
                "move the folder elsewhere: `gpubuild clean` deletes the build folder with all that is in it"
                    .to_owned()
            }
            // A folder whose name does not belong in a command.
            Self::SourceNotFetched { folder, .. } => match shell::quote(Os::Linux, folder) {
                Some(folder) => format!("run `gpubuild fetch --project {folder}`"),
                None => "run `gpubuild fetch` in the folder of the project".to_owned(),
            },
            Self::SourcePath { folders, .. } if folders.is_empty() => "correct `path`".to_owned(),
            Self::SourcePath { folders, .. } => {
                format!("correct `path`; it contains the folders `{}`", folders.join("`, `"))
            }
            Self::SourceLock { .. } => "run `gpubuild update`, which writes it again".to_owned(),
        })
    }
}
