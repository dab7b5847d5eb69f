//! Diagnosed problems with stable ids, severities, evidence and remedies. Plain values: checks create them, renderers print
//! them.

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
    /// Blocks a backend that was requested, or whose hardware is present.
    Error,
    /// Works now and will cause trouble, or a choice is ambiguous.
    Warning,
    /// Any other finding.
    Info,
}

/// Which of the three questions a finding answers with "no".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Affects {
    /// Is the hardware present?
    Hardware,
    /// Can this machine build for it?
    Build,
    /// Can this machine run it?
    Run,
}

/// The fix for a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Remedy {
    /// One sentence.
    pub text: String,
    /// Commands for this machine, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// `sudo`, `relogin`, `reboot`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// A command that verifies the fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Whether every command changes only the user's folders, so that `doctor --fix` may run it.
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
    /// The finding in one line.
    pub summary: String,
}

/// A diagnosed problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The stable id, `family.subject.problem`.
    pub id: DiagnosticId,
    /// How severe it is.
    pub severity: Severity,
    /// The affected backend, if it is a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// The questions that it answers with "no".
    pub affects: Vec<Affects>,
    /// The cause in one line.
    pub summary: String,
    /// The observations behind it.
    pub evidence: Vec<Evidence>,
    /// The fix.
    pub remedy: Remedy,
    /// Links to documentation and discussions.
    pub links: Vec<String>,
    /// Findings that follow from this one and are therefore not listed separately.
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
