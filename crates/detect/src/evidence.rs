//! Observations and their sources.

use serde::Serialize;

/// The kind of source of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EvidenceKind {
    /// A file, existing or missing.
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

/// An observation and its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The kind of source.
    pub kind: EvidenceKind,
    /// Path, variable, command line or registry key.
    #[serde(rename = "where")]
    pub place: String,
    /// The raw value, shortened to one line; `absent` if the source does not exist.
    pub value: String,
}

impl Evidence {
    /// Creates an observation. `place` is the path, variable, command line or registry key.
    pub fn new(kind: EvidenceKind, place: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind, place: place.into(), value: value.into() }
    }

    /// Creates an observation of a file's content or state.
    pub fn file(place: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(EvidenceKind::File, place, value)
    }

    /// Creates an observation of an environment variable, with secrets redacted.
    pub fn env(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(EvidenceKind::Env, name, gpubuild_core::secret::redact(&value.into()).text)
    }
}
