//! The result of a check: an id, the values of the actual case and the evidence. The catalogue supplies the texts.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;

use super::{Affects, Evidence, FindingKind, Severity};
use crate::diagnostic::DiagnosticId;

/// A finding without texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingDraft {
    /// The finding's id.
    pub id: DiagnosticId,
    /// The affected backends; if empty, the catalogue's.
    pub backends: Vec<Backend>,
    /// The questions that it answers with "no"; if empty, the catalogue's.
    pub affects: Vec<Affects>,
    /// The values of placeholders in its texts.
    pub values: BTreeMap<String, String>,
    /// The observations behind it.
    pub evidence: Vec<Evidence>,
    /// Replaces the catalogue's summary, if the check has a more specific one.
    pub summary: Option<String>,
    /// The fix, if the catalogue lacks one.
    pub fix: Option<String>,
    /// A severity that does not depend on the requested backends.
    pub severity: Option<Severity>,
    /// The toolkit whose install instructions fill `{install}`, if it is not the backend's.
    pub about: Option<String>,
    /// The case whose texts are used.
    pub case: Option<String>,
    /// Replaces the catalogue's kind: some faults are harmless in some cases.
    pub kind: Option<FindingKind>,
    /// Commands for a placeholder: a catalogue line that is only `{install_toolkit}` is replaced by all of them.
    /// They are shown unchanged, so values from the machine must be quoted.
    pub steps: BTreeMap<String, Vec<String>>,
}

impl FindingDraft {
    /// A draft with only an id.
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

    /// Adds a question that the finding answers with "no".
    #[must_use]
    pub fn affects(mut self, affects: Affects) -> Self {
        if !self.affects.contains(&affects) {
            self.affects.push(affects);
        }
        self
    }

    /// Overrides the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Overrides the summary.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// Sets the fix for findings without one in the catalogue.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Selects a case of the entry.
    #[must_use]
    pub fn case(mut self, case: &str) -> Self {
        self.case = Some(case.to_owned());
        self
    }

    /// Overrides the kind.
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

    /// Selects the toolkit whose install instructions fill `{install}`.
    #[must_use]
    pub fn about(mut self, toolkit: &str) -> Self {
        self.about = Some(toolkit.to_owned());
        self
    }
}
