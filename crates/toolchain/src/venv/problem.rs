//! Problems of environments, as drafts of the findings in `findings/venv.toml`.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_host::HostPath;

/// When a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenvEnding {
    /// The request was refused before anything was changed.
    Refused,
    /// An action failed.
    Failed,
}

/// A problem whose text comes from the findings data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenvProblem {
    /// Id, values and evidence.
    pub draft: Box<FindingDraft>,
    /// Whether the request was refused or an action failed.
    pub ending: VenvEnding,
}

impl VenvProblem {
    /// A request that is refused before anything is changed.
    #[must_use]
    pub fn refused(id: DiagnosticId) -> Self {
        Self { draft: Box::new(FindingDraft::new(id)), ending: VenvEnding::Refused }
    }

    /// An action that failed.
    #[must_use]
    pub fn failed(id: DiagnosticId) -> Self {
        Self { ending: VenvEnding::Failed, ..Self::refused(id) }
    }

    /// A file or folder that cannot be read or written. `doing` is a verb: `read`, `write`.
    #[must_use]
    pub fn io(doing: &str, path: &HostPath, error: &std::io::Error) -> Self {
        Self::failed(id!("venv.io"))
            .value("doing", doing)
            .value("path", path.as_str())
            .value("why", error.to_string())
    }

    /// Sets the value of a placeholder in the finding's text.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<String>) -> Self {
        self.draft.values.insert(name.to_owned(), value.into());
        self
    }

    /// Adds evidence.
    #[must_use]
    pub fn evidence(mut self, evidence: Evidence) -> Self {
        self.draft.evidence.push(evidence);
        self
    }

    /// Selects a case of the finding, which has its own text.
    #[must_use]
    pub fn case(mut self, case: &str) -> Self {
        self.draft.case = Some(case.to_owned());
        self
    }
}
