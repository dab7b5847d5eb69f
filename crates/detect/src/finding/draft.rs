//! The result of a check: an id, values and evidence. The texts are added from the catalogue.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;

use super::{Affects, Evidence, FindingKind, Severity};
use crate::diagnostic::DiagnosticId;

/// A finding without catalogue texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingDraft {
    /// The finding's id.
    pub id: DiagnosticId,
    /// The affected backends; those of the catalogue entry if empty.
    pub backends: Vec<Backend>,
    /// The capabilities that it blocks; those of the catalogue entry if empty.
    pub affects: Vec<Affects>,
    /// The values of the placeholders in its texts.
    pub values: BTreeMap<String, String>,
    /// The observations that the finding is based on.
    pub evidence: Vec<Evidence>,
    /// A summary that replaces the catalogue's.
    pub summary: Option<String>,
    /// The fix, used if the catalogue does not contain one.
    pub fix: Option<String>,
    /// A fix that replaces the catalogue's.
    pub exact_fix: Option<String>,
    /// Commands that replace the catalogue's, in the same format; empty to use the catalogue's.
    pub commands: BTreeMap<String, Vec<String>>,
    /// A fixed severity, independent of the requested backends.
    pub severity: Option<Severity>,
    /// The toolkit whose install instructions replace `{install}`; the backend's if `None`.
    pub about: Option<String>,
    /// The case of the catalogue entry whose texts are used.
    pub case: Option<String>,
    /// A kind that replaces the catalogue's, for problems that are less severe in some cases.
    pub kind: Option<FindingKind>,
    /// Commands by placeholder: a catalogue command that consists only of `{install_toolkit}` is replaced by these. They are shown
    /// unchanged, so values from the machine must already be quoted.
    pub steps: BTreeMap<String, Vec<String>>,
}

impl FindingDraft {
    /// Creates a draft with only an id.
    #[must_use]
    pub fn new(id: DiagnosticId) -> Self {
        Self {
            id,
            backends: Vec::new(),
            affects: Vec::new(),
            values: BTreeMap::new(),
            evidence: Vec::new(),
            summary: None,
            fix: None,
            exact_fix: None,
            commands: BTreeMap::new(),
            severity: None,
            about: None,
            case: None,
            kind: None,
            steps: BTreeMap::new(),
        }
    }

    /// Sets the value of a placeholder.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<String>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// Adds an observation.
    #[must_use]
    pub fn evidence(mut self, evidence: Evidence) -> Self {
        if !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
        self
    }

    /// Adds an affected backend.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        if !self.backends.contains(&backend) {
            self.backends.push(backend);
        }
        self
    }

    /// Adds a blocked capability.
    #[must_use]
    pub fn affects(mut self, affects: Affects) -> Self {
        if !self.affects.contains(&affects) {
            self.affects.push(affects);
        }
        self
    }

    /// Sets a fixed severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Sets a summary that replaces the catalogue's.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// Sets the fix, for findings without one in the catalogue.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Selects a case of the catalogue entry.
    #[must_use]
    pub fn case(mut self, case: &str) -> Self {
        self.case = Some(case.to_owned());
        self
    }

    /// Sets a kind that replaces the catalogue's.
    #[must_use]
    pub fn kind(mut self, kind: FindingKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the commands for a placeholder.
    #[must_use]
    pub fn steps(mut self, name: &str, commands: Vec<String>) -> Self {
        self.steps.insert(name.to_owned(), commands);
        self
    }

    /// Selects the toolkit whose install instructions replace `{install}`.
    #[must_use]
    pub fn about(mut self, toolkit: &str) -> Self {
        self.about = Some(toolkit.to_owned());
        self
    }
}
