//! Why there is no environment, as a draft whose words stand in `findings/venv.toml`.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_host::HostPath;

/// How a command ends that met a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenvEnding {
    /// Nothing was tried: what was asked for does not go together.
    Refused,
    /// It was tried and did not work.
    Failed,
}

/// A problem before it has words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenvProblem {
    /// Id, values and evidence.
    pub draft: Box<FindingDraft>,
    /// How the command ends.
    pub ending: VenvEnding,
}

impl VenvProblem {
    /// Something that is refused before anything was changed.
    #[must_use]
    pub fn refused(id: DiagnosticId) -> Self {
        Self { draft: Box::new(FindingDraft::new(id)), ending: VenvEnding::Refused }
    }

    /// Something that was tried and failed.
    #[must_use]
    pub fn failed(id: DiagnosticId) -> Self {
        Self { ending: VenvEnding::Failed, ..Self::refused(id) }
    }

    /// A file or folder that could not be read or written.
    #[must_use]
    pub fn io(doing: &str, path: &HostPath, error: &std::io::Error) -> Self {
        Self::failed(id!("venv.io"))
            .value("doing", doing)
            .value("path", path.as_str())
            .value("why", error.to_string())
    }

    /// The value of a placeholder.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<String>) -> Self {
        self.draft.values.insert(name.to_owned(), value.into());
        self
    }

    /// What it rests on.
    #[must_use]
    pub fn evidence(mut self, evidence: Evidence) -> Self {
        self.draft.evidence.push(evidence);
        self
    }

    /// The case of the entry whose words are taken.
    #[must_use]
    pub fn case(mut self, case: &str) -> Self {
        self.draft.case = Some(case.to_owned());
        self
    }
}
