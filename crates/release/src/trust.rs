//! Decides whether a manifest is trusted: by its signature, its expiry date, and the serials that were trusted before.
//!
//! Signatures are made by minisign: `manifest.json.minisig` beside `manifest.json`. A manifest is parsed only after its signature was
//! verified. An older manifest than one that was trusted before ([`ReleaseHistory`]) is rejected.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::store::sha256;
use minisign_verify::{Error, PublicKey, Signature};

use super::history::{RecordError, ReleaseHistory};
use super::manifest::{self, ManifestProblem, ReleaseManifest};

/// The extension of a signature file.
pub const SUFFIX: &str = ".minisig";
/// The largest signature that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 10;

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

/// Whether a manifest may be older than one that was trusted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OlderPolicy {
    /// It is an error.
    Deny,
    /// It is accepted, and so is a damaged record of the last trusted serial.
    Allow,
}

/// A trusted manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedManifest {
    /// The manifest.
    pub manifest: ReleaseManifest,
    /// The newest serial that is known: of the manifest, or of an earlier one.
    pub newest: u64,
    /// The error that [`OlderPolicy::Allow`] has turned into a warning.
    pub allowed: Option<TrustError>,
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
    /// Whether the manifest may be older than one that was trusted before.
    pub older: OlderPolicy,
}

/// The id, message and hint of an installation whose newest serial is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InstallationError {
    /// The id of the error.
    pub id: DiagnosticId,
    /// The message.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
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
    /// A newer manifest was trusted or installed before.
    #[error("its serial is {found}, which is older than the serial {known} that was trusted before")]
    Older {
        /// The serial of the manifest.
        found: u64,
        /// The newest serial that was trusted or installed.
        known: u64,
    },
    /// The record of the last trusted serial is damaged.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The state of the installation is damaged.
    #[error(transparent)]
    Installed(#[from] InstallationError),
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
            Self::Record(error) => error.id(),
            Self::Installed(error) => error.id,
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
            Self::Older { .. } => {
                "download it again; if the error remains, the server may be sending you a different manifest than others; to use an \
                 older release on purpose, add `--allow-older`"
            }
            Self::Record(error) => return error.hint(),
            Self::Installed(error) => return error.hint.clone(),
            Self::Replaced { .. } => {
                "download it again; if the error remains, the server may be sending you a different manifest than others"
            }
        };
        Some(hint.to_owned())
    }
}

/// Verifies a manifest and parses it. `history` returns what is known of earlier manifests of a release. Pure.
///
/// # Errors
/// The first reason not to trust the manifest. It is parsed only after its signature was verified.
pub fn verify(
    request: &TrustRequest<'_>,
    history: impl FnOnce(&str) -> Result<ReleaseHistory, TrustError>,
) -> Result<TrustedManifest, TrustError> {
    if request.signature.is_some() && request.bytes.len() > manifest::MAX_BYTES {
        return Err(TrustError::Changed);
    }
    verify_signature(request.bytes, request.signature, request.keys)?;
    let manifest = manifest::read(request.bytes)?;
    if let Some(wanted) = request.name.filter(|wanted| *wanted != manifest.name) {
        return Err(TrustError::OtherName { found: manifest.name, wanted: wanted.to_owned() });
    }
    if manifest.expires <= request.now {
        return Err(TrustError::Expired { days: (request.now - manifest.expires) / (24 * 60 * 60) });
    }
    let history = history(&manifest.name);
    if let Ok(ReleaseHistory { recorded: Some(known), .. }) = &history
        && manifest.serial == known.serial
        && !known.sha256.is_empty()
        && sha256(request.bytes) != known.sha256
    {
        return Err(TrustError::Replaced { serial: known.serial });
    }
    check_age(manifest, history, request.older)
}

/// Checks that a manifest is not older than one that was trusted or installed before. Pure.
///
/// # Errors
/// It is older, or `history` is unknown, and `older` does not allow that.
pub fn check_age(
    manifest: ReleaseManifest,
    history: Result<ReleaseHistory, TrustError>,
    older: OlderPolicy,
) -> Result<TrustedManifest, TrustError> {
    let found = manifest.serial;
    let (problem, newest) = match history.map(|history| history.newest()) {
        Ok(Some(known)) if found < known => (TrustError::Older { found, known }, known),
        Ok(_) => return Ok(TrustedManifest { manifest, newest: found, allowed: None }),
        Err(problem) => (problem, found),
    };
    match older {
        OlderPolicy::Deny => Err(problem),
        OlderPolicy::Allow => Ok(TrustedManifest { manifest, newest, allowed: Some(problem) }),
    }
}

/// Checks that one of the keys has signed bytes. Pure.
///
/// # Errors
/// There is no signature, or it is of another key or of other bytes.
pub fn verify_signature(bytes: &[u8], signature: Option<&[u8]>, keys: &[TrustKey]) -> Result<(), TrustError> {
    let signature = signature.ok_or(TrustError::Unsigned)?;
    if signature.len() > MAX_BYTES {
        return Err(TrustError::Unreadable(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let unreadable = |error: &dyn std::fmt::Display| TrustError::Unreadable(error.to_string());
    let text = std::str::from_utf8(signature).map_err(|error| unreadable(&error))?;
    let signature = Signature::decode(text).map_err(|error| unreadable(&error))?;
    let mut outcome = TrustError::OtherKey;
    for key in keys {
        match key.0.verify(bytes, &signature, false) {
            Ok(()) => return Ok(()),
            Err(Error::UnexpectedKeyId) => {}
            Err(Error::InvalidSignature) => outcome = TrustError::Changed,
            Err(error) => outcome = unreadable(&error),
        }
    }
    Err(outcome)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
