//! Why nothing, or something else, is installed.

use std::borrow::Cow;
use std::io;

use gpubuild_host::HostPath;

use crate::Choice;
use crate::resolve::Nothing;
use crate::source::SourceError;
use crate::unpack::{Refused, is_full};

/// Why. Unless it says otherwise what was installed before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No variant suits.
    #[error("{}", .0.text)]
    Nothing(Nothing),
    /// A better backend is here and not used, and that was forbidden.
    #[error("`{}` does not use {}: {}", .0.label, backends(.0), reasons(.0))]
    Fallback(Box<Choice>),
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
        /// What is there.
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
    /// Something can't be had.
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
        refused: Refused,
    },
    /// There is no program where the manifest says.
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
    /// Somebody pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A folder can't be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn backends(choice: &Choice) -> String {
    choice.fallback.iter().map(|one| one.backend.id()).collect::<Vec<_>>().join(", ")
}

fn reasons(choice: &Choice) -> String {
    choice.fallback.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>().join("; ")
}

impl InstallError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> String {
        let id = match self {
            Self::Nothing(nothing) => return nothing.id.clone(),
            Self::Fallback(_) => "install.fallback",
            Self::Foreign { .. } => "install.not-ours",
            Self::Link { .. } => "install.link",
            Self::OtherName { .. } => "install.other-name",
            Self::NoSpace { .. } => "install.no-space",
            Self::Source(error) => error.id(),
            Self::Refused { refused, .. } => refused.id(),
            Self::NoProgram { .. } => "install.no-program",
            Self::Start { .. } => "install.start-failed",
            Self::NoPrevious(_) => "install.no-previous",
            Self::NotInstalled(_) => "install.not-installed",
            Self::Interrupted => "interrupted",
            Self::Io(error) if is_full(error) => "install.no-space",
            Self::Io(_) => "install.unwritable",
        };
        id.to_owned()
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::Nothing(_) | Self::Interrupted => return None,
            Self::Fallback(_) => "repair that, name the backend with `--backend`, or leave out `--strict`",
            Self::Foreign { .. } => {
                "with `--to`, name a folder that is empty, does not exist, or was created by `gpubuild install`"
            }
            Self::Link { .. } => {
                "with `--to`, name the folder that the link leads to, or replace the link with a copy of its target"
            }
            Self::OtherName { .. } => "each release needs a folder of its own; name one with `--to`",
            Self::NoSpace { .. } => "make room, or name a folder on another disk with `--to`",
            Self::Source(error) => return Some(error.hint()),
            Self::Refused { .. } => "nothing of it was installed; tell who publishes it",
            Self::NoProgram { .. } => "the release is broken; tell who publishes it",
            Self::Start { .. } => "`gpubuild doctor` says what is wrong with the drivers here",
            Self::NoPrevious(_) => "only the version before the present one is kept",
            Self::NotInstalled(_) => "name the folder with `--to`",
            Self::Io(_) => "look at the owner and mode of the folder, and at the room on the disk",
        };
        Some(hint.into())
    }
}
