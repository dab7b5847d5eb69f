//! Errors of installations.

use std::io;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::HostPath;

use crate::VariantChoice;
use crate::provenance::ProvenanceError;
use crate::resolve::NoVariant;
use crate::source::SourceError;
use crate::unpack::{RejectedArchive, is_full};

/// Why an installation failed. The installed version is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No variant fits the machine.
    #[error("{}", .0.text)]
    NoVariant(NoVariant),
    /// A better backend would not be used, which `--strict` forbids.
    #[error("`{}` does not use {}: {}", .0.label, backends(.0), reasons(.0))]
    Fallback(Box<VariantChoice>),
    /// The folder contains something other than an installation. Nothing in it was changed.
    #[error("`{folder}` was not created by `gpubuild install`: {found}")]
    Foreign {
        /// The folder.
        folder: HostPath,
        /// Why it is not an installation.
        found: String,
    },
    /// The state of an installation is damaged, so the installed versions are unknown. Nothing was changed.
    #[error("`{0}`, the state of the installation, is damaged or was written by a newer gpubuild")]
    Damaged(HostPath),
    /// A symbolic link has the path of a file or folder that gpubuild creates. Neither the link nor its target was changed.
    #[error("`{path}` is a symbolic link to `{target}`, and gpubuild does not install through links")]
    Link {
        /// The link.
        path: HostPath,
        /// The target of the link.
        target: String,
    },
    /// The folder contains another release.
    #[error("`{folder}` contains `{found}`, not `{wanted}`")]
    OtherName {
        /// The folder.
        folder: HostPath,
        /// The installed release.
        found: String,
        /// The release to install.
        wanted: String,
    },
    /// The disk has too little free space.
    #[error("the installation needs {needed} bytes in `{folder}`, but only {free} are free")]
    NoSpace {
        /// The folder.
        folder: HostPath,
        /// Required space in bytes.
        needed: u64,
        /// Free space in bytes.
        free: u64,
    },
    /// The file system has no free inodes.
    #[error("the file system of `{0}` has no free inodes, so no file can be created")]
    NoFiles(HostPath),
    /// The manifest or a layer cannot be read or downloaded.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It is not known how the variant was built, or it was built from another repository.
    #[error(transparent)]
    Provenance(#[from] ProvenanceError),
    /// An archive was rejected.
    #[error("layer {layer} of `{label}` was rejected: {rejected}")]
    Rejected {
        /// The label of the variant.
        label: String,
        /// The first digits of the layer's hash.
        layer: String,
        /// Why it was rejected.
        rejected: RejectedArchive,
    },
    /// No layer contains the program that the manifest names.
    #[error("`{label}` does not contain its program `{program}`")]
    NoProgram {
        /// The label of the variant.
        label: String,
        /// The path in the manifest.
        program: String,
    },
    /// The smoke test failed.
    #[error("`{label}` does not work with {backend} on this machine: {what}")]
    Start {
        /// The label of the variant.
        label: String,
        /// The id of the backend.
        backend: String,
        /// How the program failed.
        what: String,
        /// The last lines of its output.
        output: Vec<String>,
    },
    /// There is no previous version to return to.
    #[error("`{0}` has no previous version")]
    NoPrevious(HostPath),
    /// The folder is not an installation.
    #[error("nothing is installed in `{0}`")]
    NotInstalled(HostPath),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A file or folder cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn backends(choice: &VariantChoice) -> String {
    choice.fallback.iter().map(|one| one.backend.id()).collect::<Vec<_>>().join(", ")
}

fn reasons(choice: &VariantChoice) -> String {
    choice.fallback.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>().join("; ")
}

impl Diagnostic for InstallError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoVariant(nothing) => nothing.id,
            Self::Fallback(_) => id!("install.fallback"),
            Self::Foreign { .. } => id!("install.not-ours"),
            Self::Damaged(_) => id!("install.state-damaged"),
            Self::Link { .. } => id!("install.link"),
            Self::OtherName { .. } => id!("install.other-name"),
            Self::NoSpace { .. } => id!("install.no-space"),
            Self::NoFiles(_) => id!("disk.full"),
            Self::Source(error) => error.id(),
            Self::Provenance(error) => error.id(),
            Self::Rejected { rejected, .. } => rejected.id(),
            Self::NoProgram { .. } => id!("install.no-program"),
            Self::Start { .. } => id!("install.start-failed"),
            Self::NoPrevious(_) => id!("install.no-previous"),
            Self::NotInstalled(_) => id!("install.not-installed"),
            Self::Interrupted => id!("interrupted"),
            Self::Io(error) if is_full(error) => id!("install.no-space"),
            Self::Io(_) => id!("install.unwritable"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoVariant(_) | Self::Interrupted => return None,
            Self::Fallback(_) => "fix the cause, select the backend with `--backend`, or omit `--strict`",
            Self::Foreign { .. } => {
                "with `--to`, specify a folder that is empty, does not exist, or was created by `gpubuild install`"
            }
            Self::Damaged(path) => {
                return Some(format!(
                    "restore the file from a backup, or remove it and install again: `{path}`"
                ));
            }
            Self::Link { .. } => {
                "with `--to`, specify the target of the link, or replace the link with a copy of its target"
            }
            Self::OtherName { .. } => "each release needs its own folder; specify one with `--to`",
            Self::NoSpace { .. } => "free some space, or specify a folder on another disk with `--to`",
            Self::NoFiles(folder) => {
                return Some(format!(
                    "remove files that are no longer needed; `df -i {folder}` shows the use"
                ));
            }
            Self::Source(error) => return error.hint(),
            Self::Provenance(error) => return error.hint(),
            Self::Rejected { .. } => "nothing was installed; report this to the publisher",
            Self::NoProgram { .. } => "the release is broken; report this to the publisher",
            Self::Start { .. } => "run `gpubuild doctor` to find driver problems",
            Self::NoPrevious(_) => "only one previous version is kept",
            Self::NotInstalled(_) => "specify the folder with `--to`",
            Self::Io(_) => "check the folder's owner and mode, and the free space on the disk",
        };
        Some(hint.to_owned())
    }
}
