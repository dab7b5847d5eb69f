//! Errors of build scripts.

use gpubuild_detect::diagnostic::{self, Diagnostic, DiagnosticId};
use gpubuild_detect::facts::overrides::BadSet;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_exec::exec::BuildError;
use gpubuild_exec::store::settings::SettingsError;
use gpubuild_link::internal;
use gpubuild_plan::artifacts::ManifestError;
use gpubuild_plan::project::ProjectError;

use super::missing::MissingRequirement;

/// Why a build script failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The script does not run under cargo.
    #[error("`{variable}` is not set: only cargo can start a build script")]
    NoCargo {
        /// The variable that cargo would set.
        variable: String,
    },
    /// The project file is missing or invalid.
    #[error("{0}")]
    Project(#[from] ProjectError),
    /// `GPUBUILD_SET` is invalid.
    #[error("{0}")]
    Override(BadSet),
    /// An unknown backend.
    #[error("{message} (from {origin})")]
    Backend {
        /// The option, variable or file that names it.
        origin: String,
        /// Why it was rejected.
        message: String,
    },
    /// The project cannot be built this way on any machine.
    #[error("{}", .0.text)]
    Refused(Reason),
    /// A toolkit, tool or file is missing on this machine.
    #[error("{}", .0.what)]
    Missing(MissingRequirement),
    /// The build failed.
    #[error("{0}")]
    Build(BuildError),
    /// The manifest that a variable names is unusable.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    /// The settings of the build store are invalid.
    #[error("{0}")]
    Store(SettingsError),
    /// The crate whose libraries are to be shared is not a dependency.
    #[error(
        "`{variable}` is not set: no crate that this one depends on has `links = \"{links}\"` and uses gpubuild"
    )]
    NotShared {
        /// The `links` key: `ggml`.
        links: String,
        /// The missing variable: `DEP_GGML_GPUBUILD_MANIFEST`.
        variable: String,
    },
    /// Two crates of a program define the same symbols.
    #[error("{message}")]
    Same {
        /// The crates and symbols, and how the two copies differ.
        message: String,
    },
    /// bindgen failed.
    #[error("failed to generate `{file}`: {message}")]
    Bindings {
        /// The file's name: `bindings.rs`.
        file: String,
        /// bindgen's message.
        message: String,
    },
    /// No headers to generate bindings from.
    #[error("no headers to generate bindings from")]
    NoHeaders,
    /// A header that was not found.
    #[error("header `{header}` not found{}", unbuilt_note(.unbuilt.as_deref()))]
    NoHeader {
        /// The name as given.
        header: String,
        /// The folders that were searched.
        searched: Vec<String>,
        /// Why the libraries' folders are unknown.
        unbuilt: Option<String>,
    },
    /// A file or folder could not be written.
    #[error("failed to write into `{path}`: {message}")]
    Io {
        /// The path.
        path: String,
        /// The system's message.
        message: String,
        /// The kind of the error, which selects the hint.
        kind: std::io::ErrorKind,
    },
}

fn unbuilt_note(why: Option<&str>) -> String {
    why.map(|why| format!("; nothing was built, so the libraries' folders are unknown: {why}"))
        .unwrap_or_default()
}

impl ScriptError {
    /// A failed operation on a file or folder.
    pub(crate) fn io(path: &str, error: &std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), message: error.to_string(), kind: error.kind() }
    }

    /// The stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Missing(missing) => missing.causes.first().map_or("script.missing", |cause| cause.id),
            _ => self.diagnostic_id().as_str(),
        }
    }

    fn diagnostic_id(&self) -> DiagnosticId {
        match self {
            Self::NoCargo { .. } => id!("script.no-cargo"),
            Self::Project(error) => error.id(),
            Self::Override(_) => id!("host.override-invalid"),
            Self::Backend { .. } => id!("backend.unknown"),
            Self::Refused(reason) => reason.id,
            Self::Missing(_) => id!("script.missing"),
            Self::Build(error) => error.id(),
            Self::Manifest(error) => error.id(),
            Self::Store(error) => error.id(),
            Self::NotShared { .. } => id!("script.not-shared"),
            Self::Same { .. } => id!("symbols.same"),
            Self::Bindings { .. } => id!("bindings.failed"),
            Self::NoHeaders => id!("bindings.no-headers"),
            Self::NoHeader { .. } => id!("bindings.header-missing"),
            Self::Io { .. } => id!("file.failed"),
        }
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoCargo { .. } => {
                Some("run `cargo build`, or `gpubuild build` on the command line".to_owned())
            }
            Self::Project(error) => error.hint(),
            Self::Refused(reason) => reason.hint.clone(),
            Self::Build(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Manifest(_) => Some("run `gpubuild build` again, or unset `GPUBUILD_MANIFEST`".to_owned()),
            Self::NotShared { links, .. } => Some(format!(
                "add the crate to [dependencies], with `links = \"{links}\"` in its Cargo.toml and `gpubuild_build::Build` in its build.rs"
            )),
            Self::Backend { .. } => {
                let known = gpubuild_core::Backend::ALL.map(gpubuild_core::Backend::id).join(", ");
                Some(format!("backends are {known}; `auto` and `all` are selections"))
            }
            Self::Same { .. } => Some(internal::SAME_SYMBOLS_HINT.to_owned()),
            Self::Bindings { .. } => {
                Some("`cargo build -vv` shows the complete output of bindgen and libclang".to_owned())
            }
            Self::NoHeaders => Some("call `.header(\"x.h\")`, or set `headers` in gpubuild.toml".to_owned()),
            Self::NoHeader { searched, .. } => Some(format!(
                "names are relative to the project's sources, the crate or a folder of `.include(…)`; searched: {}",
                searched.join(", ")
            )),
            Self::Io { kind, .. } => Some(diagnostic::file_hint(*kind).to_owned()),
            Self::Missing(_) | Self::Override(_) => None,
        }
    }

    /// The complete message with causes, fixes and hint, one per line.
    #[must_use]
    pub fn full_message(&self) -> String {
        let mut lines = vec![format!("{self} [{}]", self.id())];
        match self {
            Self::Build(error) => {
                for cause in error.causes() {
                    lines.push(format!("cause: {} [{}]", cause.summary, cause.id));
                    lines.push(format!("fix: {}", cause.remedy.text));
                    lines.extend(cause.remedy.commands.iter().map(|command| format!("  {command}")));
                }
            }
            Self::Missing(missing) => {
                for cause in &missing.causes {
                    lines.push(format!("cause: {} [{}]", cause.text, cause.id));
                    lines.extend(cause.fix.iter().map(|fix| format!("fix: {fix}")));
                    lines.extend(cause.commands.iter().map(|command| format!("  {command}")));
                }
            }
            _ => {}
        }
        lines.extend(self.hint().map(|hint| format!("hint: {hint}")));
        lines.join("\n")
    }
}
