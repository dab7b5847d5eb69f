//! Toolkits that a build installs first, as values of a plan.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::HostPath;
use serde::Serialize;

/// A toolkit that a build installs first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provision {
    /// Id of the toolkit, `cuda`.
    pub toolkit: String,
    /// The backend that needs it.
    pub backend: Backend,
    /// Which release, and why.
    #[serde(flatten)]
    pub choice: ReleaseChoice,
    /// Bytes of its wheels; what the cache of uv or pip already has is not fetched again.
    pub download_bytes: u64,
    /// The root that it will have.
    pub root: HostPath,
}

/// The release to install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReleaseChoice {
    /// `13.0.3`.
    pub version: Version,
    /// `13.0`.
    pub release: String,
    /// Why this one, in one line.
    pub because: String,
    /// What speaks against it all the same, where it was asked for by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Objection>,
    /// Newer ones, and why not these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedRelease>,
}

/// A release that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassedRelease {
    /// `13.5`.
    pub release: String,
    /// Why not.
    pub reasons: Vec<Objection>,
}

/// What speaks against a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Objection {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// One line.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<Objection> for Reason {
    fn from(one: Objection) -> Self {
        Self { hint: one.hint, ..Self::new(one.id, one.text) }
    }
}

impl ReleaseChoice {
    /// The choice for people, a line for each thing that they may wonder about.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", self.release, self.because)];
        for one in &self.against {
            lines.push(format!("but {} [{}]", one.text, one.id));
        }
        for passed in &self.passed_over {
            let reasons: Vec<String> =
                passed.reasons.iter().map(|one| format!("{} [{}]", one.text, one.id)).collect();
            lines.push(format!("not {}: {}", passed.release, reasons.join("; ")));
        }
        lines
    }
}
