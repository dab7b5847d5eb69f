//! What every finding means: the files in `findings/`, one per family. `gpubuild explain ID` and `docs/findings.md`
//! are made from them, and the doctor takes its words from there.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_findings::FINDINGS;
use serde::Deserialize;

use super::Affects;

/// All findings that are known.
#[derive(Debug, Clone)]
pub struct Findings {
    families: Vec<Family>,
}

/// Findings that belong together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Name of the file: `nvidia`.
    pub family: String,
    /// Heading for people.
    pub title: String,
    /// What is observed: `machine`, `binary`, `log`, `file`.
    pub subject: Subject,
    /// Place among causes: of two errors the one of the smaller rank is told first.
    #[serde(default = "middle")]
    pub rank: u32,
    /// By id.
    #[serde(default)]
    pub findings: BTreeMap<String, Entry>,
}

fn middle() -> u32 {
    50
}

/// What the findings of a family are found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A machine: `gpubuild doctor`.
    Machine,
    /// An executable or library: `doctor --binary`.
    Binary,
    /// The output of a build: `doctor --log`.
    Log,
    /// A Dockerfile, a compose file, a workflow: `doctor --file`.
    File,
    /// A project and what is planned for it: `gpubuild plan`, `build`.
    Plan,
    /// What a build produced: `gpubuild audit`.
    Audit,
}

/// How much a finding matters where its backend does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It blocks: an error.
    #[default]
    Fault,
    /// It blocks because nothing of it was ever installed: an error only where that was asked for, or where a GPU is left
    /// without any backend.
    Absence,
    /// It works now and will bite: a warning.
    Caution,
    /// Worth knowing.
    Note,
}

/// One finding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// One line, for lists.
    pub title: String,
    /// How much it matters.
    #[serde(default)]
    pub kind: Kind,
    /// Whose it is, if it is one backend's.
    pub backend: Option<Backend>,
    /// Which questions it answers with "no".
    #[serde(default)]
    pub affects: Vec<Affects>,
    /// Place among causes; the family's if left out.
    pub rank: Option<u32>,
    /// One line for the case at hand, with `{placeholders}`. A reason of a verdict brings its own line from
    /// `toolkits/*.toml`.
    pub summary: Option<String>,
    /// What it means, in a few sentences.
    pub meaning: String,
    /// How it is recognised: which files, variables and answers.
    pub recognised: String,
    /// What to do, in one sentence with `{placeholders}`.
    pub fix: String,
    /// Commands by kind of container (`docker podman kubernetes lxc singularity`, then `container`), `wsl`, distribution
    /// (`ubuntu`), package manager (`apt dnf pacman zypper apk brew winget`), system (`linux windows macos`) or `any`; the
    /// first that fits counts. A command with a placeholder that has no value is left out. One that ends in
    /// `# on the host` or `# in Windows` is meant for the machine around this one and keeps its `sudo`.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// `relogin`, `reboot`. `sudo`, `host` (to be done outside of the container) and `windows` show in the commands.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A command that shows that it worked.
    pub verify: Option<String>,
    /// Whether the commands stay inside the user's own folders.
    #[serde(default)]
    pub safe: bool,
    /// Ids of causes under which it is folded when they are found as well; `nv.driver.*` names a group.
    #[serde(default)]
    pub follows: Vec<String>,
    /// It says only that something does not work: any other finding on the same backend is nearer to the cause.
    #[serde(default)]
    pub symptom: bool,
    /// Other words for some of its cases, by the name that a check gives them: a driver that is not installed and one that
    /// is only not loaded are one finding with two fixes.
    #[serde(default)]
    pub cases: BTreeMap<String, Variant>,
    /// Documentation and threads.
    #[serde(default)]
    pub links: Vec<String>,
}

/// What replaces the words of an entry in one of its cases. What is left out stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Replaces the summary, that of a verdict as well.
    pub summary: Option<String>,
    /// Replaces the fix.
    pub fix: Option<String>,
    /// Replaces the whole table of commands.
    pub commands: Option<BTreeMap<String, Vec<String>>>,
    /// Replaces the needs.
    pub needs: Option<Vec<String>>,
    /// Replaces the verification.
    pub verify: Option<String>,
}

impl Entry {
    /// The words for a case.
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
    /// The embedded ones.
    ///
    /// # Panics
    /// If an embedded file is broken, which a test rules out.
    #[must_use]
    pub fn embedded() -> Self {
        let parse = |(name, bytes): &(&str, &[u8])| -> Family {
            gpubuild_toml::from_bytes(bytes).unwrap_or_else(|error| panic!("findings/{name}.toml: {error}"))
        };
        Self { families: FINDINGS.iter().map(parse).collect() }
    }

    /// The families in the order of the documentation.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// A finding and its family, by id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(&Family, &Entry)> {
        self.families.iter().find_map(|family| Some((family, family.findings.get(id)?)))
    }

    /// A finding by id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.find(id).map(|(_, entry)| entry)
    }

    /// Every id with its family, in the order of the documentation.
    pub fn iter(&self) -> impl Iterator<Item = (&Family, &str, &Entry)> {
        self.families
            .iter()
            .flat_map(|family| family.findings.iter().map(move |(id, entry)| (family, id.as_str(), entry)))
    }
}

/// Whether an id is meant by a pattern: the id itself, or `nv.driver.*` for all that begin so.
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
    fn every_id_is_in_one_family_and_every_cause_exists() {
        let findings = Findings::embedded();
        let mut seen = std::collections::BTreeSet::new();
        for (family, id, entry) in findings.iter() {
            assert!(seen.insert(id.to_owned()), "{id} is in two families");
            assert!(id.contains('.'), "{id}");
            assert!(!entry.title.ends_with('.') && !entry.title.is_empty(), "{id}: {}", entry.title);
            assert!(!entry.meaning.is_empty() && !entry.recognised.is_empty(), "{id}");
            for cause in &entry.follows {
                let known = findings.iter().any(|(_, other, _)| matches(cause, other));
                assert!(known, "{id} of {} follows `{cause}`, which is not known", family.family);
            }
            assert!(entry.follows.iter().all(|cause| cause != id), "{id} follows itself");
        }
    }
}
