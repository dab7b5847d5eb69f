//! Where a release is: a folder, or an address. What is fetched from there is believed by nobody yet.

use std::io;

use super::layers::{self, Found};
use super::manifest::{self, Layer};
use super::trust;
use crate::host::{Host, HostPath};

/// Name of the manifest in a folder.
pub const FILE: &str = "manifest.json";
/// The folder of the layers in a release.
const BLOBS: &str = "blobs/sha256";

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder, or its manifest.
    Folder {
        /// The manifest.
        manifest: HostPath,
        /// The folder that the layers are in.
        folder: HostPath,
    },
}

/// A manifest as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Those of its signature.
    pub signature: Option<Vec<u8>>,
}

/// A layer that is verified and can be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Its file.
    pub path: HostPath,
    /// Bytes that were fetched for it.
    pub fetched: u64,
}

/// Why something can't be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The manifest.
    #[error("failed to read `{at}`: {error}")]
    Manifest {
        /// Where.
        at: String,
        /// Why.
        error: io::Error,
    },
    /// A layer is not there.
    #[error("the layer {} is neither in the release nor in the cache", short(.sha256))]
    Missing {
        /// Its hash.
        sha256: String,
    },
    /// A layer is something else.
    #[error("the layer {} is not what the manifest says: {what}", short(.sha256))]
    Other {
        /// Its hash.
        sha256: String,
        /// What differs.
        what: String,
    },
    /// The cache, or a file of the release, can't be read or written.
    #[error("{0}")]
    Io(io::Error),
}

/// The beginning of a hash, for people.
pub(super) fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

impl SourceError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Manifest { .. } => "manifest.unreadable",
            Self::Missing { .. } => "layer.missing",
            Self::Other { .. } => "layer.changed",
            Self::Io(error) if super::unpack::is_full(error) => "install.no-space",
            Self::Io(_) => "io.failed",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Manifest { .. } => "`--manifest` takes the folder of a release, or its manifest.json",
            Self::Missing { .. } => "fetch the whole release again; `blobs/sha256` lies beside manifest.json",
            Self::Other { .. } => "fetch it again; if that does not help, tell who publishes it",
            Self::Io(_) => "look at the owner and mode of the folder, and at the room on the disk",
        }
    }
}

impl Source {
    /// The release at a path.
    #[must_use]
    pub fn at(host: &dyn Host, path: HostPath) -> Self {
        if host.is_dir(&path) {
            return Self::Folder { manifest: path.join(FILE), folder: path };
        }
        let folder = path.parent().unwrap_or_else(|| path.clone());
        Self::Folder { manifest: path, folder }
    }

    /// As it is shown.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Folder { manifest, .. } => manifest.to_string(),
        }
    }

    /// The manifest with its signature.
    ///
    /// # Errors
    /// The manifest can't be had. A signature that can't is none.
    pub fn manifest(&self, host: &dyn Host) -> Result<Fetched, SourceError> {
        match self {
            Self::Folder { manifest, .. } => {
                let bytes = host
                    .read_start(manifest, manifest::MOST_BYTES + 1)
                    .map_err(|error| SourceError::Manifest { at: self.name(), error })?;
                let beside = host.path(&format!("{manifest}{}", trust::SUFFIX));
                Ok(Fetched { bytes, signature: host.read_start(&beside, trust::MOST_BYTES + 1).ok() })
            }
        }
    }

    /// A layer, verified.
    ///
    /// # Errors
    /// It can't be had, or is something else than the manifest says.
    pub fn layer(&self, host: &dyn Host, layer: &Layer) -> Result<Taken, SourceError> {
        match self {
            Self::Folder { folder, .. } => {
                let path = folder.join(BLOBS).join(&layer.sha256);
                match layers::verify(host, &path, layer).map_err(SourceError::Io)? {
                    Found::Whole => return Ok(Taken { path, fetched: 0 }),
                    Found::Other(what) => {
                        return Err(SourceError::Other { sha256: layer.sha256.clone(), what });
                    }
                    Found::Nothing => {}
                }
                let cached = layers::cached(host, layer).map_err(SourceError::Io)?;
                let missing = || SourceError::Missing { sha256: layer.sha256.clone() };
                cached.map(|path| Taken { path, fetched: 0 }).ok_or_else(missing)
            }
        }
    }
}
