//! Whether a manifest is to be believed: who signed it, until when it holds, and whether a newer one was seen before.
//!
//! Signatures are minisign's: `manifest.json.minisig` beside `manifest.json`. Nothing of a manifest is read before its signature
//! holds. What was believed last is remembered for each name, so that an older manifest is not taken after it.

use gpubuild_exec::store::sha256;
use gpubuild_host::folders::cache_folder;
use gpubuild_host::{Host, HostPath};
use minisign_verify::{Error, PublicKey, Signature};
use serde::{Deserialize, Serialize};

use super::manifest::{self, Manifest, ManifestProblem};

/// What stands behind the name of a file that is signed.
pub const SUFFIX: &str = ".minisig";
/// The largest signature that is read.
pub const MOST_BYTES: usize = 4 << 10;
/// The folder in gpubuild's cache with what was believed last.
const FOLDER: &str = "releases";

/// A key that may sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(PublicKey);

impl Key {
    /// Reads a key: the line that begins with `RW`, or the two lines of minisign's file.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        PublicKey::from_base64(line).ok().map(Self)
    }
}

/// What was believed last of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// The serial of the manifest.
    pub serial: u64,
    /// Its hash.
    pub sha256: String,
}

/// What a manifest is held against.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The manifest as it was fetched.
    pub bytes: &'a [u8],
    /// The text of its signature.
    pub signature: Option<&'a [u8]>,
    /// Keys of which one has to have signed it.
    pub keys: &'a [Key],
    /// The name that it has to have, where one is expected.
    pub name: Option<&'a str>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Why a manifest is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// Nobody signed it.
    #[error("it has no signature ({SUFFIX})")]
    Unsigned,
    /// The signature is none.
    #[error("its signature can't be read: {0}")]
    Unreadable(String),
    /// Somebody else signed it.
    #[error("another key has signed it than {0}")]
    OtherKey(&'static str),
    /// It is not what was signed.
    #[error("it is not what was signed")]
    Changed,
    /// It does not hold together.
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
    /// Its time is over.
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

impl Distrust {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Unsigned => "manifest.unsigned",
            Self::Unreadable(_) => "manifest.signature-invalid",
            Self::OtherKey(_) => "manifest.other-key",
            Self::Changed => "manifest.changed",
            Self::Invalid(_) => ManifestProblem::ID,
            Self::OtherName { .. } => "manifest.other-name",
            Self::Expired { .. } => "manifest.expired",
            Self::Older { .. } => "manifest.older",
            Self::Replaced { .. } => "manifest.replaced",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unsigned | Self::Unreadable(_) => "fetch the manifest together with its signature",
            Self::OtherKey(_) => "ask who publishes it for the present key, by another way than this one",
            Self::Changed | Self::Invalid(_) => {
                "fetch it again; if that does not help, tell who publishes it"
            }
            Self::OtherName { .. } => "check the address",
            Self::Expired { .. } => {
                "fetch a newer one; if there is none, whoever serves it holds it back or nobody publishes any more"
            }
            Self::Older { .. } | Self::Replaced { .. } => {
                "fetch it again; if it stays so, whoever serves it gives you something else than others"
            }
        }
    }
}

/// Believes a manifest, or says why not. Pure.
///
/// # Errors
/// The first thing that speaks against it; nothing in it is read before its signature holds.
pub fn believe(
    question: &Question<'_>,
    remembered: impl FnOnce(&str) -> Option<Remembered>,
) -> Result<Manifest, Distrust> {
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

fn verify(question: &Question<'_>) -> Result<(), Distrust> {
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

fn place(host: &dyn Host, name: &str) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER).join(&format!("{name}.json")))
}

/// What was believed last of a name; a file that can't be read counts as none, for it can only make us believe more.
#[must_use]
pub fn remembered(host: &dyn Host, name: &str) -> Option<Remembered> {
    serde_json::from_slice(&host.read(&place(host, name)?).ok()?).ok()
}

/// Remembers what was believed, by one rename.
///
/// # Errors
/// The file can't be written.
pub fn remember(host: &dyn Host, bytes: &[u8], manifest: &Manifest) -> std::io::Result<()> {
    let Some(place) = place(host, &manifest.name) else { return Ok(()) };
    let known = Remembered { serial: manifest.serial, sha256: sha256(bytes) };
    let text = serde_json::to_vec(&known).map_err(std::io::Error::other)?;
    host.write(&place, &text)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
