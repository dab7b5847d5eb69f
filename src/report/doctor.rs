//! The document of `gpubuild doctor` and `gpubuild audit`, from which all output formats are rendered.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::matrix::Matrix;
use gpubuild_doctor::arch_plan::DiagnosedArchs;
use gpubuild_doctor::snapshot::SnapshotChange;
use gpubuild_doctor::validate::TrialOutcome;
use gpubuild_exec::log::LogReading;
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
    /// What the log shows besides the findings (`--log`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
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

/// What a log shows besides the findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogReport {
    /// Number of lines.
    pub lines: usize,
    /// The machine on which it was written: the commands of the findings are for it. Absent if the log does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<LogPlatformReport>,
    /// The most probable first error, if no known failure explains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guess: Option<LogGuessReport>,
}

/// The machine on which a log was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogPlatformReport {
    /// The operating system: `linux`, `windows` or `macos`.
    pub os: String,
    /// The distribution, as `ID` of os-release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distro: Option<String>,
    /// The first line that shows the operating system, from 1.
    pub line: usize,
    /// The text in that line.
    pub text: String,
}

/// A guess at the first error of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogGuessReport {
    /// Its line, from 1.
    pub line: usize,
    /// The message.
    pub text: String,
    /// Adjacent lines, the line itself included.
    pub context: Vec<LogLineReport>,
    /// Words of the message for a search in issue trackers.
    pub search: String,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogLineReport {
    /// Its number, from 1.
    pub line: usize,
    /// Its text without escape sequences, shortened.
    pub text: String,
}

impl LogReport {
    /// The report of a log.
    #[must_use]
    pub fn new(reading: &LogReading) -> Self {
        let platform = &reading.platform;
        let platform = platform.os.zip(platform.evidence.clone()).map(|(os, (line, text))| {
            LogPlatformReport { os: os.id().to_owned(), distro: platform.distro.clone(), line, text }
        });
        let guess = reading.guess.as_ref().map(|guess| LogGuessReport {
            line: guess.line,
            text: guess.text.clone(),
            context: guess
                .context
                .iter()
                .map(|(line, text)| LogLineReport { line: *line, text: text.clone() })
                .collect(),
            search: guess.search.clone(),
        });
        Self { lines: reading.lines, platform, guess }
    }
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
            log: None,
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
