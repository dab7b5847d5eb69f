//! What editors need of a tree in addition to the manifest: its sources with their compiler flags, its targets and its environment.
//! Each build records it, `gpubuild export` reads it.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{Environment, HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::artifacts::Compiler;
use gpubuild_plan::plan::PlannedTree;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{collect, custom};
use crate::cmake::file_api::{CmakeTarget, Compile, FileApiReply, IncludeFolder};
use crate::cmake::{self, fragments, inject};
use crate::store;
use crate::store::variables::build_variables;

/// The record of one tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditorInfo {
    /// Variables that are set for CMake and the build tool.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The targets to build; all if empty.
    #[serde(default)]
    pub targets: Vec<String>,
    /// CMake's configuration.
    #[serde(default)]
    pub configuration: String,
    /// Path of the CMake that configured the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmake: Option<String>,
    /// Folders in which compilers search headers without options, by language.
    #[serde(default)]
    pub implicit: BTreeMap<String, Vec<String>>,
    /// The sources. `None` if they are unknown, because the tree was restored from an entry of the build store without them.
    #[serde(default)]
    pub groups: Option<Vec<SourceGroup>>,
}

/// Sources of a target that are compiled with the same flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceGroup {
    /// CMake target, or the first output of a custom command.
    pub target: String,
    /// `C`, `CXX`, `CUDA`, `HIP`, …
    pub language: String,
    /// Words of the compiler's command line.
    pub flags: Vec<String>,
    /// Include folders in search order.
    pub includes: Vec<IncludeFolder>,
    /// Preprocessor definitions: `NAME` or `NAME=value`.
    pub defines: Vec<String>,
    /// The language standard that the project requires: `17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard: Option<String>,
    /// The root folder of the target system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sysroot: Option<String>,
    /// Absolute paths.
    pub sources: Vec<String>,
    /// The compiler of a custom command, instead of CMake's for the language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler: Option<Compiler>,
    /// The working folder of a custom command, instead of the build folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

impl EditorInfo {
    /// The record of a configured tree.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, tree: &PlannedTree, reply: &FileApiReply) -> Self {
        let own = |target: &&CmakeTarget| target.name != inject::PROBE;
        let groups = reply.targets.iter().filter(own).flat_map(|target| {
            target.compile.iter().map(move |group| SourceGroup::of(tree, &target.name, group))
        });
        let custom = host.read_text(&tree.build.join("build.ninja"));
        let custom = custom.map(|text| custom::groups(&text, &tree.build)).unwrap_or_default();
        let implicit = reply
            .compilers
            .iter()
            .map(|(language, toolchain)| (language.clone(), toolchain.implicit_includes.clone()));
        Self {
            targets: collect::targets_to_build(tree, reply),
            cmake: reply.cache.get("CMAKE_COMMAND").cloned(),
            implicit: implicit.collect(),
            groups: Some(groups.chain(custom).collect()),
            ..Self::of_plan(tree)
        }
    }

    /// The record of a tree that was restored from the build store, with the stored part.
    #[must_use]
    pub fn restored(tree: &PlannedTree, stored: Value) -> Self {
        let stored: Self = serde_json::from_value(stored).unwrap_or_default();
        Self {
            targets: stored.targets,
            implicit: stored.implicit,
            groups: stored.groups,
            ..Self::of_plan(tree)
        }
    }

    fn of_plan(tree: &PlannedTree) -> Self {
        Self {
            env: tree.env.clone(),
            configuration: cmake::configuration(tree).to_owned(),
            ..Self::default()
        }
    }

    /// The part that the build store keeps: neither what the plan says, nor flags from environment variables.
    #[must_use]
    pub fn to_store(&self, env: &Environment) -> Self {
        let words = build_variables(env).into_iter().flat_map(|(_, value)| value.split_whitespace());
        let theirs: BTreeSet<&str> = words.collect_set();
        let mut groups = self.groups.clone();
        for group in groups.iter_mut().flatten() {
            group.flags.retain(|flag| !theirs.contains(flag.as_str()));
        }
        let (targets, implicit) = (self.targets.clone(), self.implicit.clone());
        Self { targets, implicit, groups, ..Self::default() }
    }

    /// Writes the record into the tree.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, host: &dyn WriteFiles, tree: &PlannedTree) -> std::io::Result<()> {
        store::write_json(host, &path(&tree.build), self)
    }

    /// Reads the record of the tree in a build folder; `None` if it is missing or damaged.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, build: &HostPath) -> Option<Self> {
        store::read_json(host, &path(build))
    }
}

impl SourceGroup {
    fn of(tree: &PlannedTree, target: &str, group: &Compile) -> Self {
        let words = |text: &String| fragments::split(text, tree.build.rules());
        let absolute = |path: &String| tree.source.join(path).normalized().to_string();
        Self {
            target: target.to_owned(),
            language: group.language.clone(),
            flags: group.flags.iter().flat_map(words).collect(),
            includes: group.includes.clone(),
            defines: group.defines.clone(),
            standard: group.standard.clone(),
            sysroot: group.sysroot.clone(),
            sources: group.sources.iter().map(absolute).collect(),
            ..Self::default()
        }
    }
}

fn path(build: &HostPath) -> HostPath {
    cmake::own_folder_in(build).join("editor.json")
}
