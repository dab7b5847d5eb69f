//! Use of the build store during a build: restores stored results, saves new ones, and removes stale files of an earlier build.

mod changes;
mod explain;
mod publish;
mod remote;
mod report;
mod restore;
mod stale;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{Command, FileLock, HostPath, ReadFiles};
use gpubuild_plan::artifacts::BuiltTree;
use gpubuild_plan::plan::PlannedTree;
use serde::{Deserialize, Serialize};

use super::BuildJob;
use super::error::BuildError;
use super::objects::CompiledTarget;
use super::stamp::{AskedInputs, BuildStamp};
use crate::cmake;
use crate::cmake::file_api::FileApiReply;
use crate::event::BuildEvent;
use crate::store::contents::{self, Contents, FileTrait};
use crate::store::files::{self, FileSnapshot};
use crate::store::implicit_inputs::{self, ExternalHashes, SearchedFolders};
use crate::store::key::KeyParts;
use crate::store::roots::TreeRoots;
use crate::store::settings::Store;
use crate::store::tree_key;
pub use explain::explain;
pub use remote::pull;

/// Kind of the store entries that contain complete trees.
const TREES: &str = "trees";

/// Files in a build folder that were restored from the build store and are unknown to Ninja.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RestoredFiles {
    files: Vec<String>,
}

/// What the build folder contains before a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BuildStart {
    /// Nothing of an earlier build. Only such a result is saved: beside files of an earlier build, a change that no tool reports can
    /// remain unnoticed.
    Empty,
    /// No objects, or restored ones: objects may be restored.
    WithoutObjects,
    /// Objects of an earlier build.
    Incremental,
}

/// The state of the build store for one tree during its build.
pub(super) struct Reuse<'a> {
    job: &'a BuildJob<'a>,
    tree: &'a PlannedTree,
    roots: TreeRoots,
    /// All files below the source folder before the build.
    sources: FileSnapshot,
    contents: Contents,
    before: Option<Contents>,
    external: ExternalHashes<'a>,
    /// The parts of the key; `None` without a store, or if the key cannot be determined.
    parts: Option<KeyParts>,
    /// Whether results may be saved in the store.
    writable: bool,
    start: BuildStart,
    /// Targets whose objects were restored.
    restored: Vec<CompiledTarget>,
    /// Targets that are compiled, with the parts of their keys.
    to_compile: Vec<(CompiledTarget, KeyParts)>,
    /// All outputs of the build.
    outputs: BTreeSet<String>,
    /// Dependencies of the restored objects.
    also_read: BTreeSet<String>,
    /// Whether a restored object is specific to this processor.
    native: bool,
}

/// The result of a lookup in the build store.
pub(super) enum ReuseResult {
    /// The tree was restored. With the paths of the files that the stored build read.
    Hit(Box<BuiltTree>, Vec<String>),
    /// No entry can be used. The lock is held until the result is saved.
    Miss(Option<FileLock>),
}

impl<'a> Reuse<'a> {
    /// Hashes the sources and computes the key.
    pub(super) fn begin(
        job: &'a BuildJob<'a>,
        tree: &'a PlannedTree,
        sources: FileSnapshot,
        tools: &[(&str, Option<&HostPath>)],
    ) -> Self {
        let host = job.host;
        let roots = TreeRoots::of(host, tree);
        let before = Contents::read(host, &contents_path(tree));
        let mut contents = match (&before, &job.store) {
            (None, Some(store)) => contents::with_store(host, store, &tree.source, &sources),
            _ => Contents::of(host, &sources, before.as_ref()),
        };
        changes::carry_over(before.as_ref(), &mut contents);
        let note =
            job.store.as_ref().filter(|store| store.is_writable()).map(|store| store.root.join("known.json"));
        let mut external = ExternalHashes::new(host, note);
        // Without Ninja it is unknown which headers the compilers read.
        let has_key = job.store.is_some()
            && tree.generator.starts_with("Ninja")
            && contents.files.len() == sources.len();
        let parts =
            has_key.then(|| tree_key::parts(host, tree, &contents, &roots, tools, &mut external)).flatten();
        let writable = job.store.as_ref().is_some_and(Store::is_writable);
        Self {
            job,
            tree,
            roots,
            sources,
            contents,
            before,
            external,
            parts,
            writable,
            start: BuildStart::Incremental,
            restored: Vec::new(),
            to_compile: Vec::new(),
            outputs: BTreeSet::new(),
            also_read: BTreeSet::new(),
            native: false,
        }
    }

    /// The store key of the tree.
    pub(super) fn key(&self) -> Option<String> {
        self.parts.as_ref().map(KeyParts::key)
    }

    /// What CMake asks the system for.
    pub(super) fn asked(&self) -> AskedInputs {
        let host = self.job.host;
        let asks_git = self.contents.files.values().any(|file| file.has(FileTrait::AsksGit));
        AskedInputs {
            variables: self.contents.variables(host.env()),
            git: asks_git.then(|| implicit_inputs::git_state(host, &self.tree.source)).flatten(),
            searched: SearchedFolders::of(host, self.tree),
            ..AskedInputs::default()
        }
    }

    /// Adds what is known after a build.
    pub(super) fn complete(&self, asked: &mut AskedInputs, reply: &FileApiReply, read: &[String]) {
        let host = self.job.host;
        asked.variables.extend(self.outside_variables(reply));
        let values: Vec<&str> = reply.cache.values().map(String::as_str).collect();
        asked.programs = implicit_inputs::found_programs(host, &values);
        asked.beside = implicit_inputs::names_beside(host, &self.folders_beside(reply, read));
    }

    /// The folders of the project outside of the source folder from which the build read files, or in which it searched for headers.
    fn folders_beside(&self, reply: &FileApiReply, read: &[String]) -> BTreeSet<String> {
        let host = self.job.host;
        let Some(root) = project_folder(host, &self.tree.source) else { return BTreeSet::new() };
        let parents = read.iter().filter_map(|path| host.path(path).parent());
        let includes = reply.targets.iter().flat_map(|target| &target.includes).map(|path| host.path(path));
        let outer = self.tree.source.parent();
        let is_beside = |path: &HostPath| {
            path.is_inside(&root) && !path.is_inside(&self.tree.source) && !path.as_str().contains("/.")
        };
        parents.chain(includes).chain(outer).filter(is_beside).map(|path| path.to_string()).collect()
    }

    /// Hashes of the environment variables that scripts outside of the source folder name.
    pub(super) fn outside_variables(&self, reply: &FileApiReply) -> BTreeMap<String, String> {
        contents::outside_variables(self.job.host, reply.asking_scripts(), &self.sources)
    }

    /// Whether a stamp describes the same content although time stamps differ, as after `touch`, a copy or a new checkout.
    pub(super) fn is_same(&self, stamp: &BuildStamp, key: &str) -> bool {
        stamp.key == key
            && stamp.content.is_some()
            && stamp.content == self.key()
            && stamp.is_rest_up_to_date(self.job.host)
            && stamp.asked.finds_same_programs(self.job.host)
    }

    /// Runs `ninja -t` in the build folder and returns its output.
    fn ninja_tool(&self, ninja: Option<&HostPath>, what: &[&str]) -> Option<String> {
        let command = Command::new(ninja?.as_str(), Duration::from_secs(120));
        let command = command.args(["-C", self.tree.build.as_str(), "-t"]).args(what.iter().copied());
        let output = self.job.host.run(&command).ok().filter(gpubuild_host::CommandOutput::success)?;
        Some(output.stdout)
    }

    /// Reports sources that changed during the build, and clears their recorded hashes so that the next build does not trust
    /// the files that were built from them.
    pub(super) fn report_changed_sources(&mut self) -> Result<Vec<String>, BuildError> {
        let host = self.job.host;
        let after = files::walk(host, &self.tree.source, &self.tree.build)
            .map_err(|(path, error)| BuildError::io("read the folder", &path, &error))?;
        if after == self.sources {
            return Ok(Vec::new());
        }
        let paths: BTreeSet<&String> = after.keys().chain(self.sources.keys()).collect_set();
        let changed: Vec<String> =
            paths.into_iter().filter(|path| after.get(*path) != self.sources.get(*path)).cloned().collect();
        for path in &changed {
            if let Some(known) = self.contents.files.get_mut(path) {
                known.sha256.clear();
            }
        }
        let path = contents_path(self.tree);
        self.contents.write(host, &path).map_err(|error| BuildError::io("write", &path, &error))?;
        self.parts = None;
        (self.job.sink)(&BuildEvent::SourcesChanged { tree: self.tree.id.clone(), files: changed.clone() });
        Ok(changed)
    }
}

/// The folder of the project to which a source folder belongs. `None` if it is the source folder itself, or unknown.
fn project_folder(host: &dyn ReadFiles, source: &HostPath) -> Option<HostPath> {
    let is_project = |folder: &HostPath| {
        ["gpubuild.toml", "Cargo.toml"].iter().any(|name| host.is_file(&folder.join(name)))
    };
    let found = std::iter::successors(Some(source.clone()), HostPath::parent).find(is_project)?;
    (found != *source).then_some(found)
}

/// The file with the parts of a tree's last key.
#[must_use]
pub fn parts_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("key.json")
}

fn contents_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("contents.json")
}

fn restored_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("taken.json")
}

fn outside_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("outside.json")
}

/// The CMake script that replaces sources with restored objects.
fn reused_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("reused.cmake")
}

/// The folder of restored objects.
fn objects_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("objects")
}

fn ninja_log(tree: &PlannedTree) -> HostPath {
    tree.build.join(".ninja_log")
}
