//! Observations, and where they were made.

use serde::Serialize;

/// Where an observation was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EvidenceKind {
    /// A file, or its absence.
    File,
    /// An environment variable.
    Env,
    /// A program's output.
    Exec,
    /// A library, probed in a child process.
    Dlopen,
    /// The Windows registry.
    Registry,
}

/// One observation and where it was made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The kind of source.
    pub kind: EvidenceKind,
    /// Path, variable, command line or registry key.
    #[serde(rename = "where")]
    pub place: String,
    /// The raw value, shortened to one line; "absent" if it was looked for and not found.
    pub value: String,
}

impl Evidence {
    /// An observation of any kind.
    pub fn new(kind: EvidenceKind, place: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind, place: place.into(), value: value.into() }
    }

    /// The content or state of a file.
    pub fn file(place: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(EvidenceKind::File, place, value)
    }

    /// The value of an environment variable; secrets in it are redacted.
    pub fn env(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(EvidenceKind::Env, name, gpubuild_core::secret::redact(&value.into()).text)
    }
}
