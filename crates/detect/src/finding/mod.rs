//! Diagnosed problems: stable ids, severities, evidence and remedies. Plain values; checks make them, renderers print
//! them.

pub mod catalogue;
mod draft;

use gpubuild_core::backend::Backend;
use serde::{Deserialize, Serialize};

pub use catalogue::{Entry, Findings, Kind, Variant};
pub use draft::Draft;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Severity {
    /// Blocks a backend that was asked for, or whose hardware is present.
    Error,
    /// Works now and will bite, or a choice is ambiguous.
    Warning,
    /// Everything else.
    Info,
}

/// Which of the three questions a finding answers with "no".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Affects {
    /// Is the hardware there?
    Hardware,
    /// Can it be built for here?
    Build,
    /// Can it run here?
    Run,
}

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
    /// A library asked in a child process.
    Dlopen,
    /// The Windows registry.
    Registry,
}

/// One observation: what was seen where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Kind of place.
    pub kind: EvidenceKind,
    /// Path, variable, command line or key.
    #[serde(rename = "where")]
    pub place: String,
    /// The raw value, shortened to a line; "absent" where it was looked for and not there.
    pub value: String,
}

impl Evidence {
    /// An observation.
    pub fn new(kind: EvidenceKind, place: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind, place: place.into(), value: value.into() }
    }

    /// An observation in a file.
    pub fn file(place: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(EvidenceKind::File, place, value)
    }

    /// An observation in the environment; secrets in the value are redacted.
    pub fn env(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(EvidenceKind::Env, name, gpubuild_core::secret::redact(&value.into()).text)
    }
}

/// What to do about a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// One sentence.
    pub text: String,
    /// Commands for exactly this machine, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// `sudo`, `relogin`, `reboot`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// A command that shows that it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Whether every command stays inside the user's own folders, so that `doctor --fix` may run it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub safe: bool,
}

/// A finding that follows from another one and is told under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Consequence {
    /// Its id.
    pub id: String,
    /// The backend concerned, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// One line.
    pub summary: String,
}

/// A diagnosed problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable id, `family.subject.problem`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// The backend concerned, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Which questions it answers with "no".
    pub affects: Vec<Affects>,
    /// One line: the cause.
    pub summary: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// The fix.
    pub remedy: Remedy,
    /// Documentation and threads.
    pub links: Vec<String>,
    /// What follows from it, so that it is told once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
}
