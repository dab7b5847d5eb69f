//! Decides whether a manifest is trusted: by its signature, its expiry date, and the serials that were trusted before.
//!
//! Signatures are made by minisign: `manifest.json.minisig` beside `manifest.json`. A manifest is parsed only after its signature was
//! verified. The last trusted serial of each release is recorded, so that an older manifest is rejected later.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::store::sha256;
use gpubuild_host::folders::cache_folder;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, WriteFiles};
use minisign_verify::{Error, PublicKey, Signature};
use serde::{Deserialize, Serialize};

use super::manifest::{self, ManifestProblem, ReleaseManifest};

/// The extension of a signature file.
pub const SUFFIX: &str = ".minisig";
/// The largest signature that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 10;
/// The folder in gpubuild's cache with the last trusted serials.
const FOLDER: &str = "releases";

/// A public key that is trusted to sign manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustKey(PublicKey);

impl TrustKey {
    /// Parses a key: the line that begins with `RW`, or both lines of minisign's public key file.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        PublicKey::from_base64(line).ok().map(Self)
    }
}

/// The last trusted manifest of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedSerial {
    /// The serial of the manifest.
    pub serial: u64,
    /// The sha256 of the manifest.
    pub sha256: String,
}

/// The inputs of a trust decision.
#[derive(Debug, Clone, Copy)]
pub struct TrustRequest<'a> {
    /// The unparsed manifest.
    pub bytes: &'a [u8],
    /// The signature file, if there is one.
    pub signature: Option<&'a [u8]>,
    /// The trusted keys. One of them must have signed the manifest.
    pub keys: &'a [TrustKey],
    /// The expected name of the release, if one is known.
    pub name: Option<&'a str>,
    /// The current time in seconds since 1970.
    pub now: u64,
}

/// Why a manifest is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// It has no signature.
    #[error("it has no signature ({SUFFIX})")]
    Unsigned,
    /// The signature is malformed.
    #[error("its signature cannot be read: {0}")]
    Unreadable(String),
    /// It was signed with an untrusted key.
    #[error("it was signed with a key that is not trusted")]
    OtherKey,
    /// It differs from the signed content.
    #[error("it does not match its signature")]
    Changed,
    /// The content is invalid.
    #[error(transparent)]
    Invalid(#[from] ManifestProblem),
    /// It is the manifest of another release.
    #[error("it is the manifest of `{found}`, not of `{wanted}`")]
    OtherName {
        /// The name in the manifest.
        found: String,
        /// The expected name.
        wanted: String,
    },
    /// It has expired.
    #[error("it expired {days} days ago")]
    Expired {
        /// Full days since then.
        days: u64,
    },
    /// A newer manifest was trusted before.
    #[error("its serial is {found}, which is older than the serial {known} that was trusted before")]
    Older {
        /// The serial of the manifest.
        found: u64,
        /// The last trusted serial.
        known: u64,
    },
    /// A different manifest with the same serial was trusted before.
    #[error("a different manifest with the same serial {serial} was trusted before")]
    Replaced {
        /// The serial of both manifests.
        serial: u64,
    },
}

impl Diagnostic for TrustError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Unsigned => id!("manifest.unsigned"),
            Self::Unreadable(_) => id!("manifest.signature-invalid"),
            Self::OtherKey => id!("manifest.other-key"),
            Self::Changed => id!("manifest.changed"),
            Self::Invalid(_) => ManifestProblem::ID,
            Self::OtherName { .. } => id!("manifest.other-name"),
            Self::Expired { .. } => id!("manifest.expired"),
            Self::Older { .. } => id!("manifest.older"),
            Self::Replaced { .. } => id!("manifest.replaced"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unsigned | Self::Unreadable(_) => "download the manifest together with its signature",
            Self::OtherKey => {
                "ask the publisher for the current key, over a channel other than this download"
            }
            Self::Changed | Self::Invalid(_) => {
                "download it again; if the error remains, report it to the publisher"
            }
            Self::OtherName { .. } => "check the URL",
            Self::Expired { .. } => {
                "download a newer one; if none is available, the server withholds it or the publisher has stopped updating it"
            }
            Self::Older { .. } | Self::Replaced { .. } => {
                "download it again; if the error remains, the server may be sending you a different manifest than others"
            }
        };
        Some(hint.to_owned())
    }
}

/// Verifies a manifest and parses it. `last_trusted` returns the last trusted manifest of a release. Pure.
///
/// # Errors
/// The first reason not to trust the manifest. It is parsed only after its signature was verified.
pub fn verify(
    request: &TrustRequest<'_>,
    last_trusted: impl FnOnce(&str) -> Option<TrustedSerial>,
) -> Result<ReleaseManifest, TrustError> {
    verify_signature(request)?;
    let manifest = manifest::read(request.bytes)?;
    if let Some(wanted) = request.name.filter(|wanted| *wanted != manifest.name) {
        return Err(TrustError::OtherName { found: manifest.name, wanted: wanted.to_owned() });
    }
    if manifest.expires <= request.now {
        return Err(TrustError::Expired { days: (request.now - manifest.expires) / (24 * 60 * 60) });
    }
    if let Some(known) = last_trusted(&manifest.name) {
        if manifest.serial < known.serial {
            return Err(TrustError::Older { found: manifest.serial, known: known.serial });
        }
        if manifest.serial == known.serial && sha256(request.bytes) != known.sha256 {
            return Err(TrustError::Replaced { serial: known.serial });
        }
    }
    Ok(manifest)
}

fn verify_signature(request: &TrustRequest<'_>) -> Result<(), TrustError> {
    let signature = request.signature.ok_or(TrustError::Unsigned)?;
    if request.bytes.len() > manifest::MAX_BYTES {
        return Err(TrustError::Changed);
    }
    if signature.len() > MAX_BYTES {
        return Err(TrustError::Unreadable(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let unreadable = |error: &dyn std::fmt::Display| TrustError::Unreadable(error.to_string());
    let text = std::str::from_utf8(signature).map_err(|error| unreadable(&error))?;
    let signature = Signature::decode(text).map_err(|error| unreadable(&error))?;
    let mut outcome = TrustError::OtherKey;
    for key in request.keys {
        match key.0.verify(request.bytes, &signature, false) {
            Ok(()) => return Ok(()),
            Err(Error::UnexpectedKeyId) => {}
            Err(Error::InvalidSignature) => outcome = TrustError::Changed,
            Err(error) => outcome = unreadable(&error),
        }
    }
    Err(outcome)
}

fn path(host: &dyn HostInfo, name: &str) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER).join(&format!("{name}.json")))
}

/// The last trusted manifest of a release. An unreadable record counts as missing, which only disables the check against older
/// manifests.
#[must_use]
pub fn last_trusted(host: &dyn ReadFiles, name: &str) -> Option<TrustedSerial> {
    serde_json::from_slice(&host.read(&path(host, name)?).ok()?).ok()
}

/// Records a trusted manifest atomically.
///
/// # Errors
/// The record cannot be written.
pub fn record(host: &dyn WriteFiles, bytes: &[u8], manifest: &ReleaseManifest) -> std::io::Result<()> {
    let Some(path) = path(host, &manifest.name) else { return Ok(()) };
    let known = TrustedSerial { serial: manifest.serial, sha256: sha256(bytes) };
    let text = serde_json::to_vec(&known).map_err(std::io::Error::other)?;
    host.write(&path, &text)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
