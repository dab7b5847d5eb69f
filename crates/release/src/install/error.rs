//! Why nothing, or something else, is installed.

use std::io;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::HostPath;

use crate::VariantChoice;
use crate::resolve::Nothing;
use crate::source::SourceError;
use crate::unpack::{RefusedArchive, is_full};

/// Why. Unless it says otherwise what was installed before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No variant suits.
    #[error("{}", .0.text)]
    Nothing(Nothing),
    /// A better backend is here and not used, and that was forbidden.
    #[error("`{}` does not use {}: {}", .0.label, backends(.0), reasons(.0))]
    Fallback(Box<VariantChoice>),
    /// The folder holds something else. Nothing in it was changed.
    #[error("`{folder}` was not created by `gpubuild install`: {found}")]
    Foreign {
        /// The folder.
        folder: HostPath,
        /// What it has, or lacks.
        found: String,
    },
    /// A link is where gpubuild creates a file or folder. Nothing on either side of it was changed.
    #[error("`{path}` is a symbolic link to `{target}`, and gpubuild does not install through links")]
    Link {
        /// The link.
        path: HostPath,
        /// Where it leads.
        target: String,
    },
    /// Another release is in the folder.
    #[error("`{folder}` holds `{found}`, not `{wanted}`")]
    OtherName {
        /// The folder.
        folder: HostPath,
        /// What the folder contains.
        found: String,
        /// What is to be installed.
        wanted: String,
    },
    /// The disk is too small.
    #[error("{needed} bytes are needed in `{folder}`, and {free} are free")]
    NoSpace {
        /// Where.
        folder: HostPath,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The manifest or a layer cannot be fetched.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// An archive is refused.
    #[error("the layer {layer} of `{label}` is refused: {refused}")]
    Refused {
        /// The variant.
        label: String,
        /// Its layer.
        layer: String,
        /// Why.
        refused: RefusedArchive,
    },
    /// No layer contains the program that the manifest names.
    #[error("`{label}` has no program `{program}`")]
    NoProgram {
        /// The variant.
        label: String,
        /// What the manifest says.
        program: String,
    },
    /// It does not work here.
    #[error("`{label}` does not work with {backend} here: {what}")]
    Start {
        /// The variant.
        label: String,
        /// The backend.
        backend: String,
        /// What happened.
        what: String,
        /// What it said last.
        said: Vec<String>,
    },
    /// Nothing to go back to.
    #[error("there is nothing before it in `{0}`")]
    NoPrevious(HostPath),
    /// Nothing is there.
    #[error("nothing is installed in `{0}`")]
    NotInstalled(HostPath),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A folder can't be written.
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
            Self::Nothing(nothing) => nothing.id,
            Self::Fallback(_) => id!("install.fallback"),
            Self::Foreign { .. } => id!("install.not-ours"),
            Self::Link { .. } => id!("install.link"),
            Self::OtherName { .. } => id!("install.other-name"),
            Self::NoSpace { .. } => id!("install.no-space"),
            Self::Source(error) => error.id(),
            Self::Refused { refused, .. } => refused.id(),
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
            Self::Nothing(_) | Self::Interrupted => return None,
            Self::Fallback(_) => "repair that, name the backend with `--backend`, or leave out `--strict`",
            Self::Foreign { .. } => {
                "with `--to`, name a folder that is empty, does not exist, or was created by `gpubuild install`"
            }
            Self::Link { .. } => {
                "with `--to`, name the folder that the link leads to, or replace the link with a copy of its target"
            }
            Self::OtherName { .. } => "each release needs its own folder; name one with `--to`",
            Self::NoSpace { .. } => "make room, or name a folder on another disk with `--to`",
            Self::Source(error) => return error.hint(),
            Self::Refused { .. } => "nothing was installed; tell the publisher",
            Self::NoProgram { .. } => "the release is broken; tell who publishes it",
            Self::Start { .. } => "`gpubuild doctor` finds problems with the drivers",
            Self::NoPrevious(_) => "only the version before the present one is kept",
            Self::NotInstalled(_) => "name the folder with `--to`",
            Self::Io(_) => "look at the owner and mode of the folder, and at the room on the disk",
        };
        Some(hint.to_owned())
    }
}
