//! Whether a manifest is trusted: its signer, its expiry date, and whether a newer one was seen before.
//!
//! Signatures are minisign's: `manifest.json.minisig` beside `manifest.json`. A manifest is parsed only after its signature was verified.
//! The last trusted serial of each name is recorded, so that an older manifest is rejected later.

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
/// The largest signature that is read.
pub const MOST_BYTES: usize = 4 << 10;
/// The folder in gpubuild's cache with the last trusted serials.
const FOLDER: &str = "releases";

/// A key that may sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustKey(PublicKey);

impl TrustKey {
    /// Reads a key: the line that begins with `RW`, or the two lines of minisign's file.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        PublicKey::from_base64(line).ok().map(Self)
    }
}

/// The last trusted manifest of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// The serial of the manifest.
    pub serial: u64,
    /// Its hash.
    pub sha256: String,
}

/// The inputs of a trust decision.
#[derive(Debug, Clone, Copy)]
pub struct TrustQuestion<'a> {
    /// The manifest as it was fetched.
    pub bytes: &'a [u8],
    /// The text of its signature.
    pub signature: Option<&'a [u8]>,
    /// Keys of which one has to have signed it.
    pub keys: &'a [TrustKey],
    /// The name that it has to have, where one is expected.
    pub name: Option<&'a str>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Why a manifest is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It has no signature.
    #[error("it has no signature ({SUFFIX})")]
    Unsigned,
    /// The signature is malformed.
    #[error("its signature can't be read: {0}")]
    Unreadable(String),
    /// Another key signed it.
    #[error("another key has signed it than {0}")]
    OtherKey(&'static str),
    /// It is not what was signed.
    #[error("it is not what was signed")]
    Changed,
    /// The content is invalid.
    #[error(transparent)]
    Invalid(#[from] ManifestProblem),
    /// It is for something else.
    #[error("it is of `{found}`, not of `{wanted}`")]
    OtherName {
        /// In the manifest.
        found: String,
        /// What was expected.
        wanted: String,
    },
    /// It has expired.
    #[error("it has expired {days} days ago")]
    Expired {
        /// Whole days.
        days: u64,
    },
    /// A newer one was seen.
    #[error("its serial is {found}, and {known} was seen before: this one is older")]
    Older {
        /// In the manifest.
        found: u64,
        /// What was seen.
        known: u64,
    },
    /// Another one with the same serial was seen.
    #[error("its serial is {serial}, and another manifest with that serial was seen before")]
    Replaced {
        /// Of both.
        serial: u64,
    },
}

impl Diagnostic for Distrust {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Unsigned => id!("manifest.unsigned"),
            Self::Unreadable(_) => id!("manifest.signature-invalid"),
            Self::OtherKey(_) => id!("manifest.other-key"),
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
            Self::Unsigned | Self::Unreadable(_) => "fetch the manifest together with its signature",
            Self::OtherKey(_) => "ask who publishes it for the present key, by another way than this one",
            Self::Changed | Self::Invalid(_) => {
                "fetch it again; if that does not help, tell who publishes it"
            }
            Self::OtherName { .. } => "check the address",
            Self::Expired { .. } => {
                "fetch a newer one; if none is available, the server withholds it or the publisher has stopped"
            }
            Self::Older { .. } | Self::Replaced { .. } => {
                "fetch it again; if the error remains, the server may be sending you a different manifest than others"
            }
        };
        Some(hint.to_owned())
    }
}

/// Verifies a manifest. Pure.
///
/// # Errors
/// The first reason not to trust it. The content is parsed only after its signature was verified.
pub fn believe(
    question: &TrustQuestion<'_>,
    remembered: impl FnOnce(&str) -> Option<Remembered>,
) -> Result<ReleaseManifest, Distrust> {
    verify(question)?;
    let manifest = manifest::read(question.bytes)?;
    if let Some(wanted) = question.name.filter(|wanted| *wanted != manifest.name) {
        return Err(Distrust::OtherName { found: manifest.name, wanted: wanted.to_owned() });
    }
    if manifest.expires <= question.now {
        return Err(Distrust::Expired { days: (question.now - manifest.expires) / (24 * 60 * 60) });
    }
    if let Some(known) = remembered(&manifest.name) {
        if manifest.serial < known.serial {
            return Err(Distrust::Older { found: manifest.serial, known: known.serial });
        }
        if manifest.serial == known.serial && sha256(question.bytes) != known.sha256 {
            return Err(Distrust::Replaced { serial: known.serial });
        }
    }
    Ok(manifest)
}

fn verify(question: &TrustQuestion<'_>) -> Result<(), Distrust> {
    let signature = question.signature.ok_or(Distrust::Unsigned)?;
    if question.bytes.len() > manifest::MOST_BYTES {
        return Err(Distrust::Changed);
    }
    if signature.len() > MOST_BYTES {
        return Err(Distrust::Unreadable(format!("more than {MOST_BYTES} bytes")));
    }
    let unreadable = |error: &dyn std::fmt::Display| Distrust::Unreadable(error.to_string());
    let text = std::str::from_utf8(signature).map_err(|error| unreadable(&error))?;
    let signature = Signature::decode(text).map_err(|error| unreadable(&error))?;
    let mut outcome = Distrust::OtherKey("those that are trusted");
    for key in question.keys {
        match key.0.verify(question.bytes, &signature, false) {
            Ok(()) => return Ok(()),
            Err(Error::UnexpectedKeyId) => {}
            Err(Error::InvalidSignature) => outcome = Distrust::Changed,
            Err(error) => outcome = unreadable(&error),
        }
    }
    Err(outcome)
}

fn place(host: &dyn HostInfo, name: &str) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER).join(&format!("{name}.json")))
}

/// The last trusted manifest of a name. An unreadable file counts as absent: that only weakens the check against older manifests.
#[must_use]
pub fn remembered(host: &dyn ReadFiles, name: &str) -> Option<Remembered> {
    serde_json::from_slice(&host.read(&place(host, name)?).ok()?).ok()
}

/// Records a trusted manifest with one rename.
///
/// # Errors
/// The file cannot be written.
pub fn remember(host: &dyn WriteFiles, bytes: &[u8], manifest: &ReleaseManifest) -> std::io::Result<()> {
    let Some(place) = place(host, &manifest.name) else { return Ok(()) };
    let known = Remembered { serial: manifest.serial, sha256: sha256(bytes) };
    let text = serde_json::to_vec(&known).map_err(std::io::Error::other)?;
    host.write(&place, &text)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
