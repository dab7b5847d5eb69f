//! `gpubuild pack`: a program that was built, with everything that it needs, as layers of a release.
//!
//! ```text
//! build -> stage::stage      a copy of the program with its libraries, as it will lie on other machines
//!       -> layer::write      its files in archives, the same bytes each time
//!       -> describe          what it needs of a machine
//!       -> release::Work     the folder of the release, replaced in one step
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

use gpubuild_host::links::LinkRefused;
use gpubuild_host::{Host, HostPath};
use serde::Serialize;

use self::closure::ClosureError;
use self::describe::Unclear;
use self::layer::{Part, Piece};
use self::release::Work;
use self::sign::SignError;
use super::manifest::{Layer, Variant};
use super::unpack::names::Unfit;

/// Why nothing was packed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// What is needed can't be found.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// Nobody could be told what it needs.
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
        unfit: Unfit,
    },
    /// A pattern of gpubuild.toml that nothing matches.
    #[error("`{0}` of [pack] in gpubuild.toml matches no file")]
    NoMatch(String),
    /// The folder holds something else.
    #[error("`{folder}` holds `{name}`, which is no part of a release")]
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
        /// What is wrong.
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
    /// A serial that nobody would believe.
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

    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Closure(ClosureError::Missing { .. }) => "pack.library-missing",
            Self::Closure(ClosureError::Two { .. }) => "pack.library-twice",
            Self::Closure(ClosureError::Unreadable { .. }) => "pack.library-unreadable",
            Self::Unclear(unclear) => unclear.id(),
            Self::Sign(SignError::NoKey(_)) => "pack.key-invalid",
            Self::Sign(SignError::Locked(_)) => "pack.key-locked",
            Self::Sign(SignError::Failed(_)) => "pack.sign-failed",
            Self::Cargo { .. } => "pack.cargo",
            Self::Rpath { .. } => "pack.rpath",
            Self::Platform(_) => "pack.platform",
            Self::Name { .. } => "pack.name",
            Self::NoMatch(_) => "pack.no-match",
            Self::Foreign { .. } => "pack.out-foreign",
            Self::Link(_) => LinkRefused::ID,
            Self::Damaged { .. } => "pack.release-damaged",
            Self::Mixed { .. } => "pack.mixed",
            Self::Serial { .. } => "pack.serial",
            Self::Default { .. } => "pack.default",
            Self::Io { .. } | Self::Words(_) => "pack.io",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Closure(ClosureError::Missing { .. }) => {
                "`gpubuild doctor --binary` tells where it is looked for; name it in `leave` of [pack] if the machines of users have it"
            }
            Self::Closure(_) => "`gpubuild doctor --binary` shows what the loader does",
            Self::Unclear(unclear) => unclear.hint(),
            Self::Sign(SignError::Locked(_)) => "set GPUBUILD_SIGN_PASSWORD",
            Self::Sign(_) => "`minisign -G` makes a pair of keys; `--sign` takes the file of the secret one",
            Self::Cargo { .. } => "`cargo metadata` in that folder says more",
            Self::Rpath { .. } => "link it with `-Wl,-rpath,$ORIGIN/../lib`, or its libraries statically",
            Self::Platform(_) => "link them statically, or name them in `leave` of [pack]",
            Self::Name { .. } => "rename it, or leave it out of [pack]",
            Self::NoMatch(_) => "correct or remove the entry",
            Self::Foreign { .. } => "name a folder of its own with `--out`; it is replaced as a whole",
            Self::Link(_) => "remove the link, or name another folder with `--out`",
            Self::Damaged { .. } => "pack into a new folder",
            Self::Mixed { .. } => "name another folder with `--out`",
            Self::Serial { .. } => "leave `--serial` out, or name a higher one",
            Self::Default { .. } => "name a variant with the backend `cpu`",
            Self::Io { .. } | Self::Words(_) => "nothing was changed; try again",
        }
    }
}

/// A layer that was packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackedLayer {
    /// What it holds.
    pub part: Part,
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
pub struct Known(BTreeMap<String, (Layer, HostPath)>);

impl Known {
    /// Those of a release in a folder.
    #[must_use]
    pub fn of(work: &Work<'_>, folder: &HostPath) -> Self {
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
    host: &dyn Host,
    work: &Work<'_>,
    pieces: &[Piece],
    known: &mut Known,
) -> Result<(Vec<PackedLayer>, Vec<String>), PackError> {
    let mut parts: BTreeMap<&Part, Vec<&Piece>> = BTreeMap::new();
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
pub fn with_layers(variant: Variant, layers: &[PackedLayer]) -> Variant {
    Variant { layers: layers.iter().map(|layer| layer.layer.clone()).collect(), ..variant }
}
