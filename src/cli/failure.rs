//! Failures of commands, with a stable id, a message, a hint and an exit code.

use std::borrow::Cow;
use std::io::{self, ErrorKind};

use gpubuild_core::backend::edit_distance;
use gpubuild_core::clean;
use gpubuild_detect::diagnostic::{self, Diagnostic, DiagnosticId};
use gpubuild_detect::finding::{Finding, Findings};
use gpubuild_detect::id;
use gpubuild_host::interrupt::SIGINT;
use gpubuild_host::path::NotUtf8Path;
use gpubuild_host::{HostPath, ReadFiles};
use serde::Serialize;

use crate::report::Schema;

/// The longest line of a message in bytes: names in input have any length, and paths are rarely longer.
pub(super) const LONGEST_MESSAGE: usize = 2 << 10;

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
    /// Interrupted, by Ctrl-C if no other signal is known: 130, as in shells.
    Interrupted,
    /// Interrupted by this signal: 128 + N.
    Signal(u8),
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
            Self::Interrupted => Self::Signal(SIGINT).code(),
            Self::Signal(number) => 128 + number,
            Self::Child(code) => code,
        }
    }

    /// The exit code of an interrupted command, with the signal that this process has received.
    #[must_use]
    pub fn with_signal(self, received: Option<u8>) -> Self {
        match (self, received) {
            (Self::Interrupted, Some(number)) => Self::Signal(number),
            _ => self,
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

    /// A failed operation on a file or folder, with a hint for the error of the operating system.
    #[must_use]
    pub fn file(id: DiagnosticId, what: &str, path: &HostPath, error: &io::Error) -> Self {
        let text = error.to_string();
        // Most errors of the host name the path.
        let message =
            if text.contains(path.as_str()) { text } else { format!("failed to {what} `{path}`: {text}") };
        Self::negative(id, message).hint(diagnostic::file_hint(error.kind()))
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint for a name that is not among `known`: a similar name, if there is one, and all of them. `what` describes them.
    #[must_use]
    pub fn hint_of_known(self, name: &str, what: &str, known: &[&str]) -> Self {
        let all = format!("{what}: {}", known.join(", "));
        match similar(name, known) {
            Some(near) => self.hint(format!("did you mean `{near}`? {all}")),
            None => self.hint(all),
        }
    }

    /// Sets the hint for an unknown id of a finding: similar ids, or else `list`, which says where all are listed.
    #[must_use]
    pub fn hint_of_finding(self, id: &str, list: &str) -> Self {
        let findings = Findings::embedded();
        let mut near = diagnostic::near(id);
        near.retain(|near| findings.find(near).is_some());
        match near.as_slice() {
            [] => self.hint(list),
            [one] => self.hint(format!("did you mean `{one}`?")),
            several => self.hint(format!("similar ids: {}", several.join(", "))),
        }
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
            message: clean::with_short_lines(&self.message, LONGEST_MESSAGE),
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
    message: Cow<'a, str>,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// The findings that caused it.
    findings: &'a [Finding],
}

/// The name that differs from `name` in the fewest characters, at most a third of it.
pub(in crate::cli) fn similar<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|one| (edit_distance(name, one), *one));
    distances.min().filter(|(distance, _)| *distance <= name.len() / 3).map(|(_, near)| near)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if let Some(path) = NotUtf8Path::cause(&error) {
            return Self::usage(id!("usage.path-not-utf8"), format!("the path {path} is not UTF-8")).hint(
                "rename the file or folder: gpubuild writes paths into files that must be UTF-8, such as JSON and CMake scripts",
            );
        }
        let id = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => id!("disk.full"),
            _ => id!("io.failed"),
        };
        Self::negative(id, error.to_string()).hint(diagnostic::file_hint(error.kind()))
    }
}

/// Fails if this user may not list a folder: it would count as empty.
pub(super) fn check_listable(host: &dyn ReadFiles, folder: &HostPath) -> Result<(), Failure> {
    match host.list(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(Failure::file(id!("file.failed"), "list", folder, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_short_messages() {
        let failure = Failure::usage(id!("usage.no-folder"), format!("{}\nlast", "x".repeat(1 << 20)));
        for text in [serde_json::to_string(&failure.document()), serde_json::to_string(&failure.line())] {
            let text = text.unwrap();
            assert!(text.len() < 3_000 && text.contains("x… (and 1046528 more characters)\\nlast"), "{text}");
        }
    }

    #[test]
    fn failed_operations_on_files_have_the_path_once_and_a_hint() {
        let path = gpubuild_host::HostPath::new(gpubuild_host::PathRules::Unix, "/a/b");
        let named = io::Error::new(ErrorKind::PermissionDenied, "failed to write `/a/b`: denied");
        for error in [named, io::Error::new(ErrorKind::PermissionDenied, "denied")] {
            let failure = Failure::file(id!("file.failed"), "write", &path, &error);
            assert_eq!(failure.message, "failed to write `/a/b`: denied");
            assert!(failure.hint.unwrap().contains("owner and mode"));
        }
        let failure = Failure::from(io::Error::from(ErrorKind::ReadOnlyFilesystem));
        assert!(failure.hint.unwrap().contains("read-only"));
    }

    #[test]
    fn similar_names_are_suggested() {
        let jobs = ["cpu-ubuntu-24.04", "cuda-ubuntu-24.04", "metal-macos-15"];
        assert_eq!(similar("cpu-ubuntu-24.4", &jobs), Some("cpu-ubuntu-24.04"));
        assert_eq!(similar("windows", &jobs), None);
        let hint =
            |name: &str| Failure::usage(id!("ci.unknown-job"), "").hint_of_known(name, "jobs", &jobs).hint;
        assert_eq!(hint("x").unwrap(), "jobs: cpu-ubuntu-24.04, cuda-ubuntu-24.04, metal-macos-15");
        assert!(hint("metal-macos-14").unwrap().starts_with("did you mean `metal-macos-15`? jobs: "));
    }

    #[test]
    fn similar_findings_are_suggested() {
        let hint =
            |id: &str| Failure::usage(id!("doctor.check-unknown"), "").hint_of_finding(id, "the list").hint;
        assert_eq!(hint("nv.driver.nouveu").unwrap(), "did you mean `nv.driver.nouveau`?");
        assert_eq!(hint("qqq").unwrap(), "the list");
    }
}
