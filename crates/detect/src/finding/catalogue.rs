//! The texts of all findings, from the files in `findings/`, one per family. `gpubuild explain ID`, the doctor and
//! `docs/reference/findings.md` use them.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_findings::FINDINGS;
use serde::Deserialize;

use super::Affects;

/// All known findings.
#[derive(Debug, Clone)]
pub struct Findings {
    families: Vec<FindingFamily>,
}

/// A group of related findings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingFamily {
    /// The name of the file: `nvidia`.
    pub family: String,
    /// The heading in the documentation.
    pub title: String,
    /// What is examined: `machine`, `binary`, `log`, `file`.
    pub subject: FindingSubject,
    /// Rank among causes: of two errors, the one with the lower rank is listed first.
    #[serde(default = "middle")]
    pub rank: u32,
    /// The findings by id.
    #[serde(default)]
    pub findings: BTreeMap<String, FindingEntry>,
}

fn middle() -> u32 {
    50
}

/// What is examined for the findings of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSubject {
    /// A machine: `gpubuild doctor`.
    Machine,
    /// An executable or library: `doctor --binary`.
    Binary,
    /// The output of a build: `doctor --log`.
    Log,
    /// A Dockerfile, a compose file, a workflow: `doctor --file`.
    File,
    /// A project and its plan: `gpubuild plan`, `build`.
    Plan,
    /// The artifacts of a build: `gpubuild audit`.
    Audit,
}

/// How severe a finding is if its backend is relevant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingKind {
    /// An error: it blocks the backend.
    #[default]
    Fault,
    /// Blocks the backend because it was never installed: an error only if the backend was requested, or if a GPU would have no
    /// backend at all.
    Absence,
    /// A warning: it works now and will cause trouble.
    Caution,
    /// Information.
    Note,
}

/// The catalogue's entry for one finding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingEntry {
    /// One line, for lists of findings.
    pub title: String,
    /// How severe it is.
    #[serde(default)]
    pub kind: FindingKind,
    /// The backend, if the finding concerns a single one.
    pub backend: Option<Backend>,
    /// The questions that it answers with "no".
    #[serde(default)]
    pub affects: Vec<Affects>,
    /// Rank among causes; defaults to the family's.
    pub rank: Option<u32>,
    /// One line for the actual case, with `{placeholders}`. A reason of a verdict has its line in
    /// `toolkits/*.toml`.
    pub summary: Option<String>,
    /// What it means, in a few sentences.
    pub meaning: String,
    /// How it is recognised: from which files, variables and answers.
    pub recognised: String,
    /// How to fix it, in one sentence with `{placeholders}`.
    pub fix: String,
    /// Commands by kind of container (`docker podman kubernetes lxc singularity`, then `container`), `wsl`, distribution
    /// (`ubuntu`), package manager (`apt dnf pacman zypper apk brew winget`), system (`linux windows macos`) or `any`; the
    /// first match is used. A command with a placeholder that has no value is omitted. A command that ends in
    /// `# on the host` or `# in Windows` is for the machine around this one and keeps its `sudo`.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// `relogin`, `reboot`. `sudo`, `host` (to be done outside of the container) and `windows` are derived from the commands.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A command that verifies the fix.
    pub verify: Option<String>,
    /// Whether the commands change only the user's folders.
    #[serde(default)]
    pub safe: bool,
    /// Ids of causes under which this finding is listed if they are found too; `nv.driver.*` matches a group.
    #[serde(default)]
    pub follows: Vec<String>,
    /// Only says that something does not work: any other finding on the same backend is closer to the cause.
    #[serde(default)]
    pub symptom: bool,
    /// Texts for variants of the finding, by the name that a check uses: a driver that is not installed and one that is only not
    /// loaded are one finding with two fixes.
    #[serde(default)]
    pub cases: BTreeMap<String, FindingVariant>,
    /// Links to documentation and discussions.
    #[serde(default)]
    pub links: Vec<String>,
}

/// Replacements for an entry's fields in one case. Omitted fields keep their value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingVariant {
    /// Replaces the summary, including that of a verdict.
    pub summary: Option<String>,
    /// Replaces the fix.
    pub fix: Option<String>,
    /// Replaces the complete table of commands.
    pub commands: Option<BTreeMap<String, Vec<String>>>,
    /// Replaces the needs.
    pub needs: Option<Vec<String>>,
    /// Replaces the verification.
    pub verify: Option<String>,
}

impl FindingEntry {
    /// The entry with the replacements of a case.
    #[must_use]
    pub fn for_case(&self, case: Option<&str>) -> Self {
        let Some(variant) = case.and_then(|case| self.cases.get(case)).cloned() else { return self.clone() };
        Self {
            summary: variant.summary.or_else(|| self.summary.clone()),
            fix: variant.fix.unwrap_or_else(|| self.fix.clone()),
            commands: variant.commands.unwrap_or_else(|| self.commands.clone()),
            needs: variant.needs.unwrap_or_else(|| self.needs.clone()),
            verify: variant.verify.or_else(|| self.verify.clone()),
            ..self.clone()
        }
    }
}

impl Findings {
    /// The embedded catalogue.
    ///
    /// # Panics
    /// If an embedded file is invalid; a test rules that out.
    #[must_use]
    pub fn embedded() -> Self {
        let parse = |(name, bytes): &(&str, &[u8])| -> FindingFamily {
            gpubuild_toml::from_bytes(bytes).unwrap_or_else(|error| panic!("findings/{name}.toml: {error}"))
        };
        Self { families: FINDINGS.iter().map(parse).collect() }
    }

    /// The families in the order of the documentation.
    #[must_use]
    pub fn families(&self) -> &[FindingFamily] {
        &self.families
    }

    /// A finding and its family, by id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(&FindingFamily, &FindingEntry)> {
        self.families.iter().find_map(|family| Some((family, family.findings.get(id)?)))
    }

    /// A finding by id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&FindingEntry> {
        self.find(id).map(|(_, entry)| entry)
    }

    /// All findings with family and id, in the order of the documentation.
    pub fn iter(&self) -> impl Iterator<Item = (&FindingFamily, &str, &FindingEntry)> {
        self.families
            .iter()
            .flat_map(|family| family.findings.iter().map(move |(id, entry)| (family, id.as_str(), entry)))
    }
}

/// Whether a pattern matches an id: the id itself, or `nv.driver.*` for every id with that prefix.
#[must_use]
pub fn matches(pattern: &str, id: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => id.starts_with(start),
        None => pattern == id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_causes_exist() {
        let findings = Findings::embedded();
        let mut seen = std::collections::BTreeSet::new();
        for (family, id, entry) in findings.iter() {
            assert!(seen.insert(id.to_owned()), "{id} is in two families");
            assert!(id.contains('.'), "{id}");
            assert!(!entry.title.ends_with('.') && !entry.title.is_empty(), "{id}: {}", entry.title);
            assert!(!entry.meaning.is_empty() && !entry.recognised.is_empty(), "{id}");
            for cause in &entry.follows {
                let known = findings.iter().any(|(_, other, _)| matches(cause, other));
                assert!(known, "{id} of {} follows `{cause}`, which does not exist", family.family);
            }
            assert!(entry.follows.iter().all(|cause| cause != id), "{id} follows itself");
        }
    }
}
