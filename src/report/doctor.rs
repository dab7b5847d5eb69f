//! `gpubuild doctor`: findings, verdicts and their sum as one document, from which every rendering is made.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::matrix::Matrix;
use gpubuild_doctor::arch_plan::DiagnosedArchs;
use gpubuild_doctor::snapshot::SnapshotChange;
use gpubuild_doctor::validate::TrialOutcome;
use serde::Serialize;

use super::Schema;
use super::detect::{BackendEntry, HostReport, Recommended, backend_entries};

/// The document of `doctor --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// Name and version.
    pub schema: Schema,
    /// The machine, where one was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostReport>,
    /// The root cause first; each with its consequences.
    pub findings: Vec<Finding>,
    /// As in `detect`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendEntry>,
    /// The executable or library that was looked into (`--binary`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<super::binary::BinaryReport>,
    /// The files that were audited (`gpubuild audit`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<super::audit::AuditedFile>,
    /// What changed since a snapshot, where one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<SnapshotChange>>,
    /// Results of the test programs, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Vec<TrialOutcome>>,
    /// What is best used, where a machine was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Recommended>,
    /// Which architectures a build contains and which not, for backends that are built for some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arch_plan: Vec<DiagnosedArchs>,
    /// Numbers.
    pub summary: DoctorSummary,
    /// The ids that were looked for, sorted; for renderings that list what is in order as well.
    #[serde(skip)]
    pub checked: Vec<String>,
}

/// How many findings there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorSummary {
    /// Of severity error.
    pub errors: usize,
    /// Of severity warning.
    pub warnings: usize,
    /// Of severity info.
    pub infos: usize,
}

impl DoctorReport {
    /// A document on a machine.
    #[must_use]
    pub fn of_machine(facts: &Facts, matrix: &Matrix, backends: &[Backend], findings: Vec<Finding>) -> Self {
        let shown = matrix.verdicts.iter().filter(|verdict| backends.contains(&verdict.backend));
        Self {
            host: Some(HostReport::new(facts)),
            backends: backend_entries(shown),
            recommended: Some(Recommended::new(matrix)),
            ..Self::of_findings(findings)
        }
    }

    /// Replaces the findings, and counts them.
    pub fn set_findings(&mut self, findings: Vec<Finding>) {
        self.summary = DoctorSummary::of(&findings);
        self.findings = findings;
    }

    /// A document on something else than a machine: a file, a log, a binary.
    #[must_use]
    pub fn of_findings(findings: Vec<Finding>) -> Self {
        let summary = DoctorSummary::of(&findings);
        Self {
            schema: Schema { name: "doctor", version: 1 },
            host: None,
            findings,
            backends: Vec::new(),
            binary: None,
            files: Vec::new(),
            changes: None,
            validation: None,
            recommended: None,
            arch_plan: Vec::new(),
            summary,
            checked: Vec::new(),
        }
    }
}

impl DoctorSummary {
    fn of(findings: &[Finding]) -> Self {
        let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            infos: count(Severity::Info),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_the_document_changes_only_on_purpose() {
        insta::assert_json_snapshot!(schemars::schema_for!(DoctorReport));
    }
}
