//! Toolkits that a build installs before it configures, as values in a plan.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::HostPath;
use serde::Serialize;

/// A toolkit that a build installs before it configures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provision {
    /// Id of the toolkit: `cuda`.
    pub toolkit: String,
    /// The backend that needs it.
    pub backend: Backend,
    /// The selected release.
    #[serde(flatten)]
    pub choice: ReleaseChoice,
    /// Its components that the project links and that are installed only on request: `cublas`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Rust's name of the platform whose libraries it contains, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Total size of its wheels in bytes, an upper limit for the download: uv and pip have caches.
    pub download_bytes: u64,
    /// The future root of the toolkit.
    pub root: HostPath,
}

/// What the packages of the distribution have of a toolkit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackagedToolkit {
    /// The release, if it is known.
    pub release: Option<Version>,
    /// The components that are installed on request only.
    pub components: Vec<String>,
}

/// The selected release of a toolkit, with reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseChoice {
    /// Complete version: `13.0.3`.
    pub version: Version,
    /// Release: `13.0`.
    pub release: String,
    /// Reason for the selection, one line.
    pub because: String,
    /// Objections to this release, if it was requested explicitly despite them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Objection>,
    /// Newer releases that were rejected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<RejectedRelease>,
}

/// A release that was not selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RejectedRelease {
    /// Release: `13.5`.
    pub release: String,
    /// Why it does not suit the machine or the project.
    pub reasons: Vec<Objection>,
}

/// A reason not to use a release on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Objection {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// The problem, in one line.
    pub text: String,
    /// How to resolve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<Objection> for Reason {
    fn from(one: Objection) -> Self {
        Self { hint: one.hint, ..Self::new(one.id, one.text) }
    }
}

impl ReleaseChoice {
    /// The selection as text: the release with its reason, then one line per objection and per rejected release.
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
