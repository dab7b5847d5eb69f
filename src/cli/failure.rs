//! Why a command ends without its answer: what, where, what to do, a stable id and an exit code.

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::finding::Finding;
use gpubuild_detect::id;
use serde::Serialize;

use crate::report::Schema;

/// Exit codes of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done: 0.
    Done,
    /// Negative result: a build or a test failed, or a required backend does not work: 1.
    Negative,
    /// Usage, configuration, or a plan that is refused: 2.
    Usage,
    /// An internal error: 70.
    Bug,
    /// Ctrl-C, as shells write it: 130.
    Interrupted,
    /// What the program that was started ended with.
    Child(u8),
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Bug => 70,
            Self::Interrupted => 130,
            Self::Child(code) => code,
        }
    }
}

/// A command that ended without its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable id, `family.subject.problem`.
    pub id: DiagnosticId,
    /// What and where: one or a few lines, no full stop at the end of one.
    pub message: String,
    /// Lines between the message and the hint, for people.
    pub notes: Box<[String]>,
    /// What to do.
    pub hint: Option<String>,
    /// How the process ends.
    pub exit: Exit,
    /// Findings that explain it, for the JSON form.
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

    /// A failure with the exit code for a negative outcome.
    pub fn negative(id: DiagnosticId, message: impl Into<String>) -> Self {
        Self { exit: Exit::Negative, ..Self::usage(id, message) }
    }

    /// The failure that an error causes.
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

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The document that `--json` prints instead of an answer.
    #[must_use]
    pub fn document(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct FailureReport<'a> {
            schema: Schema,
            error: FailureBody<'a>,
        }
        FailureReport { schema: Schema { name: "error", version: 1 }, error: self.body() }
    }

    /// The line that ends a stream of JSON lines.
    #[must_use]
    pub fn line(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct FailureLine<'a> {
            reason: &'static str,
            exit: u8,
            error: FailureBody<'a>,
        }
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

/// The part that both JSON forms share.
#[derive(Serialize)]
struct FailureBody<'a> {
    id: DiagnosticId,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    findings: &'a [Finding],
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::negative(id!("io.failed"), error.to_string())
    }
}
