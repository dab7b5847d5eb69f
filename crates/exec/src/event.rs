//! What happens during a build, as values. Renderers make lines, bars and JSON of them.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::Finding;
use gpubuild_plan::artifacts::DeviceCode;
use serde::Serialize;

use crate::store::key::KeyDifference;

/// An error with its place, as far as the tool told it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FirstError {
    /// The file as the tool wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// The build step that failed, where the build tool named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Something that happened. As JSON: `{"reason": "configured", …}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BuildEvent {
    /// Another build of this project runs, and this one waits for it.
    Waiting {
        /// The lock file.
        lock: String,
    },
    /// Another build makes the same result, and this one waits for it.
    WaitingForStore {
        /// Tree.
        tree: String,
        /// The lock file.
        lock: String,
    },
    /// The result of a tree came from the store.
    Taken {
        /// Tree.
        tree: String,
        /// Key.
        key: String,
        /// Folder of the entry.
        entry: String,
    },
    /// The objects of some targets of a tree came from the store, and these are not compiled.
    ObjectsTaken {
        /// Tree.
        tree: String,
        /// The targets.
        targets: Vec<String>,
        /// How many objects.
        objects: usize,
        /// How many are left to compile.
        left: usize,
    },
    /// The store has no result for a tree.
    NotStored {
        /// Tree.
        tree: String,
        /// Key.
        key: String,
        /// Why.
        why: String,
        /// What it is compared with, if there is anything.
        #[serde(skip_serializing_if = "String::is_empty")]
        since: String,
        /// The parts of the key that differ from it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        different: Vec<KeyDifference>,
    },
    /// A result was put into the store.
    Stored {
        /// Tree.
        tree: String,
        /// Key.
        key: String,
        /// Bytes of its files.
        bytes: u64,
    },
    /// The store is not used as it should be; the build goes on without.
    StoreUnused {
        /// Tree.
        tree: String,
        /// Why.
        why: String,
    },
    /// Sources changed while they were compiled: the result is not stored, and the next build looks at them again.
    SourcesChanged {
        /// Tree.
        tree: String,
        /// The files.
        files: Vec<String>,
    },
    /// Something that the user should know.
    Note {
        /// One line.
        text: String,
    },
    /// A tool is fetched because the machine has none.
    Fetching {
        /// `cmake`, `ninja`.
        tool: String,
        /// The version that is pinned.
        version: String,
        /// Where it goes.
        into: String,
    },
    /// Another installation of this toolkit runs, and this one waits for it.
    WaitingForInstall {
        /// `cuda 13.0`.
        what: String,
        /// The lock file.
        lock: String,
    },
    /// A toolkit is going to be installed.
    Provisioning {
        /// Its id.
        toolkit: String,
        /// The whole version.
        version: String,
        /// Where it goes.
        into: String,
        /// Bytes to download.
        download: u64,
        /// Bytes of disk, about.
        disk: u64,
        /// Bytes that are free there, where known.
        #[serde(skip_serializing_if = "Option::is_none")]
        free: Option<u64>,
    },
    /// Wheels are about to be installed; with an empty `what`, all are there.
    Installing {
        /// Their names, separated by commas.
        what: String,
        /// Bytes of the wheels that are there.
        done: u64,
        /// Bytes of all of them.
        total: u64,
    },
    /// A tree is being configured.
    Configuring {
        /// Tree.
        tree: String,
        /// Its backends.
        backends: Vec<Backend>,
        /// Its folder.
        build: String,
    },
    /// A tree is configured.
    Configured {
        /// Tree.
        tree: String,
        /// How long it took.
        seconds: f64,
    },
    /// The build tool of a tree is being started.
    Compiling {
        /// Tree.
        tree: String,
        /// Its folder.
        build: String,
        /// Compilers at once.
        jobs: u32,
    },
    /// The build tool of a tree has ended.
    Compiled {
        /// Tree.
        tree: String,
        /// Whether it built everything.
        success: bool,
    },
    /// A launcher is left out for one language because it does not go with its compiler.
    LauncherDropped {
        /// Tree.
        tree: String,
        /// `CUDA`.
        language: String,
        /// The launcher.
        launcher: String,
        /// Why.
        why: String,
    },
    /// What a compiler cache has saved in a tree.
    Cached {
        /// Tree.
        tree: String,
        /// `ccache`, `sccache`.
        launcher: String,
        /// Calls answered from the cache.
        hits: u64,
        /// Calls that were compiled and are in the cache now.
        misses: u64,
        /// Calls that cannot be cached.
        other: u64,
        /// The launcher's log of each call.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        /// What is strange about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A compiler was killed, and the rest of a tree is built with fewer at once.
    Narrowed {
        /// Tree.
        tree: String,
        /// Compilers at once until now.
        before: u32,
        /// Compilers at once from now on.
        jobs: u32,
        /// The line that says so.
        why: String,
    },
    /// A step of a tree began.
    Progress {
        /// Tree.
        tree: String,
        /// Steps done.
        done: u32,
        /// Steps in all.
        total: u32,
        /// The step.
        what: String,
    },
    /// A tool printed a line that is no step.
    Line {
        /// Tree, or `cargo`.
        tree: String,
        /// The line.
        text: String,
    },
    /// A tree failed.
    Failed {
        /// Tree.
        tree: String,
        /// The first real error.
        error: FirstError,
        /// The causes that the output shows, the root cause first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Finding>,
        /// The whole log.
        log: String,
    },
    /// A tree is done.
    Finished {
        /// Tree.
        tree: String,
        /// Whether anything had to be done.
        state: TreeState,
        /// How long it took.
        seconds: f64,
    },
    /// A backend is left out because it failed and nobody asked for it by name.
    Dropped {
        /// Which.
        backend: Backend,
        /// Why.
        why: String,
    },
    /// The program is being built.
    Linking {
        /// Folder of the cargo package.
        package: String,
    },
    /// Everything is done.
    Done {
        /// The backends that were built.
        backends: Vec<Backend>,
        /// The manifest.
        manifest: String,
        /// The program, if the project has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        binary: Option<String>,
        /// Code for GPUs by library, where there is any.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        device_code: BTreeMap<String, Vec<DeviceCode>>,
        /// Whether anything had to be done.
        state: TreeState,
        /// How long it took.
        seconds: f64,
    },
}

/// Whether anything had to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeState {
    /// Nothing changed since the last time, and nothing was started.
    Unchanged,
    /// Everything came from the store.
    Taken,
    /// Something was built.
    Built,
}

/// Receives events, from several threads.
pub type Sink<'a> = &'a (dyn Fn(&BuildEvent) + Sync);
