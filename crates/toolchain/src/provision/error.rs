//! Errors of toolkit installations.

use std::io::ErrorKind;

use gpubuild_detect::diagnostic::{self, Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::python::PipInstallError;

use super::package_error::PackageError;

/// A toolkit that cannot be installed, found or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// gpubuild does not offer a toolkit with this id.
    #[error("unknown toolkit `{asked}`; offered: {offered}")]
    UnknownToolkit {
        /// The requested id.
        asked: String,
        /// Offered ids, separated by commas.
        offered: String,
    },
    /// The release has no lock.
    #[error("{toolkit} {asked} is not offered; offered: {offered}")]
    UnknownRelease {
        /// Id of the toolkit.
        toolkit: String,
        /// The requested release.
        asked: String,
        /// Offered releases, separated by commas.
        offered: String,
    },
    /// The release does not have this component.
    #[error("{toolkit} {release} has no component `{asked}`; offered: {offered}")]
    UnknownComponent {
        /// Id of the toolkit.
        toolkit: String,
        /// Release.
        release: String,
        /// The requested component.
        asked: String,
        /// Ids of optional components, separated by commas.
        offered: String,
    },
    /// The release has no wheels for this platform.
    #[error("{toolkit} {release} has no wheels for {platform}")]
    Platform {
        /// Id of the toolkit.
        toolkit: String,
        /// Release.
        release: String,
        /// Operating system and processor architecture.
        platform: String,
    },
    /// The system uses musl.
    #[error("the wheels of {toolkit} {release} need glibc, but this system has musl")]
    Musl {
        /// Id of the toolkit.
        toolkit: String,
        /// Release.
        release: String,
    },
    /// The system's glibc is older than a wheel requires.
    #[error("the wheel `{package}` needs glibc {needs}, but this system has {has}")]
    OldGlibc {
        /// The package.
        package: String,
        /// Minimum version.
        needs: String,
        /// Installed version.
        has: String,
    },
    /// The disk does not have enough free space.
    #[error("{what} needs {needs} of disk space, but `{folder}` has {free} free")]
    NoRoom {
        /// Toolkit and release: `cuda 13.0`.
        what: String,
        /// Required space with unit.
        needs: String,
        /// Free space with unit.
        free: String,
        /// The toolkit folder.
        folder: String,
    },
    /// The environment does not determine a cache folder.
    #[error("no cache folder is known: set GPUBUILD_CACHE or HOME")]
    NoCache,
    /// A file or folder of gpubuild's cache cannot be changed.
    #[error("failed to write the cache: {message}")]
    Cache {
        /// The system's error, with the path.
        message: String,
        /// Its kind.
        kind: ErrorKind,
    },
    /// uv or pip failed.
    #[error(transparent)]
    Install(#[from] PipInstallError),
    /// An archive cannot be downloaded or unpacked.
    #[error("{message}")]
    Archive {
        /// Id of the error.
        id: DiagnosticId,
        /// The error.
        message: String,
        /// How to resolve it.
        hint: Option<String>,
    },
    /// A file of a wheel is not the one that its RECORD lists.
    #[error("the wheel `{package}` is damaged: `{path}` is missing or differs from the hash in its RECORD")]
    WheelDiffers {
        /// The package.
        package: String,
        /// Path of the file in the wheel.
        path: String,
    },
    /// Two wheels have different files of one name.
    #[error("the wheels `{}` and `{}` have different files `{path}`", packages[0], packages[1])]
    WheelsConflict {
        /// Path of the file in the wheels.
        path: String,
        /// The packages.
        packages: [String; 2],
    },
    /// The installed toolkit does not run.
    #[error("{what} was installed, but does not run: {message}")]
    Broken {
        /// Toolkit and release: `cuda 13.0`.
        what: String,
        /// Output or error of the program.
        message: String,
    },
    /// The toolkit is not installed.
    #[error("{what} is not installed")]
    NotInstalled {
        /// Toolkit and release: `cuda 13.0`.
        what: String,
        /// Id of the toolkit.
        toolkit: String,
        /// Installed toolkits, separated by commas.
        installed: String,
    },
    /// The toolkit cannot be installed from packages.
    #[error(transparent)]
    Packages(#[from] PackageError),
    /// A value that cannot be quoted safely in a shell.
    #[error("`{path}` cannot be quoted for a shell")]
    Unsafe {
        /// The value.
        path: String,
    },
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl ProvisionError {
    /// Whether the request itself is invalid, which is a usage error.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        if let Self::Packages(error) = self {
            return error.is_usage();
        }
        matches!(
            self,
            Self::UnknownToolkit { .. }
                | Self::UnknownRelease { .. }
                | Self::UnknownComponent { .. }
                | Self::Platform { .. }
                | Self::Musl { .. }
                | Self::OldGlibc { .. }
                | Self::NotInstalled { .. }
        )
    }

    /// Converts an error of uv, pip or the download of a wheel.
    #[must_use]
    pub(super) fn of_installer(error: PipInstallError) -> Self {
        match error {
            PipInstallError::Interrupted => Self::Interrupted,
            other => Self::Install(other),
        }
    }

    /// Converts an error of a write operation; the host interface includes the path in its message.
    #[must_use]
    pub fn of_io(error: &std::io::Error) -> Self {
        if error.kind() == ErrorKind::Interrupted {
            return Self::Interrupted;
        }
        Self::Cache { message: error.to_string(), kind: error.kind() }
    }
}

impl Diagnostic for ProvisionError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::UnknownToolkit { .. } => id!("toolkit.unknown"),
            Self::UnknownRelease { .. } => id!("toolkit.unknown-release"),
            Self::UnknownComponent { .. } => id!("toolkit.unknown-component"),
            Self::Platform { .. } => id!("toolkit.no-wheels-here"),
            Self::Musl { .. } => id!("wheel.musl"),
            Self::OldGlibc { .. } => id!("wheel.glibc-too-old"),
            Self::NoRoom { .. } | Self::Cache { kind: ErrorKind::StorageFull, .. } => id!("disk.full"),
            Self::NoCache => id!("cache.missing"),
            Self::Cache { kind: ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied, .. } => {
                id!("cache.read-only")
            }
            Self::Cache { .. } => id!("cache.failed"),
            Self::Install(error) => error.id(),
            Self::Packages(error) => error.id(),
            Self::Archive { id, .. } => *id,
            Self::WheelDiffers { .. } => id!("wheel.damaged"),
            Self::WheelsConflict { .. } => id!("wheel.conflict"),
            Self::Broken { .. } => id!("toolkit.broken"),
            Self::NotInstalled { .. } => id!("toolkit.not-installed"),
            Self::Unsafe { .. } => id!("toolkit.unsafe-path"),
            Self::Interrupted => id!("build.interrupted"),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownRelease { toolkit, .. } => Some(format!(
                "`gpubuild toolkit install {toolkit}` selects a suitable release; `gpubuild toolkit list` lists all releases"
            )),
            Self::Platform { .. } | Self::Musl { .. } => {
                Some("build in a container with glibc, or install the vendor's package".to_owned())
            }
            Self::OldGlibc { .. } => {
                Some("build on a newer system or in a container, or install the vendor's package".to_owned())
            }
            Self::NoRoom { .. } | Self::Cache { kind: ErrorKind::StorageFull, .. } => {
                Some("free disk space, or set GPUBUILD_CACHE to a folder on another disk".to_owned())
            }
            Self::Unsafe { .. } => {
                Some("set GPUBUILD_CACHE to a folder without special characters in its path".to_owned())
            }
            Self::Cache { kind: kind @ ErrorKind::NotADirectory, .. } => {
                Some(diagnostic::file_hint(*kind).to_owned())
            }
            Self::Cache { .. } => Some("set GPUBUILD_CACHE to a writable folder".to_owned()),
            Self::Install(error) => error.hint(),
            Self::Packages(error) => error.hint(),
            Self::Archive { hint, .. } => hint.clone(),
            Self::WheelDiffers { .. } => {
                Some("nothing was installed; use another release of the wheel, or report it to its vendor".to_owned())
            }
            Self::WheelsConflict { .. } => {
                Some("nothing was installed; the lock pins wheels that do not belong together: write it again with `gpubuild toolkit lock`".to_owned())
            }
            Self::NotInstalled { installed, toolkit, .. } if installed.is_empty() => {
                Some(format!("run `gpubuild toolkit install {toolkit}`"))
            }
            Self::NotInstalled { installed, .. } => Some(format!("installed: {installed}")),
            _ => None,
        }
    }
}
