//! The documents of `gpubuild ci init`, `ci verify` and `ci run`, and their text.

use gpubuild_release::ci::workflow::CiService;
use serde::Serialize;

use super::Schema;

/// What `ci init` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WorkflowState {
    /// The file was written.
    Written,
    /// The file had this content already.
    UpToDate,
}

/// The document of `ci init --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CiInitReport {
    schema: Schema,
    /// The CI service.
    service: CiService,
    /// Path of the workflow file.
    file: String,
    /// Whether the file was written now.
    state: WorkflowState,
    /// Number of jobs in it.
    jobs: usize,
    /// What the user has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl CiInitReport {
    /// The document of a workflow file.
    #[must_use]
    pub fn new(service: CiService, file: String, state: WorkflowState, jobs: usize) -> Self {
        let note = service.note().filter(|_| state == WorkflowState::Written);
        let schema = Schema { name: "ci-init", version: 1 };
        Self { schema, service, file, state, jobs, note }
    }

    /// One line, and one for the note.
    #[must_use]
    pub fn text(&self) -> String {
        let first = match self.state {
            WorkflowState::Written => format!("wrote {}", self.file),
            WorkflowState::UpToDate => format!("{} is up to date", self.file),
        };
        self.note.map_or_else(|| first.clone(), |note| format!("{first}\n{note}"))
    }
}

/// The document of `ci verify --json`. A file that is out of date is an error.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CiVerifyReport {
    schema: Schema,
    /// The workflow files, all of which are up to date.
    files: Vec<VerifiedWorkflow>,
}

/// A workflow file that is up to date.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerifiedWorkflow {
    /// The CI service.
    service: CiService,
    /// Path of the file.
    file: String,
    /// Number of jobs in it.
    jobs: usize,
}

impl VerifiedWorkflow {
    /// A file that is up to date.
    #[must_use]
    pub fn new(service: CiService, file: String, jobs: usize) -> Self {
        Self { service, file, jobs }
    }
}

impl CiVerifyReport {
    /// The document of these files.
    #[must_use]
    pub fn new(files: Vec<VerifiedWorkflow>) -> Self {
        Self { schema: Schema { name: "ci-verify", version: 1 }, files }
    }

    /// One line per file.
    #[must_use]
    pub fn text(&self) -> String {
        let lines: Vec<String> =
            self.files.iter().map(|file| format!("{} is up to date", file.file)).collect();
        lines.join("\n")
    }
}

/// What `ci run` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Nothing was run (`--dry-run`).
    Planned,
    /// All commands succeeded.
    Succeeded,
}

/// The document of `ci run --json`. A job that fails is an error.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CiRunReport<'a> {
    schema: Schema,
    /// Name of the job.
    job: &'a str,
    /// Whether the commands were run.
    state: JobState,
    /// The commands, in order.
    commands: Vec<&'a str>,
}

impl<'a> CiRunReport<'a> {
    /// The document of a job.
    #[must_use]
    pub fn new(job: &'a str, state: JobState, commands: Vec<&'a str>) -> Self {
        Self { schema: Schema { name: "ci-run", version: 1 }, job, state, commands }
    }
}
