//! Errors of installing wheels.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_plan::plan::Fetch;

use super::installer_output::PipCause;

/// Why wheels could not be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipInstallError {
    /// Neither uv nor Python is installed.
    #[error("installing {what} requires uv or Python, and neither was found")]
    NoPython {
        /// The distribution.
        what: String,
    },
    /// Python has no pip, and its venv module cannot create an environment with pip.
    #[error("`{python}` has neither pip nor a complete venv module, so it cannot install {what}")]
    NoPip {
        /// The distribution.
        what: String,
        /// Path of the Python interpreter.
        python: String,
    },
    /// A wheel must be downloaded, which offline mode forbids.
    #[error("{what} {version} is not on this machine and cannot be downloaded offline")]
    Offline {
        /// The distribution.
        what: String,
        /// The pinned version.
        version: String,
    },
    /// A file in a wheel folder has the wrong size.
    #[error("`{path}` is damaged: it has {has} bytes, but the pinned wheel has {pinned}")]
    Truncated {
        /// The file.
        path: String,
        /// Size of the file in bytes.
        has: u64,
        /// Size of the pinned wheel in bytes.
        pinned: u64,
    },
    /// uv or pip failed.
    #[error("failed to install {}: {message}", format!("{what} {version}").trim_end())]
    Failed {
        /// The distribution.
        what: String,
        /// The pinned version.
        version: String,
        /// The cause, derived from its output.
        cause: PipCause,
        /// The error in its output.
        message: String,
    },
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A file or folder of gpubuild could not be written.
    #[error("failed to write `{path}`: {message}")]
    Write {
        /// The path.
        path: String,
        /// The message of the operating system.
        message: String,
    },
}

impl Diagnostic for PipInstallError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoPython { .. } => id!("python.missing"),
            Self::NoPip { .. } => id!("python.pip-missing"),
            Self::Offline { .. } => id!("fetch.offline"),
            Self::Truncated { .. } => id!("wheel.damaged"),
            Self::Failed { cause, .. } => match cause {
                PipCause::Hash => id!("wheel.hash-mismatch"),
                PipCause::Damaged => id!("wheel.damaged"),
                PipCause::Network => id!("wheel.network"),
                PipCause::NotFound => id!("wheel.not-found"),
                PipCause::Space => id!("disk.full"),
                PipCause::ReadOnly => id!("cache.read-only"),
                PipCause::Other => id!("wheel.failed"),
            },
            Self::Interrupted => id!("build.interrupted"),
            Self::Write { .. } => id!("cache.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoPython { .. } => "install uv, or Python with pip",
            Self::NoPip { .. } => "install pip (Debian, Ubuntu: `python3-pip`) or uv",
            Self::Offline { .. } => {
                "run the command once without `--offline`, or pass a folder with the wheels in `--find-links`"
            }
            Self::Truncated { .. } => "download the wheel again",
            Self::Failed { cause, .. } => match cause {
                PipCause::Hash => {
                    "the file is not the pinned one and was discarded: check the index, the proxy and the folders that uv or pip are configured to use"
                }
                PipCause::Damaged => {
                    "download the wheel again: `uv cache clean` or `pip cache purge` removes the cached copy"
                }
                PipCause::Network => {
                    "check the network, and the proxy, index and certificates (SSL_CERT_FILE, for pip PIP_CERT) that uv or pip are configured to use, then run the command again: finished downloads are kept"
                }
                PipCause::NotFound => {
                    "check the index that uv or pip are configured to use: it lacks this file; alternatively pass a folder with the wheels in `--find-links`"
                }
                PipCause::Space => "free some space, or set GPUBUILD_CACHE to a folder on a larger disk",
                PipCause::ReadOnly => {
                    "set GPUBUILD_CACHE (and UV_CACHE_DIR or PIP_CACHE_DIR) to a writable folder"
                }
                PipCause::Other => return None,
            },
            Self::Write { .. } => "set GPUBUILD_CACHE to a writable folder",
            Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }
}

/// Why a tool could not be downloaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WheelFetchError {
    /// The tool is missing, and offline mode forbids downloads.
    #[error("{tool} is required but not installed, and it cannot be downloaded offline")]
    Offline {
        /// Name of the tool.
        tool: String,
        /// A command that installs the tool; `None` if gpubuild uses it only from its cache.
        command: Option<String>,
        /// Its folder in the cache.
        folder: String,
        /// What makes the download unnecessary.
        instead: String,
    },
    /// No pinned wheel supports this machine.
    #[error(
        "{tool} is required but not installed, and no pinned wheel of {tool} {version} supports {platform}"
    )]
    Unsupported {
        /// Name of the tool.
        tool: String,
        /// The pinned version.
        version: String,
        /// The machine: `linux aarch64 with musl`.
        platform: String,
        /// What makes the download unnecessary.
        instead: String,
    },
    /// Neither uv nor Python is installed.
    #[error("{tool} is required but not installed, and downloading it requires uv or Python")]
    NoPython {
        /// Name of the tool.
        tool: String,
        /// What makes the download unnecessary.
        instead: String,
    },
    /// Python has no pip, and its venv module cannot create an environment with pip.
    #[error("`{python}` has neither pip nor a complete venv module, so it cannot download {tool}")]
    NoPip {
        /// Name of the tool.
        tool: String,
        /// Path of the Python interpreter.
        python: String,
    },
    /// uv or pip failed.
    #[error("failed to fetch {tool} {version}: {message}")]
    Install {
        /// Name of the tool.
        tool: String,
        /// The pinned version.
        version: String,
        /// The error in the installer's output.
        message: String,
        /// What makes the download unnecessary.
        instead: String,
    },
    /// The downloaded wheel lacks the tool, or the tool does not run.
    #[error("the downloaded {tool} {version} is unusable: {message}")]
    Broken {
        /// Name of the tool.
        tool: String,
        /// The pinned version.
        version: String,
        /// The problem.
        message: String,
    },
    /// The cache folder cannot be determined.
    #[error("no cache folder is known: set GPUBUILD_CACHE or HOME")]
    NoCache,
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A file or folder of the cache could not be written.
    #[error("failed to write the cache at `{path}`: {message}")]
    Cache {
        /// The path.
        path: String,
        /// The message of the operating system.
        message: String,
    },
}

impl WheelFetchError {
    /// Converts an installer's error about a tool.
    pub(super) fn from_install(fetch: &Fetch, instead: String, error: PipInstallError) -> Self {
        let (tool, version) = (fetch.tool.clone(), fetch.version.clone());
        match error {
            PipInstallError::NoPython { .. } => Self::NoPython { tool, instead },
            PipInstallError::NoPip { python, .. } => Self::NoPip { tool, python },
            PipInstallError::Interrupted => Self::Interrupted,
            PipInstallError::Write { path, message } => Self::Cache { path, message },
            PipInstallError::Failed { message, .. } => Self::Install { tool, version, message, instead },
            other @ (PipInstallError::Offline { .. } | PipInstallError::Truncated { .. }) => {
                Self::Install { tool, version, message: other.to_string(), instead }
            }
        }
    }
}

impl Diagnostic for WheelFetchError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Offline { .. } => id!("fetch.offline"),
            Self::Unsupported { .. } => id!("fetch.unsupported"),
            Self::NoPython { .. } => id!("python.missing"),
            Self::NoPip { .. } => id!("python.pip-missing"),
            Self::Install { .. } => id!("fetch.failed"),
            Self::Broken { .. } => id!("fetch.broken"),
            Self::NoCache => id!("cache.missing"),
            Self::Interrupted => id!("build.interrupted"),
            Self::Cache { .. } => id!("cache.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Offline { command: None, tool, folder, instead } => Some(format!(
                "run `gpubuild fetch --tool {tool}` once without `--offline`, copy `{folder}` from a machine of the same platform that has it, or {instead}"
            )),
            Self::Offline { tool, command: Some(command), .. } => Some(format!(
                "install {tool}, run `{command}`, or run `gpubuild fetch --tool {tool}` once without `--offline`"
            )),
            Self::Unsupported { instead, .. } => Some(instead.clone()),
            Self::NoPython { tool, instead } => Some(format!(
                "run `gpubuild fetch --tool {tool}`, which downloads it without them; or install uv, or Python with pip; or {instead}"
            )),
            Self::NoPip { tool, .. } => Some(format!(
                "run `gpubuild fetch --tool {tool}`, which downloads it without pip; or install pip (Debian, Ubuntu: `python3-pip`) or uv"
            )),
            Self::Install { instead, .. } => {
                Some(format!("check pip's index and proxy settings, or {instead}"))
            }
            _ => None,
        }
    }
}
