//! Why a release or one of its layers cannot be fetched.

use std::io;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::HostPath;

use super::fetch::FetchError;
use super::oci::BadReference;
use super::url::BadUrl;

/// A layer that is verified and can be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenSource {
    /// Its file.
    pub path: HostPath,
    /// Bytes that were fetched for it.
    pub fetched: u64,
}

/// Why a manifest or a layer cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The value of `--manifest` is not a valid URL.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// The value of `--manifest` is not a valid image reference.
    #[error(transparent)]
    Reference(#[from] BadReference),
    /// The manifest.
    #[error("failed to read `{at}`: {error}")]
    Manifest {
        /// Where.
        at: String,
        /// Why.
        error: io::Error,
    },
    /// The URL has no manifest.
    #[error("`{0}` has no manifest")]
    NoManifest(String),
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
    /// The network.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The cache's disk is too small.
    #[error("{needed} bytes are to be fetched into the cache, and {free} are free")]
    NoSpace {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The cache, or a file of the release, can't be read or written.
    #[error("{0}")]
    Io(io::Error),
}

/// The beginning of a hash, for people.
pub(super) fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

impl Diagnostic for SourceError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Url(_) | Self::Reference(_) => id!("net.address-invalid"),
            Self::Manifest { .. } | Self::NoManifest(_) => id!("manifest.unreadable"),
            Self::Missing { .. } => id!("layer.missing"),
            Self::Other { .. } => id!("layer.changed"),
            Self::Fetch(error) => error.id(),
            Self::NoSpace { .. } => id!("install.no-space"),
            Self::Io(error) if super::unpack::is_full(error) => id!("install.no-space"),
            Self::Io(_) => id!("io.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Url(_) => "an address begins with `https://` or `oci://`",
            Self::Reference(_) => "an image is `oci://HOST/NAME:TAG`",
            Self::Manifest { .. } | Self::NoManifest(_) => {
                "`--manifest` takes the folder of a release, its address, or `oci://HOST/NAME:TAG`"
            }
            Self::Missing { .. } => {
                "download the complete release again; `blobs/sha256` belongs beside manifest.json"
            }
            Self::Other { .. } => "fetch it again; if that does not help, tell who publishes it",
            Self::Fetch(error) => return error.hint(),
            Self::NoSpace { .. } => "make room, or name a folder on another disk with GPUBUILD_CACHE",
            Self::Io(_) => "look at the owner and mode of the folder, and at the room on the disk",
        };
        Some(hint.to_owned())
    }
}
