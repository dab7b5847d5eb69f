//! The texts of all findings, from the files in `findings/`, one per family. Used by `gpubuild explain ID`, the doctor and
//! `docs/reference/findings.md`.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_findings::FINDINGS;
use gpubuild_toml::Lazy;
use serde::Deserialize;

use super::Affects;

/// The catalogue of all findings.
#[derive(Debug, Clone)]
pub struct Findings {
    families: Vec<FindingFamily>,
}

/// A group of related findings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingFamily {
    /// The name of the file, such as `nvidia`.
    pub family: String,
    /// The heading in the documentation.
    pub title: String,
    /// What is examined.
    pub subject: FindingSubject,
    /// Default rank of its findings: among errors, those with a lower rank are listed first.
    #[serde(default = "middle")]
    pub rank: u32,
    /// The findings by id, read on first use.
    #[serde(default)]
    pub findings: BTreeMap<String, Lazy<FindingEntry>>,
}

fn middle() -> u32 {
    50
}

/// What a family of findings is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSubject {
    /// A machine (`gpubuild doctor`).
    Machine,
    /// An executable or library (`doctor --binary`).
    Binary,
    /// The output of a build (`doctor --log`).
    Log,
    /// A Dockerfile, compose file or workflow (`doctor --file`).
    File,
    /// A project and its plan (`gpubuild plan`, `build`).
    Plan,
    /// The artifacts of a build (`gpubuild audit`).
    Audit,
}

/// The kind of a finding, which determines its severity if its backend is relevant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingKind {
    /// An error: it blocks the backend.
    #[default]
    Fault,
    /// Something is not installed. This is an error only if the backend was requested, or if a GPU would have no usable backend.
    Absence,
    /// A warning: it works now but is likely to cause problems.
    Caution,
    /// Information.
    Note,
}

/// The catalogue entry of a finding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingEntry {
    /// The title, for lists of findings.
    pub title: String,
    /// The kind, which determines the severity.
    #[serde(default)]
    pub kind: FindingKind,
    /// The backend, if the finding concerns a single one.
    pub backend: Option<Backend>,
    /// The capabilities that it blocks.
    #[serde(default)]
    pub affects: Vec<Affects>,
    /// Rank among causes; the family's rank if omitted.
    pub rank: Option<u32>,
    /// One line that describes the actual case, with `{placeholders}`. Summaries of verdict reasons are in `toolkits/*.toml`.
    pub summary: Option<String>,
    /// The meaning, in a few sentences.
    pub meaning: String,
    /// How it is recognised: the files, variables and driver answers.
    pub recognised: String,
    /// The fix, in one sentence with `{placeholders}`.
    pub fix: String,
    /// Commands by kind of container (`docker podman kubernetes lxc singularity`, then `container`), `wsl`, distribution
    /// (`ubuntu`), package manager (`apt dnf pacman zypper apk brew winget`), system (`linux windows macos`) or `any`; the
    /// first match is used. A command is omitted if one of its placeholders has no value. Commands that end in `# on the host`
    /// or `# in Windows` are run outside of the examined container or WSL, and keep their `sudo`.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// The reason if the remedy contains no command: the fix is a choice, or a change of code.
    pub manual: Option<String>,
    /// Additional requirements: `relogin`, `reboot`. `sudo`, `host` (outside of the container) and `windows` are derived from the commands.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A command that verifies the fix.
    pub verify: Option<String>,
    /// Ids of causes: if one of them is found too, this finding is listed below it. `nv.driver.*` matches all ids with that prefix.
    #[serde(default)]
    pub follows: Vec<String>,
    /// Whether this is only a symptom: any other finding of the same backend is closer to the cause.
    #[serde(default)]
    pub symptom: bool,
    /// Texts for cases of the finding, by the name that the check uses. For example, a driver that is not installed and a driver
    /// that is not loaded are the same finding with different fixes.
    #[serde(default)]
    pub cases: BTreeMap<String, FindingVariant>,
    /// Remedies for systems of `toolkits/tables/systems.toml` by id (`ostree`, `nixos`), in place of the distribution's commands.
    #[serde(default)]
    pub systems: BTreeMap<String, SystemRemedy>,
    /// Links to documentation and discussions.
    #[serde(default)]
    pub links: Vec<String>,
}

/// How a problem is fixed on a system that is an image or declared by a configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRemedy {
    /// The fix, in one sentence with `{placeholders}`.
    pub fix: String,
    /// The commands.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Additional requirements.
    #[serde(default)]
    pub needs: Vec<String>,
}

/// Replacements for the fields of an entry in one case. Omitted fields keep their value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingVariant {
    /// Replaces the summary, even if it comes from a verdict.
    pub summary: Option<String>,
    /// Replaces the fix.
    pub fix: Option<String>,
    /// Replaces the complete table of commands.
    pub commands: Option<BTreeMap<String, Vec<String>>>,
    /// Replaces the requirements.
    pub needs: Option<Vec<String>>,
    /// Replaces the verification command.
    pub verify: Option<String>,
    /// Replaces the remedies for systems that are images.
    pub systems: Option<BTreeMap<String, SystemRemedy>>,
}

impl FindingEntry {
    /// Returns the entry with the replacements of a case applied.
    #[must_use]
    pub fn for_case(&self, case: Option<&str>) -> Self {
        let Some(variant) = case.and_then(|case| self.cases.get(case)).cloned() else { return self.clone() };
        Self {
            summary: variant.summary.or_else(|| self.summary.clone()),
            fix: variant.fix.unwrap_or_else(|| self.fix.clone()),
            commands: variant.commands.unwrap_or_else(|| self.commands.clone()),
            needs: variant.needs.unwrap_or_else(|| self.needs.clone()),
            verify: variant.verify.or_else(|| self.verify.clone()),
            systems: variant.systems.unwrap_or_else(|| self.systems.clone()),
            ..self.clone()
        }
    }
}

impl Findings {
    /// Parses the embedded catalogue.
    ///
    /// # Panics
    /// An embedded file is invalid; a test rules this out.
    #[must_use]
    pub fn embedded() -> Self {
        let parse = |(name, bytes): &(&str, &'static [u8])| -> FindingFamily {
            gpubuild_toml::from_static(bytes).unwrap_or_else(|error| panic!("findings/{name}.toml: {error}"))
        };
        Self { families: FINDINGS.iter().map(parse).collect() }
    }

    /// The embedded catalogue, parsed once.
    ///
    /// # Panics
    /// As [`Findings::embedded`].
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: std::sync::LazyLock<Findings> = std::sync::LazyLock::new(Findings::embedded);
        &SHARED
    }

    /// All families, in the order of the documentation.
    #[must_use]
    pub fn families(&self) -> &[FindingFamily] {
        &self.families
    }

    /// Finds an entry and its family by id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(&FindingFamily, &FindingEntry)> {
        self.families.iter().find_map(|family| Some((family, &**family.findings.get(id)?)))
    }

    /// Finds an entry by id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&FindingEntry> {
        self.find(id).map(|(_, entry)| entry)
    }

    /// All ids, in the order of the documentation. Reads no entry.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.families.iter().flat_map(|family| family.findings.keys().map(String::as_str))
    }

    /// All entries with family and id, in the order of the documentation.
    pub fn iter(&self) -> impl Iterator<Item = (&FindingFamily, &str, &FindingEntry)> {
        self.families
            .iter()
            .flat_map(|family| family.findings.iter().map(move |(id, entry)| (family, id.as_str(), &**entry)))
    }
}

/// Whether a pattern matches an id. A pattern is an id, or a prefix such as `nv.driver.*`.
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

    #[test]
    fn tables_of_packages_have_a_row_for_every_package_manager() {
        // An empty row says that the distribution has none.
        let families: [(&str, &[&str]); 5] =
            [("apt", &["ubuntu", "debian"]), ("dnf", &[]), ("pacman", &[]), ("zypper", &[]), ("apk", &[])];
        let findings = Findings::embedded();
        let mut tables = 0;
        for (_, id, entry) in findings.iter().filter(|(family, ..)| family.subject == FindingSubject::Machine)
        {
            let cases =
                entry.cases.iter().filter_map(|(name, case)| Some((name.as_str(), case.commands.as_ref()?)));
            for (case, table) in std::iter::once(("", &entry.commands)).chain(cases) {
                let has = |key: &str| table.contains_key(key);
                let is_of_packages =
                    families.iter().any(|(family, parts)| has(family) || parts.iter().any(|part| has(part)));
                if !is_of_packages || has("any") || has("linux") {
                    continue;
                }
                tables += 1;
                for (family, parts) in families {
                    let complete = has(family) || (!parts.is_empty() && parts.iter().all(|part| has(part)));
                    assert!(
                        complete,
                        "{id} {case}: no row for {family}; write `{family} = []` if it has none"
                    );
                }
            }
        }
        assert!(tables > 30, "{tables}");
    }

    #[test]
    fn remedies_of_systems_belong_to_known_systems() {
        let findings = Findings::embedded();
        for (_, id, entry) in findings.iter() {
            let cases = entry.cases.values().filter_map(|case| case.systems.as_ref());
            for (system, remedy) in cases.chain([&entry.systems]).flatten() {
                assert!(crate::facts::systems::rows().iter().any(|row| row.id == *system), "{id}: {system}");
                assert!(!remedy.fix.is_empty() && remedy.fix != entry.title, "{id}: {system}");
            }
            assert_ne!(entry.fix, entry.title, "{id}: a title is not a remedy");
        }
    }
}
