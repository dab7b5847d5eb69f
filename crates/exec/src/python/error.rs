//! Why wheels are not there.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;

use super::said::PipCause;

/// Why wheels could not be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipInstallError {
    /// Neither uv nor Python.
    #[error("neither uv nor Python is there to install {what}")]
    NoPython {
        /// The distribution.
        what: String,
    },
    /// A Python without pip, and without what makes an environment that has it.
    #[error("`{python}` has neither pip nor a complete venv module, so it cannot install {what}")]
    NoPip {
        /// The distribution.
        what: String,
        /// The Python.
        python: String,
    },
    /// It would have to be downloaded.
    #[error("{what} {version} is not on this machine, and it may not be fetched offline")]
    Offline {
        /// The distribution.
        what: String,
        /// Version that is pinned.
        version: String,
    },
    /// A file in a folder of wheels is not whole.
    #[error("`{path}` is damaged: it has {has} bytes where the pinned wheel has {pinned}")]
    Truncated {
        /// The file.
        path: String,
        /// Its size.
        has: u64,
        /// The size that is pinned.
        pinned: u64,
    },
    /// uv or pip said no.
    #[error("failed to install {}: {message}", format!("{what} {version}").trim_end())]
    Failed {
        /// The distribution.
        what: String,
        /// Version that is pinned.
        version: String,
        /// What its words mean.
        cause: PipCause,
        /// What it said.
        message: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A file or folder of ours.
    #[error("failed to write `{path}`: {message}")]
    Write {
        /// The path.
        path: String,
        /// What the system said.
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
            Self::NoPip { .. } => "install pip (Debian, Ubuntu: `sudo apt install python3-pip`) or uv",
            Self::Offline { .. } => {
                "run it once without `--offline`, or name a folder that holds the wheels with `--find-links`"
            }
            Self::Truncated { .. } => "download that wheel again",
            Self::Failed { cause, .. } => match cause {
                PipCause::Hash => {
                    "the file is not the one that was pinned: look at the index, the proxy and the folders that uv or pip are set to use; nothing of it was kept"
                }
                PipCause::Damaged => {
                    "download that wheel again: `uv cache clean` or `pip cache purge` forgets the copy"
                }
                PipCause::Network => {
                    "look at the network and at the proxy and index that uv or pip are set to use, then run the same command: what is there already is not downloaded again"
                }
                PipCause::NotFound => {
                    "look at the index that uv or pip are set to use: it lacks this file; with `--find-links` a folder with the wheels serves as well"
                }
                PipCause::Space => "free some space, or set GPUBUILD_CACHE to a folder on a larger disk",
                PipCause::ReadOnly => {
                    "set GPUBUILD_CACHE (and UV_CACHE_DIR or PIP_CACHE_DIR) to a folder that may be written"
                }
                PipCause::Other => return None,
            },
            Self::Write { .. } => "set GPUBUILD_CACHE to a folder that may be written",
            Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }
}

/// Why a tool could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WheelFetchError {
    /// Fetching is forbidden.
    #[error("{tool} is needed, there is none on this machine, and it may not be fetched offline")]
    Offline {
        /// Tool.
        tool: String,
        /// The command that fixes it.
        command: String,
    },
    /// Neither uv nor Python.
    #[error(
        "{tool} is needed, there is none on this machine, and neither uv nor Python is there to fetch it"
    )]
    NoPython {
        /// Tool.
        tool: String,
    },
    /// A Python without pip.
    #[error("`{python}` has neither pip nor a complete venv module, so it cannot fetch {tool}")]
    NoPip {
        /// Tool.
        tool: String,
        /// The Python.
        python: String,
    },
    /// uv or pip said no.
    #[error("failed to fetch {tool} {version}: {message}")]
    Install {
        /// Tool.
        tool: String,
        /// Version that is pinned.
        version: String,
        /// What the installer said.
        message: String,
    },
    /// What was installed does not run.
    #[error("{tool} {version} was fetched and does not run here: {message}")]
    Broken {
        /// Tool.
        tool: String,
        /// Version that is pinned.
        version: String,
        /// What happened.
        message: String,
    },
    /// There is no folder to put it.
    #[error("there is no cache folder: set GPUBUILD_CACHE or HOME")]
    NoCache,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A file or folder of the cache.
    #[error("failed to write the cache at `{path}`: {message}")]
    Cache {
        /// The path.
        path: String,
        /// What the system said.
        message: String,
    },
}

impl WheelFetchError {
    /// The installer's words about a tool.
    pub(super) fn of_install(tool: &str, version: &str, error: PipInstallError) -> Self {
        let (tool, version) = (tool.to_owned(), version.to_owned());
        match error {
            PipInstallError::NoPython { .. } => Self::NoPython { tool },
            PipInstallError::NoPip { python, .. } => Self::NoPip { tool, python },
            PipInstallError::Interrupted => Self::Interrupted,
            PipInstallError::Write { path, message } => Self::Cache { path, message },
            PipInstallError::Failed { message, .. } => Self::Install { tool, version, message },
            other @ (PipInstallError::Offline { .. } | PipInstallError::Truncated { .. }) => {
                Self::Install { tool, version, message: other.to_string() }
            }
        }
    }
}

impl Diagnostic for WheelFetchError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Offline { .. } => id!("fetch.offline"),
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
            Self::Offline { tool, command } => {
                Some(format!("install {tool}, or run `{command}`, or once build without `--offline`"))
            }
            Self::NoPython { tool } => Some(format!("install {tool} itself, uv, or Python with pip")),
            Self::NoPip { .. } => {
                Some("install pip (Debian, Ubuntu: `sudo apt install python3-pip`) or uv".to_owned())
            }
            Self::Install { tool, .. } => {
                Some(format!("look at pip's settings for its index and proxy, or install {tool} yourself"))
            }
            _ => None,
        }
    }
}
