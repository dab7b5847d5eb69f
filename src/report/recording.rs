//! The documents of `gpubuild host record` and `gpubuild report`, which write a recording of the machine.

use gpubuild_host::recorder::Redactions;
use serde::Serialize;

use super::Schema;
use super::doctor::DoctorSummary;

/// The document of `host record --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordingReport {
    schema: Schema,
    /// Path of the recording.
    file: String,
    /// Number of recorded files and folders.
    entries: usize,
    /// Where secrets were redacted, and why: `CFLAGS (by name)`.
    redacted: Vec<String>,
}

impl RecordingReport {
    /// The document of a recording.
    #[must_use]
    pub fn new(file: String, entries: usize, redactions: &Redactions) -> Self {
        let schema = Schema { name: "host-record", version: 1 };
        Self { schema, file, entries, redacted: redactions.lines() }
    }

    /// One line.
    #[must_use]
    pub fn text(&self) -> String {
        format!("recorded {} entries in `{}`", self.entries, self.file)
    }
}

/// The format of a report file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReportFormat {
    /// Markdown with the recording, which replays with `--host`.
    Markdown,
    /// One HTML page (`--html`).
    Html,
}

/// The document of `report FILE --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WrittenReport {
    schema: Schema,
    /// Path of the report.
    file: String,
    /// Its format.
    format: ReportFormat,
    /// Its size in bytes.
    bytes: usize,
    /// Number of findings in it by severity.
    summary: DoctorSummary,
    /// Where secrets were redacted, and why: `CFLAGS (by name)`.
    redacted: Vec<String>,
}

impl WrittenReport {
    /// The document of a report that was written to a file.
    #[must_use]
    pub fn new(
        file: String,
        format: ReportFormat,
        content: &str,
        summary: DoctorSummary,
        redactions: &Redactions,
    ) -> Self {
        let (schema, redacted) = (Schema { name: "report", version: 1 }, redactions.lines());
        Self { schema, file, format, bytes: content.len(), summary, redacted }
    }

    /// One line.
    #[must_use]
    pub fn text(&self) -> String {
        format!("wrote `{}`", self.file)
    }
}
