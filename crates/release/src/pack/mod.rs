//! `gpubuild pack`: divides a built program and its dependencies into the layers of a release.
//!
//! ```text
//! build -> stage::stage      a copy of the program with its libraries, laid out as it will be installed
//!       -> layer::write      reproducible archives of its files
//!       -> describe          the requirements on the machine
//!       -> release           the release folder, replaced atomically
//! ```

pub mod closure;
pub mod describe;
mod existing;
mod image;
pub mod layer;
mod libraries;
pub mod licences;
pub mod origin;
pub mod package;
pub mod release;
pub mod rpath;
pub mod sbom;
pub mod sign;
pub mod stage;
mod zig;

use std::collections::BTreeMap;

use gpubuild_detect::diagnostic::{self, Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::store::sha256;
use gpubuild_host::links::LinkRefused;
use gpubuild_host::{Host, HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::project::FILE_NAME;
use serde::Serialize;

use self::closure::ClosureError;
use self::describe::UnknownRequirement;
use self::layer::{LayerKind, LayerPiece};
use self::release::ReleaseWork;
use self::sign::SignError;
use self::stage::{StageRequest, Staged};
use super::manifest::{Layer, ReleaseVariant};
use super::provenance::{self, BuildInputs, BuildOrigin};
use super::unpack::names::InvalidName;

/// Why nothing was packed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The dependencies cannot be determined.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// The requirements cannot be determined.
    #[error(transparent)]
    Requirement(#[from] UnknownRequirement),
    /// The manifest cannot be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// `cargo metadata` failed.
    #[error("`cargo metadata` failed for `{package}`: {what}")]
    Cargo {
        /// The folder of the package.
        package: String,
        /// The error of cargo.
        what: String,
    },
    /// The library search path of a file cannot be changed.
    #[error("failed to set the library search path of `{path}`: {what}")]
    Rpath {
        /// The program or library.
        path: String,
        /// The cause.
        what: String,
    },
    /// Third-party libraries cannot be packed on this platform.
    #[error("the program needs {0}, but packing third-party libraries is not supported on this platform")]
    Platform(String),
    /// A path is invalid on some platform, or two files have the same path.
    #[error("`{from}` cannot be packed as `{path}`: {unfit}")]
    Name {
        /// The path in the variant.
        path: String,
        /// The source file.
        from: String,
        /// Why the path is rejected.
        unfit: InvalidName,
    },
    /// A link of the project leads out of its checkout.
    #[error("`{path}` is a link to `{target}`, outside of the project")]
    LinkOutside {
        /// The file that would be packed.
        path: String,
        /// What it leads to.
        target: String,
    },
    /// A pattern in gpubuild.toml matches no file.
    #[error("`{0}` in [pack] of gpubuild.toml matches no file")]
    NoMatch(String),
    /// The folder contains something other than a release.
    #[error("`{folder}` contains {name}, which is not part of a release")]
    Foreign {
        /// The folder.
        folder: String,
        /// The first foreign entry.
        name: String,
    },
    /// The release folder or a folder in it is a link.
    #[error(transparent)]
    Link(#[from] LinkRefused),
    /// A file of an existing release is invalid.
    #[error("`{path}`: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// The problem.
        what: String,
    },
    /// Two releases are in one folder.
    #[error("`{one}` and `{other}` cannot be in the same release")]
    Mixed {
        /// Name and version of the first release.
        one: String,
        /// Name and version of the second release.
        other: String,
    },
    /// A serial that clients would reject.
    #[error("serial {wanted} is not higher than {known}, which was already published")]
    Serial {
        /// The requested serial.
        wanted: u64,
        /// The last published serial.
        known: u64,
    },
    /// The default variant needs a GPU.
    #[error("`{label}` does not run without a GPU, so it cannot be the default")]
    Default {
        /// The label of the variant.
        label: String,
    },
    /// A file or folder cannot be read or written.
    #[error("failed to {doing} `{path}`: {message}")]
    Io {
        /// The operation, as a verb: `read`, `write`.
        doing: &'static str,
        /// The path.
        path: String,
        /// The system's message.
        message: String,
        /// The kind of the error.
        kind: std::io::ErrorKind,
    },
    /// Another error.
    #[error("{0}")]
    Other(String),
}

/// Refuses a file of a project that is behind a link out of its checkout: it would be published. The checkout is that of git, or the
/// project's folder.
///
/// # Errors
/// [`PackError::LinkOutside`].
pub(crate) fn check_link(host: &dyn ReadFiles, root: &HostPath, path: &HostPath) -> Result<(), PackError> {
    let real = |path: &HostPath| host.canonical(path).unwrap_or_else(|_| path.normalized());
    let root = real(root);
    let is_checkout = |folder: &HostPath| host.exists(&folder.join(".git"));
    let checkout = std::iter::successors(Some(root.clone()), HostPath::parent).find(is_checkout);
    let target = real(path);
    if target.is_inside(&checkout.unwrap_or(root)) {
        return Ok(());
    }
    Err(PackError::LinkOutside { path: path.to_string(), target: target.to_string() })
}

impl PackError {
    pub(super) fn io(doing: &'static str, path: &HostPath, error: &std::io::Error) -> Self {
        Self::Io { doing, path: path.to_string(), message: error.to_string(), kind: error.kind() }
    }
}

impl Diagnostic for PackError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Closure(ClosureError::Missing { .. }) => id!("pack.library-missing"),
            Self::Closure(ClosureError::Two { .. }) => id!("pack.library-twice"),
            Self::Closure(ClosureError::Unreadable { .. }) => id!("pack.library-unreadable"),
            Self::Requirement(error) => error.id(),
            Self::Sign(SignError::NoKey(_)) => id!("pack.key-invalid"),
            Self::Sign(SignError::Locked(_)) => id!("pack.key-locked"),
            Self::Sign(SignError::Failed(_)) => id!("pack.sign-failed"),
            Self::Cargo { .. } => id!("pack.cargo"),
            Self::Rpath { .. } => id!("pack.rpath"),
            Self::Platform(_) => id!("pack.platform"),
            Self::Name { .. } => id!("pack.name"),
            Self::LinkOutside { .. } => id!("pack.link-outside"),
            Self::NoMatch(_) => id!("pack.no-match"),
            Self::Foreign { .. } => id!("pack.out-foreign"),
            Self::Link(error) => error.id(),
            Self::Damaged { .. } => id!("pack.release-damaged"),
            Self::Mixed { .. } => id!("pack.mixed"),
            Self::Serial { .. } => id!("pack.serial"),
            Self::Default { .. } => id!("pack.default"),
            Self::Io { .. } | Self::Other(_) => id!("pack.io"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Closure(ClosureError::Missing { .. }) => {
                "run `gpubuild doctor --binary` to see the search path; if users' machines provide it, add it to `leave` in [pack]"
            }
            Self::Closure(_) => "run `gpubuild doctor --binary` to see what the loader finds",
            Self::Requirement(error) => return error.hint(),
            Self::Sign(SignError::Locked(_)) => "set GPUBUILD_SIGN_PASSWORD",
            Self::Sign(_) => {
                "create a key pair with `minisign -G`, and pass the secret key's file to `--sign`"
            }
            Self::Cargo { .. } => "run `cargo metadata` in that folder for details",
            Self::Rpath { .. } => "link it with `-Wl,-rpath,$ORIGIN/../lib`, or its libraries statically",
            Self::Platform(_) => "link them statically, or add them to `leave` in [pack]",
            Self::Name { .. } => "rename it, or remove it from [pack]",
            Self::LinkOutside { .. } => "replace the link by a copy of the file, or leave it out",
            Self::NoMatch(_) => "correct or remove the entry",
            Self::Foreign { .. } => {
                "specify another folder with `--out`; packing replaces the folder's contents"
            }
            Self::Link(_) => "remove the link, or specify another folder with `--out`",
            Self::Damaged { .. } => "pack into a new folder",
            Self::Mixed { .. } => "specify another folder with `--out`",
            Self::Serial { .. } => "omit `--serial`, or specify a higher one",
            Self::Default { .. } => "specify a variant with the backend `cpu`",
            Self::Io { kind, .. } => diagnostic::file_hint(*kind),
            Self::Other(_) => "nothing was changed; try again",
        };
        Some(hint.to_owned())
    }
}

/// A packed layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PackedLayer {
    /// What the layer contains.
    pub part: LayerKind,
    /// The number of files.
    pub files: usize,
    /// The layer's entry in the manifest.
    #[serde(flatten)]
    pub layer: Layer,
    /// Whether it already existed in another variant or in the previous release.
    pub shared: bool,
}

/// The existing layers of this and the previous run, by the hash of their contents.
#[derive(Debug, Default)]
pub struct KnownLayers(BTreeMap<String, (Layer, HostPath)>);

impl KnownLayers {
    /// The layers of the existing release in a folder.
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

/// Writes the layers of a staged variant, reusing existing ones. Returns the layers and the hashes of their contents.
///
/// # Errors
/// A file cannot be read or written.
pub fn layers(
    host: &dyn WriteFiles,
    work: &ReleaseWork<'_>,
    pieces: &[LayerPiece],
    known: &mut KnownLayers,
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
            Some((layer, folder)) if work.add_blob(&folder, &layer.sha256, layer.size).is_ok() => {
                (layer, true)
            }
            _ => {
                let layer = layer::write(host, &hashed, &blobs)
                    .map_err(|error| PackError::io("write a layer into", &blobs, &error))?;
                known.0.insert(contents.clone(), (layer.clone(), work.temporary().clone()));
                (layer, false)
            }
        };
        packed.push(PackedLayer { part: part.clone(), files: hashed.len(), layer, shared });
        all_contents.push(contents);
    }
    Ok((packed, all_contents))
}

/// The variant with these layers.
#[must_use]
pub fn with_layers(variant: ReleaseVariant, layers: &[PackedLayer]) -> ReleaseVariant {
    ReleaseVariant { layers: layers.iter().map(|layer| layer.layer.clone()).collect(), ..variant }
}

/// The statement of how a staged variant was built. `version` and `platform` are those of the release.
#[must_use]
pub fn statement(
    host: &dyn Host,
    request: &StageRequest<'_>,
    staged: &Staged,
    (version, platform): (&str, &str),
    variant: &ReleaseVariant,
) -> String {
    let (file, trees) = match request.manifest {
        Some(manifest) => (FILE_NAME, manifest.trees.as_slice()),
        None => ("Cargo.toml", [].as_slice()),
    };
    let inputs = BuildInputs {
        name: request.name,
        version,
        platform,
        origin: &BuildOrigin::of(host, request.root, file),
        locked: request.locked,
        project_file: host.read(&request.root.join(file)).ok().map(|bytes| (file, sha256(&bytes))),
        trees,
        built: &staged.built,
    };
    provenance::statement(&inputs, variant)
}
