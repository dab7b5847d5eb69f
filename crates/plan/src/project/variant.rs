//! `[[variants]]` and `[ci]` of gpubuild.toml. CI builds a job for each variant, and `gpubuild build --variant` builds one.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::clean::is_hidden;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::VersionRequirement;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::project::{Archs, BackendList, Project, ProjectFile};

/// Maximum length of a variant's name, as for the variant label of a wheel.
pub const MAX_NAME_LENGTH: usize = 16;

/// Maximum length of an image's name.
pub const MAX_IMAGE_LENGTH: usize = 40;

/// `[[variants]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VariantTable {
    /// Name of the variant: up to 16 lowercase letters, digits, `_` and `.`.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^[a-z0-9_.]{1,16}$")))]
    pub name: String,
    /// Backends to build.
    pub backends: Vec<Backend>,
    /// Whether it supports every device of its backends; by default, if no architectures are set.
    pub portable: Option<bool>,
    /// CI images to build on, from `gpubuild ci images`; by default the images that it marks as default.
    #[serde(default)]
    pub images: Vec<String>,
    /// CI images that test the packed variant without compiling it: machines with a GPU, from `[ci.images]` or `gpubuild ci images`.
    #[serde(default)]
    pub test_images: Vec<String>,
    /// GPU architectures by backend, which replace those of `[backends.ID]`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::file::by_backend::<Archs>"))]
    pub archs: BTreeMap<Backend, Archs>,
    /// Toolkit versions by backend. CI runs a job for each; other builds use the first.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::file::by_backend::<Vec<String>>"))]
    pub toolkits: BTreeMap<Backend, Vec<String>>,
}

/// `[ci]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CiTable {
    /// Command that installs gpubuild on a machine with Rust; by default `cargo install` of this version.
    #[serde(default, deserialize_with = "commands")]
    pub install: Option<String>,
    /// Command that runs gpubuild.
    #[serde(default, deserialize_with = "command")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "gpubuild")))]
    pub command: Option<String>,
    /// Globs of files that no job reads, relative to gpubuild.toml, for `ci matrix --changed-since`: `docs/**`.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Globs of files that only jobs with a backend read, by backend: `cuda = ["src/cuda/**"]`.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::file::by_backend::<Vec<String>>"))]
    pub inputs: BTreeMap<Backend, Vec<String>>,
    /// Images of the project by name, for `images` of variants: its own machines and containers.
    #[serde(default)]
    pub images: BTreeMap<String, ImageTable>,
}

/// Lines of a shell script for a workflow file, which is text that people review.
fn commands<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.chars().find(|c| is_hidden(*c) && *c != '\n') {
        Some(hidden) => Err(D::Error::custom(format!(
            "a command cannot contain the character {}",
            hidden.escape_unicode()
        ))),
        None => Ok(Some(text)),
    }
}

/// As [`commands`], for one line.
fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = commands(deserializer)?;
    if text.as_ref().is_some_and(|text| text.contains('\n')) {
        return Err(D::Error::custom("a command that runs gpubuild must be one line"));
    }
    Ok(text)
}

/// `[ci.images.NAME]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ImageTable {
    /// A recording of the machine or container, written by `gpubuild host record FILE`, relative to gpubuild.toml.
    pub host: String,
    /// Labels of the GitHub runner or tags of the GitLab runner that takes the jobs.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Container in which the jobs run.
    pub container: Option<String>,
    /// Options of `sbatch` for its jobs in Slurm; jobs that test on a GPU have `--gres=gpu:1` without this.
    pub sbatch: Option<Vec<String>>,
    /// What its jobs in Kubernetes request.
    #[serde(default)]
    pub kubernetes: ImagePodTable,
}

/// `[ci.images.NAME.kubernetes]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ImagePodTable {
    /// Resources and quantities: `"nvidia.com/gpu" = "1"`, `memory = "32Gi"`. Jobs that test on an NVIDIA or AMD GPU request one without this.
    pub limits: Option<BTreeMap<String, String>>,
    /// Labels of the nodes that run the jobs.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
}

impl VariantTable {
    /// A unique label: the name, with the toolkit versions of backends that have several: `cpu`, `cuda12.4`.
    #[must_use]
    pub fn label(&self, versions: &BTreeMap<Backend, String>) -> String {
        let several = |backend: &Backend| self.toolkits.get(backend).is_some_and(|list| list.len() > 1);
        let mut label = self.name.clone();
        for (backend, version) in versions.iter().filter(|(backend, _)| several(backend)) {
            // Do not repeat the backend if the variant is named after it.
            if !label.ends_with(backend.id()) {
                label.push('-');
                label += backend.id();
            }
            label.extend(version.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.'));
        }
        label
    }
}

/// The first problem of the variants of a project file.
#[must_use]
pub fn problem(variants: &[VariantTable]) -> Option<String> {
    let mut names = BTreeSet::new();
    for variant in variants {
        let name = &variant.name;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.chars().all(plain) {
            return Some(format!(
                "`variants.name` is `{name}`: use up to {MAX_NAME_LENGTH} of a to z, digits, `_` and `.`"
            ));
        }
        if !names.insert(name) {
            return Some(format!("two variants have the name `{name}`"));
        }
        if variant.backends.is_empty() {
            return Some(format!("variant `{name}` has no backends"));
        }
        let keys = variant.archs.keys().chain(variant.toolkits.keys());
        if let Some(backend) = keys.into_iter().find(|backend| !variant.backends.contains(backend)) {
            return Some(format!(
                "variant `{name}` has settings for `{backend}`, which is not one of its backends"
            ));
        }
        for (backend, versions) in &variant.toolkits {
            if let Some(bad) = versions.iter().find(|text| text.parse::<VersionRequirement>().is_err()) {
                return Some(format!(
                    "variant `{name}` requires {backend} toolkit `{bad}`, which is not a version"
                ));
            }
        }
    }
    None
}

/// The first problem of the images of a project file.
#[must_use]
pub fn image_problem(images: &BTreeMap<String, ImageTable>) -> Option<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
    let name = images.keys().find(|name| {
        !name.starts_with(|c: char| c.is_ascii_alphanumeric())
            || name.len() > MAX_IMAGE_LENGTH
            || !name.chars().all(plain)
    });
    if let Some(name) = name {
        return Some(format!(
            "an image in `[ci.images]` is named `{name}`: use up to {MAX_IMAGE_LENGTH} of a to z, digits, `_`, `.` and `-`, and begin \
             with a letter or digit"
        ));
    }
    let label = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"'\"$\\`{},".contains(c))
    };
    for (name, image) in images {
        let values = image.labels.iter().chain(&image.container);
        if let Some(bad) = values.into_iter().find(|text| !label(text)) {
            return Some(format!(
                "`{bad}` in `[ci.images.{name}]` is not a label or a container: use letters, digits and punctuation without quotes"
            ));
        }
        if let Some(problem) = scheduler_problem(image) {
            return Some(format!("{problem} in `[ci.images.{name}]`"));
        }
    }
    None
}

/// The first value of an image that a scheduler would not accept.
fn scheduler_problem(image: &ImageTable) -> Option<String> {
    let option =
        |text: &&String| !text.starts_with("--") || text.len() == 2 || text.contains(char::is_control);
    if let Some(bad) = image.sbatch.iter().flatten().find(option) {
        return Some(format!("`{bad}` is not an option of sbatch: write it as `--gres=gpu:1`"));
    }
    let plain = |text: &str, more: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= 253
            && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let ImagePodTable { limits, node_selector } = &image.kubernetes;
    let limits = limits.iter().flatten().map(|(name, value)| (name, value, plain(value, ".")));
    let labels =
        node_selector.iter().map(|(name, value)| (name, value, value.is_empty() || plain(value, "-_.")));
    let (name, value, _) = limits.chain(labels).find(|(name, _, good)| !good || !plain(name, "-_./"))?;
    Some(format!("`{name} = {value}` is neither a resource nor a label of Kubernetes"))
}

/// The variants of a project: those of its file, or by default one per backend of its profile. If the profile has no
/// backends, the defaults are `cpu` and the backends under `[backends.ID]`.
#[must_use]
pub fn variants(project: &Project) -> Vec<VariantTable> {
    if !project.file.variants.is_empty() {
        return project.file.variants.clone();
    }
    let (profile, always) = (&project.profile, &project.profile.always);
    let mut built: BTreeSet<Backend> = profile.backends.keys().copied().collect_set();
    if built.is_empty() {
        built.insert(Backend::Cpu);
        built.extend(project.file.backends.keys());
    }
    built.retain(|backend| !project.without_kernels.contains(backend));
    let of = |backend: &Backend| {
        let mut backends: Vec<Backend> = always.iter().copied().chain([*backend]).collect();
        backends.sort_indirect();
        backends.dedup();
        VariantTable { name: backend.id().to_owned(), backends, ..VariantTable::default() }
    };
    built.iter().map(of).collect()
}

/// Replaces the backends, architectures and toolkits of a project file by those of a variant.
pub fn apply(file: &mut ProjectFile, variant: &VariantTable) {
    let ids = variant.backends.iter().map(|backend| backend.id().to_owned()).collect();
    file.project.backends = Some(BackendList::List(ids));
    for (backend, archs) in &variant.archs {
        file.backends.entry(*backend).or_default().archs = Some(archs.clone());
    }
    for (backend, versions) in &variant.toolkits {
        // `--toolkit` selects one of several versions; the first one is the default.
        if let Some(version) = versions.first() {
            require(file, *backend, version);
        }
    }
}

/// Sets the version requirement on a backend's toolkit.
pub fn require(file: &mut ProjectFile, backend: Backend, version: &str) {
    let table = file.backends.entry(backend).or_default();
    table.toolkit = Some(version.to_owned());
    table.toolkits = Vec::new();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the characters of the first plane, a command may have those that are visible.
    #[test]
    fn commands_with_hidden_characters_are_refused() {
        let read = |key: &str, value: &str| {
            gpubuild_toml::from_str::<CiTable>(&format!("{key} = {}", serde_json::Value::from(value)))
        };
        for c in (0..=0xffff)
            .filter_map(char::from_u32)
            .filter(|c| is_hidden(*c) && !('\u{80}'..'\u{a0}').contains(c))
        {
            // JSON and TOML differ in how they escape a few characters.
            if matches!(c, '\u{8}' | '\u{c}' | '\u{7f}') {
                continue;
            }
            assert_eq!(read("install", &format!("a{c}b")).is_ok(), c == '\n', "{c:?}");
            assert!(read("command", &format!("a{c}b")).is_err(), "{c:?}");
        }
        assert_eq!(read("command", "π: # '\"").unwrap().command.as_deref(), Some("π: # '\""));
    }

    /// A comparison of each name with all others would take minutes.
    #[test]
    fn names_of_many_variants_are_checked_in_linear_time() {
        let variant = |index: usize| VariantTable {
            name: format!("v{index}"),
            backends: vec![Backend::Cpu],
            ..VariantTable::default()
        };
        let mut variants: Vec<VariantTable> = (0..200_000).map(variant).collect();
        assert_eq!(problem(&variants), None);
        variants.push(variant(7));
        assert_eq!(problem(&variants).unwrap(), "two variants have the name `v7`");
    }
}
