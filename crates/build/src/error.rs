//! Why a build script did not come to its end.

use gpubuild_detect::facts::overrides::BadSet;
use gpubuild_detect::matrix::Reason;
use gpubuild_exec::exec::BuildError;
use gpubuild_exec::store::settings::SettingsError;
use gpubuild_link::internal;
use gpubuild_plan::artifacts::ManifestError;
use gpubuild_plan::project::ProjectError;

use super::missing::Missing;

/// Why a build script did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It does not run under cargo.
    #[error("`{variable}` is not set: only cargo can start a build script")]
    NoCargo {
        /// The variable.
        variable: String,
    },
    /// The project.
    #[error("{0}")]
    Project(#[from] ProjectError),
    /// `GPUBUILD_SET`.
    #[error("{0}")]
    Override(BadSet),
    /// A backend that there is none of.
    #[error("{message} (from {origin})")]
    Backend {
        /// Who named it.
        origin: String,
        /// What is wrong.
        message: String,
    },
    /// The project cannot be built in this way on any machine.
    #[error("{}", .0.text)]
    Refused(Reason),
    /// Something is missing on this machine.
    #[error("{}", .0.what)]
    Missing(Missing),
    /// The build.
    #[error("{0}")]
    Build(BuildError),
    /// A manifest that a variable names.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    /// The settings of the build store.
    #[error("{0}")]
    Store(SettingsError),
    /// A crate that is to share its libraries.
    #[error(
        "`{variable}` is not set: no crate that this one depends on has `links = \"{links}\"` and was built with gpubuild"
    )]
    NotShared {
        /// `ggml`.
        links: String,
        /// `DEP_GGML_GPUBUILD_MANIFEST`.
        variable: String,
    },
    /// Two crates of a program define the same symbols.
    #[error("{message}")]
    Same {
        /// Which, and how the two copies differ.
        message: String,
    },
    /// bindgen failed.
    #[error("failed to make `{file}`: {message}")]
    Bindings {
        /// `bindings.rs`.
        file: String,
        /// What it said.
        message: String,
    },
    /// There is nothing to make bindings of.
    #[error("no header is named to make bindings of")]
    NoHeaders,
    /// A header that is nowhere.
    #[error("there is no header `{header}`{}", told_unbuilt(.unbuilt.as_deref()))]
    NoHeader {
        /// As it was named.
        header: String,
        /// The folders that were searched.
        searched: Vec<String>,
        /// Why the folders of the libraries are not known.
        unbuilt: Option<String>,
    },
    /// A file or folder.
    #[error("failed to write into `{path}`: {message}")]
    Io {
        /// The path.
        path: String,
        /// What the system said.
        message: String,
    },
}

fn told_unbuilt(why: Option<&str>) -> String {
    why.map(|why| format!("; nothing was built, so the libraries' folders are not known: {why}"))
        .unwrap_or_default()
}

impl ScriptError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::NoCargo { .. } => "script.no-cargo",
            Self::Project(error) => error.id(),
            Self::Override(_) => "host.override-invalid",
            Self::Backend { .. } => "backend.unknown",
            Self::Refused(reason) => &reason.id,
            Self::Missing(missing) => missing.causes.first().map_or("script.missing", |cause| &cause.id),
            Self::Build(error) => error.id(),
            Self::Manifest(error) => error.id(),
            Self::Store(error) => error.id(),
            Self::NotShared { .. } => "script.not-shared",
            Self::Same { .. } => "symbols.same",
            Self::Bindings { .. } => "bindings.failed",
            Self::NoHeaders => "bindings.no-headers",
            Self::NoHeader { .. } => "bindings.header-missing",
            Self::Io { .. } => "file.failed",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoCargo { .. } => {
                Some("run `cargo build`; on the command line there is `gpubuild build`".to_owned())
            }
            Self::Project(error) => Some(error.hint()),
            Self::Refused(reason) => reason.hint.clone(),
            Self::Build(error) => error.hint(),
            Self::Store(error) => Some(error.hint().to_owned()),
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
                Some("`cargo build -vv` shows all that bindgen and libclang said".to_owned())
            }
            Self::NoHeaders => Some("call `.header(\"x.h\")`, or name `headers` in gpubuild.toml".to_owned()),
            Self::NoHeader { searched, .. } => Some(format!(
                "names are relative to the project's sources, the crate or a folder of `.include(…)`; searched: {}",
                searched.join(", ")
            )),
            Self::Missing(_) | Self::Override(_) | Self::Io { .. } => None,
        }
    }

    /// Everything that a reader needs, one thing a line.
    #[must_use]
    pub fn told(&self) -> String {
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
