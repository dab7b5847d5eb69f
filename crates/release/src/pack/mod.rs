//! `gpubuild pack`: divides a built program and its dependencies into the layers of a release.
//!
//! ```text
//! build -> stage::stage      a copy of the program with its libraries, laid out as it will be installed
//!       -> layer::write      reproducible archives of its files
//!       -> describe          the requirements on the machine
//!       -> release::Work     the release folder, replaced atomically
//! ```

pub mod closure;
pub mod describe;
pub mod layer;
pub mod licences;
pub mod release;
pub mod rpath;
pub mod sign;
pub mod stage;

use std::collections::BTreeMap;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::links::LinkRefused;
use gpubuild_host::{HostPath, WriteFiles};
use serde::Serialize;

use self::closure::ClosureError;
use self::describe::Unclear;
use self::layer::{LayerKind, LayerPiece};
use self::release::ReleaseWork;
use self::sign::SignError;
use super::manifest::{Layer, ReleaseVariant};
use super::unpack::names::UnfitName;

/// Why nothing was packed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// What is needed can't be found.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// Its requirements cannot be determined.
    #[error(transparent)]
    Unclear(#[from] Unclear),
    /// It can't be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// Cargo does not say what is in the program.
    #[error("cargo tells nothing about `{package}`: {what}")]
    Cargo {
        /// Its folder.
        package: String,
        /// What it said.
        what: String,
    },
    /// Folders for libraries can't be written into a file.
    #[error("failed to write where `{path}` looks for its libraries: {what}")]
    Rpath {
        /// The file.
        path: String,
        /// Why.
        what: String,
    },
    /// Libraries of others can't be taken along on this platform.
    #[error(
        "the program needs {0} of others, and nothing here knows how to take such libraries along on this platform"
    )]
    Platform(String),
    /// A name that not every platform takes, or that two files have.
    #[error("`{from}` can't be packed as `{path}`: {unfit}")]
    Name {
        /// The path in the variant.
        path: String,
        /// The file.
        from: String,
        /// Why.
        unfit: UnfitName,
    },
    /// A pattern of gpubuild.toml that nothing matches.
    #[error("`{0}` of [pack] in gpubuild.toml matches no file")]
    NoMatch(String),
    /// The folder holds something else.
    #[error("`{folder}` contains `{name}`, which is not part of a release")]
    Foreign {
        /// The folder.
        folder: String,
        /// What is in it.
        name: String,
    },
    /// A link in place of the folder or of one in it.
    #[error(transparent)]
    Link(#[from] LinkRefused),
    /// Something in a release is not as it should be.
    #[error("`{path}`: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// The defect.
        what: String,
    },
    /// Two releases in one folder.
    #[error("`{one}` and `{other}` can't be in one release")]
    Mixed {
        /// The first.
        one: String,
        /// The second.
        other: String,
    },
    /// A serial that clients would reject.
    #[error("the serial {wanted} does not follow {known}, which was published before")]
    Serial {
        /// What was asked for.
        wanted: u64,
        /// The last one.
        known: u64,
    },
    /// The default needs a GPU.
    #[error("`{label}` does not run without a GPU, so it can't be the default")]
    Default {
        /// The variant.
        label: String,
    },
    /// The disk.
    #[error("failed to {doing} `{path}`: {message}")]
    Io {
        /// Doing what.
        doing: &'static str,
        /// Where.
        path: String,
        /// What it said.
        message: String,
    },
    /// Anything else.
    #[error("{0}")]
    Words(String),
}

impl PackError {
    pub(super) fn io(doing: &'static str, path: &HostPath, error: &std::io::Error) -> Self {
        Self::Io { doing, path: path.to_string(), message: error.to_string() }
    }
}

impl Diagnostic for PackError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Closure(ClosureError::Missing { .. }) => id!("pack.library-missing"),
            Self::Closure(ClosureError::Two { .. }) => id!("pack.library-twice"),
            Self::Closure(ClosureError::Unreadable { .. }) => id!("pack.library-unreadable"),
            Self::Unclear(unclear) => unclear.id(),
            Self::Sign(SignError::NoKey(_)) => id!("pack.key-invalid"),
            Self::Sign(SignError::Locked(_)) => id!("pack.key-locked"),
            Self::Sign(SignError::Failed(_)) => id!("pack.sign-failed"),
            Self::Cargo { .. } => id!("pack.cargo"),
            Self::Rpath { .. } => id!("pack.rpath"),
            Self::Platform(_) => id!("pack.platform"),
            Self::Name { .. } => id!("pack.name"),
            Self::NoMatch(_) => id!("pack.no-match"),
            Self::Foreign { .. } => id!("pack.out-foreign"),
            Self::Link(error) => error.id(),
            Self::Damaged { .. } => id!("pack.release-damaged"),
            Self::Mixed { .. } => id!("pack.mixed"),
            Self::Serial { .. } => id!("pack.serial"),
            Self::Default { .. } => id!("pack.default"),
            Self::Io { .. } | Self::Words(_) => id!("pack.io"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Closure(ClosureError::Missing { .. }) => {
                "`gpubuild doctor --binary` tells where it is looked for; name it in `leave` of [pack] if the machines of users have it"
            }
            Self::Closure(_) => "`gpubuild doctor --binary` shows what the loader does",
            Self::Unclear(unclear) => return unclear.hint(),
            Self::Sign(SignError::Locked(_)) => "set GPUBUILD_SIGN_PASSWORD",
            Self::Sign(_) => "`minisign -G` makes a pair of keys; `--sign` takes the file of the secret one",
            Self::Cargo { .. } => "`cargo metadata` in that folder says more",
            Self::Rpath { .. } => "link it with `-Wl,-rpath,$ORIGIN/../lib`, or its libraries statically",
            Self::Platform(_) => "link them statically, or name them in `leave` of [pack]",
            Self::Name { .. } => "rename it, or leave it out of [pack]",
            Self::NoMatch(_) => "correct or remove the entry",
            Self::Foreign { .. } => "name another folder with `--out`; packing replaces its contents",
            Self::Link(_) => "remove the link, or name another folder with `--out`",
            Self::Damaged { .. } => "pack into a new folder",
            Self::Mixed { .. } => "name another folder with `--out`",
            Self::Serial { .. } => "leave `--serial` out, or name a higher one",
            Self::Default { .. } => "name a variant with the backend `cpu`",
            Self::Io { .. } | Self::Words(_) => "nothing was changed; try again",
        };
        Some(hint.to_owned())
    }
}

/// A layer that was packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackedLayer {
    /// What it holds.
    pub part: LayerKind,
    /// Files in it.
    pub files: usize,
    /// As the manifest has it.
    #[serde(flatten)]
    pub layer: Layer,
    /// Whether another variant had it already.
    pub shared: bool,
}

/// Layers that were written or taken in this run and the one before, by what they hold.
#[derive(Debug, Default)]
pub struct KnownRelease(BTreeMap<String, (Layer, HostPath)>);

impl KnownRelease {
    /// Those of a release in a folder.
    #[must_use]
    pub fn of(work: &ReleaseWork<'_>, folder: &HostPath) -> Self {
        let mut known = BTreeMap::new();
        for entry in &work.before().entries {
            for (contents, layer) in entry.contents.iter().zip(&entry.variant.layers) {
                known.insert(contents.clone(), (layer.clone(), folder.clone()));
            }
        }
        Self(known)
    }
}

/// Writes the layers of a staged variant.
///
/// # Errors
/// What the disk says.
pub fn layers(
    host: &dyn WriteFiles,
    work: &ReleaseWork<'_>,
    pieces: &[LayerPiece],
    known: &mut KnownRelease,
) -> Result<(Vec<PackedLayer>, Vec<String>), PackError> {
    let mut parts: BTreeMap<&LayerKind, Vec<&LayerPiece>> = BTreeMap::new();
    for piece in pieces {
        parts.entry(&piece.part).or_default().push(piece);
    }
    let (mut packed, mut all_contents) = (Vec::new(), Vec::new());
    for (part, pieces) in parts {
        let blobs = work.blobs();
        let hashed = layer::hash(host, &pieces)
            .map_err(|error| PackError::io("read the files for", &blobs, &error))?;
        let contents = layer::contents(&hashed);
        let before = known.0.get(&contents).cloned();
        let (layer, shared) = match before {
            Some((layer, folder)) if work.take(&folder, &layer.sha256, layer.size).is_ok() => (layer, true),
            _ => {
                let layer = layer::write(host, &hashed, &blobs)
                    .map_err(|error| PackError::io("write a layer into", &blobs, &error))?;
                known.0.insert(contents.clone(), (layer.clone(), work.place().clone()));
                (layer, false)
            }
        };
        packed.push(PackedLayer { part: part.clone(), files: hashed.len(), layer, shared });
        all_contents.push(contents);
    }
    Ok((packed, all_contents))
}

/// A variant as it goes into a release, but for its layers.
#[must_use]
pub fn with_layers(variant: ReleaseVariant, layers: &[PackedLayer]) -> ReleaseVariant {
    ReleaseVariant { layers: layers.iter().map(|layer| layer.layer.clone()).collect(), ..variant }
}
