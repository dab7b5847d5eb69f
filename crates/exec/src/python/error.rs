//! Why wheels are not there.

use super::said::Cause;

/// Why wheels could not be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
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
        cause: Cause,
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

impl InstallError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::NoPython { .. } => "python.missing",
            Self::NoPip { .. } => "python.pip-missing",
            Self::Offline { .. } => "fetch.offline",
            Self::Truncated { .. } => "wheel.damaged",
            Self::Failed { cause, .. } => match cause {
                Cause::Hash => "wheel.hash-mismatch",
                Cause::Damaged => "wheel.damaged",
                Cause::Network => "wheel.network",
                Cause::NotFound => "wheel.not-found",
                Cause::Space => "disk.full",
                Cause::ReadOnly => "cache.read-only",
                Cause::Other => "wheel.failed",
            },
            Self::Interrupted => "build.interrupted",
            Self::Write { .. } => "cache.failed",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoPython { .. } => "install uv, or Python with pip",
            Self::NoPip { .. } => "install pip (Debian, Ubuntu: `sudo apt install python3-pip`) or uv",
            Self::Offline { .. } => {
                "run it once without `--offline`, or name a folder that holds the wheels with `--find-links`"
            }
            Self::Truncated { .. } => "download that wheel again",
            Self::Failed { cause, .. } => match cause {
                Cause::Hash => {
                    "the file is not the one that was pinned: look at the index, the proxy and the folders that uv or pip are set to use; nothing of it was kept"
                }
                Cause::Damaged => {
                    "download that wheel again: `uv cache clean` or `pip cache purge` forgets the copy"
                }
                Cause::Network => {
                    "look at the network and at the proxy and index that uv or pip are set to use, then run the same command: what is there already is not downloaded again"
                }
                Cause::NotFound => {
                    "look at the index that uv or pip are set to use: it lacks this file; with `--find-links` a folder with the wheels serves as well"
                }
                Cause::Space => "free some space, or set GPUBUILD_CACHE to a folder on a larger disk",
                Cause::ReadOnly => {
                    "set GPUBUILD_CACHE (and UV_CACHE_DIR or PIP_CACHE_DIR) to a folder that may be written"
                }
                Cause::Other => return None,
            },
            Self::Write { .. } => "set GPUBUILD_CACHE to a folder that may be written",
            Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }
}

/// Why a tool could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
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

impl FetchError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Offline { .. } => "fetch.offline",
            Self::NoPython { .. } => "python.missing",
            Self::NoPip { .. } => "python.pip-missing",
            Self::Install { .. } => "fetch.failed",
            Self::Broken { .. } => "fetch.broken",
            Self::NoCache => "cache.missing",
            Self::Interrupted => "build.interrupted",
            Self::Cache { .. } => "cache.failed",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
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

    /// The installer's words about a tool.
    pub(super) fn of_install(tool: &str, version: &str, error: InstallError) -> Self {
        let (tool, version) = (tool.to_owned(), version.to_owned());
        match error {
            InstallError::NoPython { .. } => Self::NoPython { tool },
            InstallError::NoPip { python, .. } => Self::NoPip { tool, python },
            InstallError::Interrupted => Self::Interrupted,
            InstallError::Write { path, message } => Self::Cache { path, message },
            InstallError::Failed { message, .. } => Self::Install { tool, version, message },
            other @ (InstallError::Offline { .. } | InstallError::Truncated { .. }) => {
                Self::Install { tool, version, message: other.to_string() }
            }
        }
    }
}
