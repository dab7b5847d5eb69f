//! Why a toolkit was not installed.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::python::PipInstallError;

/// Why a toolkit could not be installed, found or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// No toolkit of this name is offered.
    #[error("there is no toolkit `{asked}` to install; offered: {offered}")]
    UnknownToolkit {
        /// What was asked for.
        asked: String,
        /// Ids, separated by commas.
        offered: String,
    },
    /// It is known, and it does not come as wheels.
    #[error("`{toolkit}` cannot be installed like this: {why}")]
    Elsewhere {
        /// Id of the toolkit.
        toolkit: String,
        /// Why.
        why: String,
        /// What installs it on this system.
        command: Option<String>,
    },
    /// No lock for this release.
    #[error("{toolkit} {asked} is not offered; offered: {offered}")]
    UnknownRelease {
        /// Id of the toolkit.
        toolkit: String,
        /// What was asked for.
        asked: String,
        /// Releases, separated by commas.
        offered: String,
    },
    /// The release has no such component.
    #[error("{toolkit} {release} has no component `{asked}`; it has: {offered}")]
    UnknownComponent {
        /// Id of the toolkit.
        toolkit: String,
        /// Release.
        release: String,
        /// What was asked for.
        asked: String,
        /// Ids, separated by commas.
        offered: String,
    },
    /// No wheels for this system.
    #[error("{toolkit} {release} has no wheels for {platform}")]
    Platform {
        /// Id of the toolkit.
        toolkit: String,
        /// Release.
        release: String,
        /// System and processor.
        platform: String,
    },
    /// The system has musl.
    #[error("the wheels of {toolkit} {release} need GNU's C library, and this system has musl")]
    Musl {
        /// Id of the toolkit.
        toolkit: String,
        /// Release.
        release: String,
    },
    /// The system's C library is older than what the wheels were made for.
    #[error("the wheel `{package}` needs glibc {needs}, and this system has {has}")]
    OldGlibc {
        /// The distribution.
        package: String,
        /// At least.
        needs: String,
        /// What is there.
        has: String,
    },
    /// The disk has no room for it.
    #[error("{what} needs {needs} of disk, and `{folder}` has {free}")]
    NoRoom {
        /// `cuda 13.0`.
        what: String,
        /// With its unit.
        needs: String,
        /// With its unit.
        free: String,
        /// Where.
        folder: String,
    },
    /// There is no folder to put it.
    #[error("there is no cache folder: set GPUBUILD_CACHE or HOME")]
    NoCache,
    /// A file or folder of ours.
    #[error("failed to write the cache: {message}")]
    Cache {
        /// What the system said, with the path.
        message: String,
        /// Whether it may not be written at all.
        read_only: bool,
        /// Whether the disk is full.
        full: bool,
    },
    /// uv or pip.
    #[error(transparent)]
    Install(#[from] PipInstallError),
    /// What was installed does not run.
    #[error("{what} was installed and does not run here: {message}")]
    Broken {
        /// `cuda 13.0`.
        what: String,
        /// What happened.
        message: String,
    },
    /// It is not installed.
    #[error("{what} is not installed")]
    NotInstalled {
        /// `cuda 13.0`.
        what: String,
        /// What is, separated by commas.
        installed: String,
    },
    /// A value that no line of a shell can hold safely.
    #[error("`{path}` cannot be written as a line of a shell")]
    Unsafe {
        /// The value.
        path: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl ProvisionError {
    /// Whether the request itself is wrong, so that the exit code is that of usage.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownToolkit { .. }
                | Self::Elsewhere { .. }
                | Self::UnknownRelease { .. }
                | Self::UnknownComponent { .. }
                | Self::Platform { .. }
                | Self::Musl { .. }
                | Self::OldGlibc { .. }
                | Self::NotInstalled { .. }
        )
    }

    /// A failed changing call; its message names the path.
    #[must_use]
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        if error.kind() == ErrorKind::Interrupted {
            return Self::Interrupted;
        }
        Self::Cache {
            message: error.to_string(),
            read_only: matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied),
            full: error.kind() == ErrorKind::StorageFull,
        }
    }
}

impl Diagnostic for ProvisionError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::UnknownToolkit { .. } => id!("toolkit.unknown"),
            Self::Elsewhere { .. } => id!("toolkit.not-in-wheels"),
            Self::UnknownRelease { .. } => id!("toolkit.unknown-release"),
            Self::UnknownComponent { .. } => id!("toolkit.unknown-component"),
            Self::Platform { .. } => id!("toolkit.no-wheels-here"),
            Self::Musl { .. } => id!("wheel.musl"),
            Self::OldGlibc { .. } => id!("wheel.glibc-too-old"),
            Self::NoRoom { .. } | Self::Cache { full: true, .. } => id!("disk.full"),
            Self::NoCache => id!("cache.missing"),
            Self::Cache { read_only: true, .. } => id!("cache.read-only"),
            Self::Cache { .. } => id!("cache.failed"),
            Self::Install(error) => error.id(),
            Self::Broken { .. } => id!("toolkit.broken"),
            Self::NotInstalled { .. } => id!("toolkit.not-installed"),
            Self::Unsafe { .. } => id!("toolkit.unsafe-path"),
            Self::Interrupted => id!("build.interrupted"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Elsewhere { command, .. } => command.as_ref().map(|command| format!("run `{command}`")),
            Self::UnknownRelease { toolkit, .. } => Some(format!(
                "`gpubuild toolkit install {toolkit}` takes one that fits this machine; `gpubuild toolkit list` shows all"
            )),
            Self::Platform { .. } | Self::Musl { .. } => Some(
                "build in a container of a distribution with glibc, or install the vendor's own package"
                    .to_owned(),
            ),
            Self::OldGlibc { .. } => Some(
                "build on a newer system or in a container, or install the vendor's own package".to_owned(),
            ),
            Self::NoRoom { .. } | Self::Cache { full: true, .. } => {
                Some("free some space, or set GPUBUILD_CACHE to a folder on a larger disk".to_owned())
            }
            Self::Unsafe { .. } => Some("set GPUBUILD_CACHE to a folder with an ordinary name".to_owned()),
            Self::Cache { .. } => Some("set GPUBUILD_CACHE to a folder that may be written".to_owned()),
            Self::Install(error) => error.hint(),
            Self::NotInstalled { installed, .. } if installed.is_empty() => {
                Some("`gpubuild toolkit install cuda` installs one".to_owned())
            }
            Self::NotInstalled { installed, .. } => Some(format!("installed: {installed}")),
            _ => None,
        }
    }
}
