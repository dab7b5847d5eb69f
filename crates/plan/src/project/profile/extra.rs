//! Extra backends: those of a project that gpubuild has no toolkit for. The user requests them by name and provides their
//! dependencies.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::WantedOption;

/// An extra backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// The option that enables it.
    pub option: String,
    /// Additional options that get the same value.
    #[serde(default)]
    pub also: Vec<String>,
    /// Targets that a program links.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// Cache entries that are set if the backend is built.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// What must be installed.
    #[serde(default)]
    pub needs: Vec<ExtraNeed>,
    /// Supported operating systems by Rust's names; all if empty.
    #[serde(default)]
    pub os: Vec<String>,
    /// Supported processor architectures by Rust's names; all if empty.
    #[serde(default)]
    pub processors: Vec<String>,
    /// What a program links in addition to the project's libraries, for messages only: the link line comes from CMake.
    #[serde(default)]
    pub link: Vec<String>,
    /// What the build downloads for it.
    pub network: Option<String>,
    /// Variables or cache entries with the path of a local copy. If one is set, nothing is downloaded.
    #[serde(default)]
    pub network_unless: Vec<String>,
    /// Ids of backends that cannot be in the same build; `*` matches all except `cpu`.
    #[serde(default)]
    pub conflicts: Vec<String>,
    /// A note for the user.
    pub note: Option<String>,
    /// What replaced it, if newer versions of the project do not have it.
    pub removed: Option<String>,
}

/// A dependency of an extra backend.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraNeed {
    /// Description of the dependency.
    pub what: String,
    /// Variables or cache entries with its path; one of them must be set.
    #[serde(default)]
    pub set: Vec<String>,
    /// Debian packages that contain it.
    #[serde(default)]
    pub apt: Vec<String>,
    /// Fedora packages that contain it.
    #[serde(default)]
    pub dnf: Vec<String>,
}

impl ExtraNeed {
    /// The dependency as one line: what it is, the variables with its path, and the Debian packages.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.what.clone();
        if !self.set.is_empty() {
            let names: Vec<String> = self.set.iter().map(|name| format!("`{name}`")).collect();
            line = format!("{line}, located by {}", names.join(" or "));
        }
        if !self.apt.is_empty() {
            line = format!("{line} (Debian: {})", self.apt.join(" "));
        }
        line
    }
}

impl Extra {
    pub(super) fn merged_onto(self, base: Self) -> Self {
        let targets = if self.targets.is_empty() { base.targets } else { self.targets };
        let mut options = base.options;
        options.extend(self.options);
        Self { option: self.option, also: self.also, targets, options, ..base }
    }
}
