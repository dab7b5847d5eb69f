//! Failures of commands, with a stable id, a message, a hint and an exit code.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::finding::Finding;
use gpubuild_detect::id;
use serde::Serialize;

use crate::report::Schema;

/// Exit codes of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success: 0.
    Done,
    /// Negative result, such as a failed build or test, or a required backend that does not work: 1.
    Negative,
    /// Invalid usage or configuration, or a refused plan: 2.
    Usage,
    /// An internal error: 70.
    Internal,
    /// Interrupted with Ctrl-C: 130, as in shells.
    Interrupted,
    /// The exit code of the program that the command ran.
    Child(u8),
}

impl Exit {
    /// The exit code of the process.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Internal => 70,
            Self::Interrupted => 130,
            Self::Child(code) => code,
        }
    }
}

/// The error of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable id, `family.subject.problem`.
    pub id: DiagnosticId,
    /// The problem and its location: one or more lines, without a final period.
    pub message: String,
    /// Lines that are printed between the message and the hint; not part of the JSON forms.
    pub notes: Box<[String]>,
    /// How to fix it.
    pub hint: Option<String>,
    /// The exit status of the process.
    pub exit: Exit,
    /// The findings that caused it, for the JSON forms.
    pub findings: Vec<Finding>,
}

impl Failure {
    /// A failure with the exit code for usage and configuration.
    pub fn usage(id: DiagnosticId, message: impl Into<String>) -> Self {
        Self {
            id,
            message: message.into(),
            notes: Box::default(),
            hint: None,
            exit: Exit::Usage,
            findings: Vec::new(),
        }
    }

    /// A failure with the exit code for a negative result.
    pub fn negative(id: DiagnosticId, message: impl Into<String>) -> Self {
        Self { exit: Exit::Negative, ..Self::usage(id, message) }
    }

    /// A failure with the id, message and hint of an error.
    pub fn of(error: &dyn Diagnostic, exit: Exit) -> Self {
        Self {
            id: error.id(),
            message: error.to_string(),
            notes: Box::default(),
            hint: error.hint(),
            exit,
            findings: Vec::new(),
        }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The document that `--json` prints instead of a result.
    #[must_use]
    pub fn document(&self) -> impl Serialize + '_ {
        FailureReport { schema: Schema { name: "error", version: 1 }, error: self.body() }
    }

    /// The line that ends a stream of JSON lines.
    #[must_use]
    pub fn line(&self) -> impl Serialize + '_ {
        FailureLine { reason: "error", exit: self.exit.code(), error: self.body() }
    }

    fn body(&self) -> FailureBody<'_> {
        FailureBody {
            id: self.id,
            message: &self.message,
            hint: self.hint.as_deref(),
            findings: &self.findings,
        }
    }
}

/// The document that a failed command prints instead of its result.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FailureReport<'a> {
    schema: Schema,
    /// The error.
    error: FailureBody<'a>,
}

/// The last line of `build --message-format json` if the build fails.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FailureLine<'a> {
    /// `error`.
    reason: &'static str,
    /// Exit status of the process.
    exit: u8,
    /// The error.
    error: FailureBody<'a>,
}

/// The error of a command.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FailureBody<'a> {
    /// Stable id: `family.subject.problem`.
    id: DiagnosticId,
    /// The problem and its location.
    message: &'a str,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// The findings that caused it.
    findings: &'a [Finding],
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::negative(id!("io.failed"), error.to_string())
    }
}
