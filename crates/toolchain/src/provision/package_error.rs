//! Errors of installations from packages.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_plan::plan::provision::Objection;

/// A toolkit that cannot be installed from packages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// The set cannot be installed on this machine.
    #[error("{}", .0.text)]
    NotHere(Objection),
    /// A release was requested, but the distribution determines it.
    #[error("the distribution determines the release of `{toolkit}`")]
    NoRelease {
        /// Id of the toolkit.
        toolkit: String,
    },
    /// The set does not have this component here.
    #[error("{}", unknown_component(toolkit, asked, offered))]
    UnknownComponent {
        /// Id of the toolkit.
        toolkit: String,
        /// The requested component.
        asked: String,
        /// Ids of optional components on this distribution, separated by commas.
        offered: String,
    },
    /// A program that gpubuild starts is missing.
    #[error("`{name}` was not found")]
    NoTool {
        /// Name of the program.
        name: String,
        /// What installs it.
        from: String,
    },
    /// The package lists lack a package.
    #[error("{message}")]
    Missing {
        /// The message of the package manager.
        message: String,
        /// The error of the last update of the lists, if it failed.
        update: Option<String>,
    },
    /// The dependencies cannot be resolved.
    #[error("the package manager cannot resolve the dependencies: {message}")]
    Conflict {
        /// The message of the package manager.
        message: String,
    },
    /// A download failed.
    #[error("the package manager failed to download packages: {message}")]
    Download {
        /// The message of the package manager.
        message: String,
    },
    /// A package differs from the signed list.
    #[error("`{file}` does not have the hash in the signed package list")]
    Changed {
        /// The file, or the package manager's message about it.
        file: String,
    },
    /// A package or list has no valid signature.
    #[error("the package manager found no valid signature: {message}")]
    Unsigned {
        /// The message of the package manager.
        message: String,
    },
    /// Packages are missing and the network may not be used.
    #[error("not available offline: {files}")]
    Offline {
        /// The missing files, separated by commas.
        files: String,
    },
    /// A package cannot be unpacked.
    #[error("failed to unpack `{file}`: {message}")]
    Unpack {
        /// The package.
        file: String,
        /// The problem.
        message: String,
    },
}

fn unknown_component(toolkit: &str, asked: &str, offered: &str) -> String {
    if offered.is_empty() {
        return format!("`{toolkit}` has no components on this distribution, so not `{asked}`");
    }
    format!("`{toolkit}` has no component `{asked}`; offered: {offered}")
}

impl Diagnostic for PackageError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NotHere(objection) => objection.id,
            Self::NoRelease { .. } => id!("toolkit.unknown-release"),
            Self::UnknownComponent { .. } => id!("toolkit.unknown-component"),
            Self::NoTool { .. } => id!("toolkit.tool-missing"),
            Self::Missing { .. } => id!("toolkit.package-missing"),
            Self::Conflict { .. } => id!("toolkit.package-conflict"),
            Self::Download { .. } => id!("toolkit.package-download"),
            Self::Changed { .. } => id!("toolkit.package-changed"),
            Self::Unsigned { .. } => id!("toolkit.package-unsigned"),
            Self::Offline { .. } => id!("fetch.offline"),
            Self::Unpack { .. } => id!("toolkit.package-unpack"),
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotHere(objection) => return objection.hint.clone(),
            Self::NoRelease { toolkit } => format!("run `gpubuild toolkit install {toolkit}`"),
            Self::NoTool { from, .. } => {
                format!("install {from}, or use a complete image of the distribution")
            }
            Self::Missing { update: Some(update), .. } => {
                format!("updating the package lists failed: {update}")
            }
            Self::Missing { .. } => {
                "enable the component or repository that has it; `universe` on Ubuntu".to_owned()
            }
            Self::Changed { .. } => {
                "try again later, or with another mirror; nothing was installed".to_owned()
            }
            Self::Unsigned { .. } => {
                "check the package manager's sources and keys; nothing was installed".to_owned()
            }
            Self::Download { .. } => {
                "check the network and the package manager's sources; what was downloaded is kept".to_owned()
            }
            Self::Offline { .. } => {
                "run it once without `--offline`, or name a folder that has them with `--find-links`"
                    .to_owned()
            }
            Self::Conflict { .. } | Self::UnknownComponent { .. } | Self::Unpack { .. } => return None,
        };
        Some(text)
    }
}

impl PackageError {
    /// Whether the request itself is invalid, which is a usage error.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NotHere(_) | Self::NoRelease { .. } | Self::UnknownComponent { .. } | Self::NoTool { .. }
        )
    }
}
