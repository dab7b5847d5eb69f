//! The store from the side of a build: what is taken from it in place of building, what is put into it afterwards, and what
//! of an earlier build in the same folder cannot be relied on.

mod explain;
mod publish;
mod settle;
mod take;
mod targets;
mod tell;

use std::collections::BTreeSet;
use std::time::Duration;

use gpubuild_host::{Command, FileLock, HostPath};
use gpubuild_plan::artifacts::BuiltTree;
use gpubuild_plan::plan::PlannedTree;
use serde::{Deserialize, Serialize};

use super::BuildJob;
use super::error::BuildError;
use super::objects::CompiledObject;
use super::stamp::BuildStamp;
use crate::cmake;
use crate::event::BuildEvent;
use crate::store::contents::{self, Contents};
use crate::store::files::{self, FileSnapshot};
use crate::store::key::KeyParts;
use crate::store::places::Places;
use crate::store::settings::Store;
use crate::store::surroundings::RelocatedFolders;
use crate::store::tree_key;
pub use explain::explain;

/// Kind of the entries that hold whole trees.
const TREES: &str = "trees";

/// What lies in a build folder because it was taken from a store. Ninja knows nothing of it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct TakenTree {
    files: Vec<String>,
}

/// A tree between the look at its sources and its stamp.
pub(super) struct Reuse<'a> {
    job: &'a BuildJob<'a>,
    tree: &'a PlannedTree,
    places: Places,
    /// All files below the source folder before the build.
    sources: FileSnapshot,
    contents: Contents,
    before: Option<Contents>,
    elsewhere: RelocatedFolders<'a>,
    /// Everything that the key is made of, where a store is used and the key can be told.
    parts: Option<KeyParts>,
    /// Whether something may be put into the store.
    writable: bool,
    /// Whether objects may be taken: nothing in the folder was compiled yet, or what was left out before is in again.
    fresh: bool,
    /// Targets whose objects were taken.
    taken: Vec<CompiledObject>,
    /// Targets that are compiled here, with the parts of their keys.
    left: Vec<(CompiledObject, KeyParts)>,
    /// Everything that Ninja makes.
    outputs: BTreeSet<String>,
    /// What the objects that were taken were made of.
    also_read: BTreeSet<String>,
    /// Whether one of them is made for this processor.
    native: bool,
}

/// What came of looking into the store.
pub(super) enum ReuseResult {
    /// The result, in its place, and the files that it was made of.
    Hit(Box<BuiltTree>, Vec<String>),
    /// Nothing that serves. The lock is held until the result is stored.
    Miss(Option<FileLock>),
}

impl<'a> Reuse<'a> {
    /// Hashes the sources and makes the key.
    pub(super) fn begin(
        job: &'a BuildJob<'a>,
        tree: &'a PlannedTree,
        sources: FileSnapshot,
        tools: &[(&str, Option<&HostPath>)],
    ) -> Self {
        let host = job.host;
        let places = Places::of(host, tree);
        let before = Contents::read(host, &contents_path(tree));
        let mut contents = match (&before, &job.store) {
            (None, Some(store)) => contents::noted(host, store, &tree.source, &sources),
            _ => Contents::of(host, &sources, before.as_ref()),
        };
        // What an earlier build left was made of what was noted then, or there is nothing yet.
        contents.trusted =
            !host.exists(&ninja_log(tree)) || before.as_ref().is_some_and(|before| before.trusted);
        let note =
            job.store.as_ref().filter(|store| store.is_writable()).map(|store| store.root.join("known.json"));
        let mut elsewhere = RelocatedFolders::new(host, note);
        // Without Ninja it is not known which headers were read.
        let told = job.store.is_some()
            && tree.generator.starts_with("Ninja")
            && contents.files.len() == sources.len();
        let parts =
            told.then(|| tree_key::parts(host, tree, &contents, &places, tools, &mut elsewhere)).flatten();
        let writable = job.store.as_ref().is_some_and(Store::is_writable);
        Self {
            job,
            tree,
            places,
            sources,
            contents,
            before,
            elsewhere,
            parts,
            writable,
            fresh: false,
            taken: Vec::new(),
            left: Vec::new(),
            outputs: BTreeSet::new(),
            also_read: BTreeSet::new(),
            native: false,
        }
    }

    /// The key of what the sources hold.
    pub(super) fn key(&self) -> Option<String> {
        self.parts.as_ref().map(KeyParts::key)
    }

    /// Whether a stamp is of the same content, though files look different: touched, copied, checked out again.
    pub(super) fn is_same(&self, stamp: &BuildStamp, key: &str) -> bool {
        stamp.key == key
            && stamp.content.is_some()
            && stamp.content == self.key()
            && stamp.rest_holds(self.job.host)
    }

    /// Asks Ninja about the build folder.
    fn ask(&self, ninja: Option<&HostPath>, what: &[&str]) -> Option<String> {
        let command = Command::new(ninja?.as_str(), Duration::from_secs(120));
        let command = command.args(["-C", self.tree.build.as_str(), "-t"]).args(what.iter().copied());
        let output = self.job.host.run(&command).ok().filter(gpubuild_host::CommandOutput::success)?;
        Some(output.stdout)
    }

    /// Compares the sources with what they were before the build, and tells of those that changed meanwhile. The next build
    /// then knows that what was made of them is not to be relied on.
    pub(super) fn note_changes(&mut self) -> Result<Vec<String>, BuildError> {
        let host = self.job.host;
        let after = files::walk(host, &self.tree.source, &self.tree.build)
            .map_err(|(path, error)| BuildError::io("read the folder", &path, &error))?;
        if after == self.sources {
            return Ok(Vec::new());
        }
        let paths: BTreeSet<&String> = after.keys().chain(self.sources.keys()).collect();
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

/// What the last key of a tree was made of.
#[must_use]
pub fn parts_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("key.json")
}

fn contents_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("contents.json")
}

fn taken_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("taken.json")
}

/// The script that has CMake take objects.
fn reused_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("reused.cmake")
}

/// Where objects lie that were taken.
fn objects_path(tree: &PlannedTree) -> HostPath {
    cmake::own_folder(tree).join("objects")
}

fn ninja_log(tree: &PlannedTree) -> HostPath {
    tree.build.join(".ninja_log")
}
