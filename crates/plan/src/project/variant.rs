//! `[[variants]]` of gpubuild.toml: what is built for whom. CI makes jobs of them, `gpubuild build --variant` builds one.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::VersionRequirement;
use serde::Deserialize;

use crate::project::{Archs, BackendWord, Project, ProjectFile};

/// The longest name: that of a label of a wheel's variant.
pub const MOST_CHARACTERS: usize = 16;

/// `[[variants]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantTable {
    /// Letters, digits, `_` and `.`, all lower case, 16 at most: the label of a wheel's variant.
    pub name: String,
    /// Its backends.
    pub backends: Vec<Backend>,
    /// Whether it is for every device of its backends; without it that follows from the architectures.
    pub portable: Option<bool>,
    /// What it is built on, by the ids of `gpubuild ci images`; the default machines without it.
    #[serde(default)]
    pub images: Vec<String>,
    /// Architectures by backend, in place of those of `[backends.ID]`.
    #[serde(default)]
    pub archs: BTreeMap<Backend, Archs>,
    /// Versions of toolkits by backend: a job for each.
    #[serde(default)]
    pub toolkits: BTreeMap<Backend, Vec<String>>,
}

/// `[ci]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CiTable {
    /// The command that puts gpubuild on a machine with Rust; `cargo install` of this version without it.
    pub install: Option<String>,
    /// How gpubuild is called; `gpubuild` without it.
    pub command: Option<String>,
}

impl VariantTable {
    /// What tells it from the others, its versions of toolkits included where there are several: `cpu`, `cuda12.4`.
    #[must_use]
    pub fn label(&self, versions: &BTreeMap<Backend, String>) -> String {
        let several = |backend: &Backend| self.toolkits.get(backend).is_some_and(|list| list.len() > 1);
        let mut label = self.name.clone();
        for (backend, version) in versions.iter().filter(|(backend, _)| several(backend)) {
            // A variant that is called after its backend does not say it twice.
            if !label.ends_with(backend.id()) {
                label.push('-');
                label += backend.id();
            }
            label.extend(version.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.'));
        }
        label
    }
}

/// What is wrong with the variants of a file, if anything: `(key, text)`.
#[must_use]
pub fn problem(variants: &[VariantTable]) -> Option<String> {
    for (index, variant) in variants.iter().enumerate() {
        let name = &variant.name;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
        if name.is_empty() || name.len() > MOST_CHARACTERS || !name.chars().all(plain) {
            return Some(format!(
                "`variants.name` is `{name}`: use up to {MOST_CHARACTERS} of a to z, digits, `_` and `.`"
            ));
        }
        if variants[..index].iter().any(|other| other.name == *name) {
            return Some(format!("two variants are called `{name}`"));
        }
        if variant.backends.is_empty() {
            return Some(format!("variant `{name}` names no backend"));
        }
        let keys = variant.archs.keys().chain(variant.toolkits.keys());
        if let Some(backend) = keys.into_iter().find(|backend| !variant.backends.contains(backend)) {
            return Some(format!(
                "variant `{name}` says something about `{backend}`, which it does not build"
            ));
        }
        for (backend, versions) in &variant.toolkits {
            if let Some(bad) = versions.iter().find(|text| text.parse::<VersionRequirement>().is_err()) {
                return Some(format!(
                    "variant `{name}` asks for `{bad}` of the toolkit of {backend}, which is no version"
                ));
            }
        }
    }
    None
}

/// The variants of a project: those of its file, or one for each backend that its profile builds. A profile that knows no
/// backend builds for the processor, and for what `[backends.ID]` of the file says how to switch on.
#[must_use]
pub fn variants(project: &Project) -> Vec<VariantTable> {
    if !project.file.variants.is_empty() {
        return project.file.variants.clone();
    }
    let (profile, always) = (&project.profile, &project.profile.always);
    let mut built: BTreeSet<Backend> = profile.backends.keys().copied().collect();
    if built.is_empty() {
        built.insert(Backend::Cpu);
        built.extend(project.file.backends.keys());
    }
    built.retain(|backend| !project.without_kernels.contains(backend));
    let of = |backend: &Backend| {
        let mut backends: Vec<Backend> = always.iter().copied().chain([*backend]).collect();
        backends.sort();
        backends.dedup();
        VariantTable { name: backend.id().to_owned(), backends, ..VariantTable::default() }
    };
    built.iter().map(of).collect()
}

/// Makes a project file that of one variant: its backends, architectures and toolkits are what is asked for.
pub fn apply(file: &mut ProjectFile, variant: &VariantTable) {
    let ids = variant.backends.iter().map(|backend| backend.id().to_owned()).collect();
    file.project.backends = Some(BackendWord::List(ids));
    for (backend, archs) in &variant.archs {
        file.backends.entry(*backend).or_default().archs = Some(archs.clone());
    }
    for (backend, versions) in &variant.toolkits {
        // Of several, one is chosen by `--toolkit`; without it any of them would do, so the first one does.
        if let Some(version) = versions.first() {
            require(file, *backend, version);
        }
    }
}

/// Makes a project file ask for one version of a toolkit.
pub fn require(file: &mut ProjectFile, backend: Backend, version: &str) {
    let table = file.backends.entry(backend).or_default();
    table.toolkit = Some(version.to_owned());
    table.toolkits = Vec::new();
}
