//! Backends of a project that gpubuild has no toolkit for: switched on by name, built with what the user has.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::WantedOption;

/// Such a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// The option that switches it.
    pub option: String,
    /// Further options that get the same value.
    #[serde(default)]
    pub also: Vec<String>,
    /// Targets that a program links.
    #[serde(default)]
    pub targets: Vec<WantedOption>,
    /// Cache entries while it is built.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// What has to be on the machine.
    #[serde(default)]
    pub needs: Vec<ExtraNeed>,
    /// Operating systems that it is for, as Rust names them; all of them if none is named.
    #[serde(default)]
    pub os: Vec<String>,
    /// Processors that it is for, as Rust names them; all of them if none is named.
    #[serde(default)]
    pub processors: Vec<String>,
    /// What a program links beside the project's own libraries, for people: the line itself is learned from CMake.
    #[serde(default)]
    pub link: Vec<String>,
    /// What it downloads while it is configured or built.
    pub network: Option<String>,
    /// Variables or cache entries that name a copy of it: with one of them nothing is downloaded.
    #[serde(default)]
    pub network_unless: Vec<String>,
    /// Backends that cannot be in the same build, by id; `*` stands for all but `cpu`.
    #[serde(default)]
    pub conflicts: Vec<String>,
    /// A remark.
    pub note: Option<String>,
    /// What became of it, if newer versions of the project do not have it.
    pub removed: Option<String>,
}

/// Something that a backend needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraNeed {
    /// What it is.
    pub what: String,
    /// Variables or cache entries that tell where it lies: one of them has to be set.
    #[serde(default)]
    pub set: Vec<String>,
    /// Debian packages that bring it.
    #[serde(default)]
    pub apt: Vec<String>,
    /// Fedora packages that bring it.
    #[serde(default)]
    pub dnf: Vec<String>,
}

impl ExtraNeed {
    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.what.clone();
        if !self.set.is_empty() {
            let names: Vec<String> = self.set.iter().map(|name| format!("`{name}`")).collect();
            line = format!("{line}, told by {}", names.join(" or "));
        }
        if !self.apt.is_empty() {
            line = format!("{line} (Debian: {})", self.apt.join(" "));
        }
        line
    }
}

impl Extra {
    pub(super) fn on_top_of(self, base: Self) -> Self {
        let targets = if self.targets.is_empty() { base.targets } else { self.targets };
        let mut options = base.options;
        options.extend(self.options);
        Self { option: self.option, also: self.also, targets, options, ..base }
    }
}
