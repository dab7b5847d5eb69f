//! Findings: diagnosed problems with stable ids, severities, evidence and remedies. They are plain data that checks create and
//! reports print.

pub mod catalogue;
mod draft;

use gpubuild_core::backend::Backend;
use serde::{Deserialize, Serialize};

pub use catalogue::{FindingEntry, FindingKind, FindingVariant, Findings};
pub use draft::FindingDraft;

use crate::diagnostic::{Diagnostic, DiagnosticId};
pub use crate::evidence::{Evidence, EvidenceKind};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Severity {
    /// Blocks a backend that was requested or whose hardware is present.
    Error,
    /// Works now but is likely to cause problems, or is ambiguous.
    Warning,
    /// Any other finding.
    Info,
}

/// A capability that a finding blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Affects {
    /// The hardware is not present or not usable.
    Hardware,
    /// This machine cannot build for the backend.
    Build,
    /// This machine cannot run the backend.
    Run,
}

/// The fix for a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// The fix, in one sentence.
    pub text: String,
    /// Commands for this machine, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// What the commands require: `sudo`, `host`, `windows`, `relogin`, `reboot`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// A command that verifies the fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Whether the commands change nothing but variables of the user's shell and gpubuild's cache. `doctor --fix` runs only such
    /// commands.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub safe: bool,
}

/// A finding that follows from another one and is listed under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Consequence {
    /// The finding's id.
    pub id: DiagnosticId,
    /// The affected backend, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// The summary, in one line.
    pub summary: String,
}

/// A diagnosed problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The stable id, `family.subject.problem`.
    pub id: DiagnosticId,
    /// The severity.
    pub severity: Severity,
    /// The affected backend, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// The capabilities that it blocks.
    pub affects: Vec<Affects>,
    /// The problem, in one line.
    pub summary: String,
    /// The observations that the finding is based on.
    pub evidence: Vec<Evidence>,
    /// The fix.
    pub remedy: Remedy,
    /// Links to documentation and discussions.
    pub links: Vec<String>,
    /// Findings that this one causes; they are not listed separately.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.summary)
    }
}

impl Diagnostic for Finding {
    fn id(&self) -> DiagnosticId {
        self.id
    }

    fn hint(&self) -> Option<String> {
        Some(self.remedy.text.clone()).filter(|text| !text.is_empty())
    }

    fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }
}
