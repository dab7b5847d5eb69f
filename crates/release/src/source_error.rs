//! Why a release or a layer of it cannot be had.

use std::borrow::Cow;
use std::io;

use gpubuild_host::HostPath;

use super::fetch::FetchError;
use super::oci::BadReference;
use super::url::BadUrl;

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
    /// What `--manifest` says is no address.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// What `--manifest` says is no image.
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
    /// There is no manifest at the address.
    #[error("there is no manifest at `{0}`")]
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

impl SourceError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Reference(_) => "net.address-invalid",
            Self::Manifest { .. } | Self::NoManifest(_) => "manifest.unreadable",
            Self::Missing { .. } => "layer.missing",
            Self::Other { .. } => "layer.changed",
            Self::Fetch(error) => error.id(),
            Self::NoSpace { .. } => "install.no-space",
            Self::Io(error) if super::unpack::is_full(error) => "install.no-space",
            Self::Io(_) => "io.failed",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Cow<'static, str> {
        let hint = match self {
            Self::Url(_) => "an address begins with `https://` or `oci://`",
            Self::Reference(_) => "an image is `oci://HOST/NAME:TAG`",
            Self::Manifest { .. } | Self::NoManifest(_) => {
                "`--manifest` takes the folder of a release, its address, or `oci://HOST/NAME:TAG`"
            }
            Self::Missing { .. } => "fetch the whole release again; `blobs/sha256` lies beside manifest.json",
            Self::Other { .. } => "fetch it again; if that does not help, tell who publishes it",
            Self::Fetch(error) => return error.hint(),
            Self::NoSpace { .. } => "make room, or name a folder on another disk with GPUBUILD_CACHE",
            Self::Io(_) => "look at the owner and mode of the folder, and at the room on the disk",
        };
        hint.into()
    }
}
