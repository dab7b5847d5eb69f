//! The document of `gpubuild doctor` and `gpubuild audit`, from which all output formats are rendered.

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

/// The document of `doctor --json` and `audit --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// `doctor` or `audit`.
    pub schema: Schema,
    /// The machine, if one was examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostReport>,
    /// The findings: errors first, and the root cause first among them.
    pub findings: Vec<Finding>,
    /// The verdicts, as in `detect`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendEntry>,
    /// The executable or library that was examined (`--binary`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<super::binary::BinaryReport>,
    /// The audited files (`gpubuild audit`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<super::audit::AuditedFile>,
    /// Changes since a snapshot (`--diff`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<SnapshotChange>>,
    /// Results of the test programs (`--validate`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Vec<TrialOutcome>>,
    /// The recommended backends, if a machine was examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Recommended>,
    /// Which architectures a build contains and which it omits, for backends with architectures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arch_plan: Vec<DiagnosedArchs>,
    /// Number of findings by severity.
    pub summary: DoctorSummary,
    /// Ids of all findings that were checked for, sorted. Used by formats that also list checks without findings.
    #[serde(skip)]
    pub checked: Vec<String>,
}

/// Number of findings by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorSummary {
    /// Findings of severity `error`.
    pub errors: usize,
    /// Findings of severity `warning`.
    pub warnings: usize,
    /// Findings of severity `info`.
    pub infos: usize,
}

impl DoctorReport {
    /// The document of a machine.
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

    /// Replaces the findings and updates the summary.
    pub fn set_findings(&mut self, findings: Vec<Finding>) {
        self.summary = DoctorSummary::of(&findings);
        self.findings = findings;
    }

    /// The document of findings about a file, a log or a binary instead of a machine.
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
