//! What a check hands over: an id, the values of the case at hand and the evidence. The words come from the catalogue.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;

use super::{Affects, Evidence, Kind, Severity};

/// A finding before it has words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its id.
    pub id: String,
    /// The backends concerned; the catalogue's if empty.
    pub backends: Vec<Backend>,
    /// The questions that it answers with "no"; the catalogue's if empty.
    pub affects: Vec<Affects>,
    /// What the placeholders of its words stand for.
    pub values: BTreeMap<String, String>,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// A line that replaces the catalogue's, from those who have better words for the case.
    pub summary: Option<String>,
    /// What to do, where the catalogue does not know it.
    pub fix: Option<String>,
    /// A severity that does not depend on what was asked for.
    pub severity: Option<Severity>,
    /// The toolkit whose install help fills `{install}`, if it is not the backend's own.
    pub about: Option<String>,
    /// The case of the entry whose words are taken.
    pub case: Option<String>,
    /// How much it matters, where that is not what the catalogue says: some faults are harmless in some cases.
    pub kind: Option<Kind>,
    /// Commands that stand for a placeholder: `{install_toolkit}` alone in a line of the catalogue becomes all of them.
    /// They are shown as they are: who puts a value of the machine into one quotes it.
    pub steps: BTreeMap<String, Vec<String>>,
}

impl Draft {
    /// A finding of which only the id is known yet.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
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

    /// The value of a placeholder.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<String>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// One more observation.
    #[must_use]
    pub fn evidence(mut self, evidence: Evidence) -> Self {
        if !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
        self
    }

    /// One more backend that it concerns.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        if !self.backends.contains(&backend) {
            self.backends.push(backend);
        }
        self
    }

    /// One more question that it answers with "no".
    #[must_use]
    pub fn affects(mut self, affects: Affects) -> Self {
        if !self.affects.contains(&affects) {
            self.affects.push(affects);
        }
        self
    }

    /// A severity of its own.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// A line of its own.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// A remedy of its own.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The case of the entry whose words are taken.
    #[must_use]
    pub fn case(mut self, case: &str) -> Self {
        self.case = Some(case.to_owned());
        self
    }

    /// How much it matters in this case.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The commands of a placeholder.
    #[must_use]
    pub fn steps(mut self, name: &str, commands: Vec<String>) -> Self {
        self.steps.insert(name.to_owned(), commands);
        self
    }

    /// The toolkit whose install help fills `{install}`.
    #[must_use]
    pub fn about(mut self, toolkit: &str) -> Self {
        self.about = Some(toolkit.to_owned());
        self
    }
}
