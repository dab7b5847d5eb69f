//! Errors of reading or downloading a release.

use std::io;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::HostPath;

use super::fetch::FetchError;
use super::oci::BadReference;
use super::url::BadUrl;

/// A layer that was verified and can be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedLayer {
    /// The path of its archive.
    pub path: HostPath,
    /// Bytes that were downloaded; 0 if the layer was in a local folder or in the cache.
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
    /// The manifest cannot be read.
    #[error("failed to read `{at}`: {error}")]
    Manifest {
        /// The path.
        at: String,
        /// The system's error.
        error: io::Error,
    },
    /// The URL has no manifest.
    #[error("`{0}` has no manifest")]
    NoManifest(String),
    /// A layer is missing.
    #[error("layer {} is neither in the release nor in the cache", short(.sha256))]
    Missing {
        /// The hash of the layer.
        sha256: String,
    },
    /// A layer differs from the manifest.
    #[error("layer {} does not match the manifest: {what}", short(.sha256))]
    Differs {
        /// The hash of the layer.
        sha256: String,
        /// What differs.
        what: String,
    },
    /// A download failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The cache's disk has too little free space.
    #[error("the download needs {needed} bytes in the cache, but only {free} are free")]
    NoSpace {
        /// The size of the layer in bytes.
        needed: u64,
        /// Free space in bytes.
        free: u64,
    },
    /// The cache, or a file of the release, cannot be read or written.
    #[error("{0}")]
    Io(io::Error),
}

/// The first 12 digits of a hash, for messages.
pub(super) fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

impl Diagnostic for SourceError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Url(_) | Self::Reference(_) => id!("net.address-invalid"),
            Self::Manifest { .. } | Self::NoManifest(_) => id!("manifest.unreadable"),
            Self::Missing { .. } => id!("layer.missing"),
            Self::Differs { .. } => id!("layer.changed"),
            Self::Fetch(error) => error.id(),
            Self::NoSpace { .. } => id!("install.no-space"),
            Self::Io(error) if super::unpack::is_full(error) => id!("install.no-space"),
            Self::Io(_) => id!("io.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Url(_) => "a URL starts with `https://` or `oci://`",
            Self::Reference(_) => "an image reference has the form `oci://HOST/NAME:TAG`",
            Self::Manifest { .. } | Self::NoManifest(_) => {
                "`--manifest` takes the folder of a release, its URL, or `oci://HOST/NAME:TAG`"
            }
            Self::Missing { .. } => {
                "download the complete release again; `blobs/sha256` must be beside manifest.json"
            }
            Self::Differs { .. } => "download it again; if the error remains, report it to the publisher",
            Self::Fetch(error) => return error.hint(),
            Self::NoSpace { .. } => "free some space, or set GPUBUILD_CACHE to a folder on another disk",
            Self::Io(_) => "check the folder's owner and mode, and the free space on the disk",
        };
        Some(hint.to_owned())
    }
}
