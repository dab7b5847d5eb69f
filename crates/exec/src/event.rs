//! Build events as plain values, which renderers print as lines, progress bars or JSON.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::Finding;
use gpubuild_plan::artifacts::DeviceCode;
use serde::Serialize;

use crate::store::key::KeyDifference;

/// An error and its source location, as far as the tool reported one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstError {
    /// The file path as printed by the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The error message.
    pub message: String,
    /// The failed build step, if the build tool named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// A build event. As JSON: `{"reason": "configured", …}`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BuildEvent {
    /// This build waits for another build of the same project.
    Waiting {
        /// The lock file.
        lock: String,
    },
    /// This build waits for another build that produces the same result.
    WaitingForStore {
        /// Id of the tree.
        tree: String,
        /// The lock file.
        lock: String,
    },
    /// The result of a tree was copied from the build store.
    Taken {
        /// Id of the tree.
        tree: String,
        /// Store key of the tree.
        key: String,
        /// Folder of the entry.
        entry: String,
    },
    /// The result of a tree was copied from the shared store into the build store.
    Pulled {
        /// Id of the tree.
        tree: String,
        /// Store key of the tree.
        key: String,
        /// The shared store.
        remote: String,
        /// Downloaded bytes, compressed.
        bytes: u64,
        /// Duration in seconds.
        seconds: f64,
    },
    /// The result of a tree was copied into the shared store.
    Pushed {
        /// Id of the tree.
        tree: String,
        /// Store key of the tree.
        key: String,
        /// The shared store.
        remote: String,
        /// Uploaded bytes, compressed; 0 if the store had all files.
        bytes: u64,
        /// Duration in seconds.
        seconds: f64,
    },
    /// The shared store has no result for a tree that can be used here.
    NotPulled {
        /// Id of the tree.
        tree: String,
        /// The shared store.
        remote: String,
        /// Why.
        why: String,
    },
    /// The result of a tree is not copied into the shared store.
    NotPushed {
        /// Id of the tree.
        tree: String,
        /// The shared store.
        remote: String,
        /// Why.
        why: String,
    },
    /// The shared store is not used for a tree; the build continues without it.
    RemoteUnused {
        /// Id of the tree.
        tree: String,
        /// The id of the warning: `remote.unreachable`.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        id: DiagnosticId,
        /// Why.
        why: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// The objects of some targets of a tree were copied from the build store instead of being compiled.
    ObjectsTaken {
        /// Id of the tree.
        tree: String,
        /// The targets.
        targets: Vec<String>,
        /// Number of objects from the store.
        objects: usize,
        /// Number of objects that remain to be compiled.
        left: usize,
    },
    /// The build store has no result for a tree.
    NotStored {
        /// Id of the tree.
        tree: String,
        /// Store key of the tree.
        key: String,
        /// Why.
        why: String,
        /// The build whose key is compared in `different`; empty without such a build.
        #[serde(skip_serializing_if = "String::is_empty")]
        since: String,
        /// The parts of the key that differ from that build.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        different: Vec<KeyDifference>,
    },
    /// A result was saved in the build store.
    Stored {
        /// Id of the tree.
        tree: String,
        /// Store key of the tree.
        key: String,
        /// Total size of its files in bytes.
        bytes: u64,
    },
    /// The build store cannot be used; the build continues without it.
    StoreUnused {
        /// Id of the tree.
        tree: String,
        /// Why.
        why: String,
    },
    /// Sources changed while they were compiled: the result is not stored, and the next build checks them again.
    SourcesChanged {
        /// Id of the tree.
        tree: String,
        /// The files.
        files: Vec<String>,
    },
    /// A message for the user.
    Note {
        /// The message, on one line.
        text: String,
    },
    /// A tool is downloaded because it is not installed.
    Fetching {
        /// `cmake`, `ninja`.
        tool: String,
        /// The pinned version.
        version: String,
        /// Destination folder.
        into: String,
    },
    /// This installation waits for another installation of the same toolkit.
    WaitingForInstall {
        /// Toolkit and version: `cuda 13.0`.
        what: String,
        /// The lock file.
        lock: String,
    },
    /// A toolkit installation starts.
    Provisioning {
        /// Its id.
        toolkit: String,
        /// The full version.
        version: String,
        /// Destination folder.
        into: String,
        /// Bytes to download.
        download: u64,
        /// Approximate disk space in bytes.
        disk: u64,
        /// Free bytes at the destination, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        free: Option<u64>,
    },
    /// Wheels are about to be installed; an empty `what` means that all are installed.
    Installing {
        /// Their names, separated by commas.
        what: String,
        /// Total size of the installed wheels in bytes.
        done: u64,
        /// Total size of all wheels in bytes.
        total: u64,
    },
    /// A tree is being configured.
    Configuring {
        /// Id of the tree.
        tree: String,
        /// Its backends.
        backends: Vec<Backend>,
        /// Its folder.
        build: String,
    },
    /// A tree was configured.
    Configured {
        /// Id of the tree.
        tree: String,
        /// Duration in seconds.
        seconds: f64,
    },
    /// The build tool of a tree starts.
    Compiling {
        /// Id of the tree.
        tree: String,
        /// Its folder.
        build: String,
        /// Maximum number of parallel compilers.
        jobs: u32,
    },
    /// The build tool of a tree has ended.
    Compiled {
        /// Id of the tree.
        tree: String,
        /// Whether all steps succeeded.
        success: bool,
    },
    /// A launcher is not used for one language because it does not work with the compiler.
    LauncherDropped {
        /// Id of the tree.
        tree: String,
        /// CMake's name of the language: `CUDA`.
        language: String,
        /// The launcher command.
        launcher: String,
        /// Why.
        why: String,
    },
    /// A launcher that distributes compilations was asked where it compiles the languages of a tree.
    Distributing {
        /// Id of the tree.
        tree: String,
        /// The launcher as it was requested: `distcc`, `sccache-dist`.
        launcher: String,
        /// CMake's names of the languages that other machines compile.
        languages: Vec<String>,
        /// Why the other languages are compiled on this machine.
        local: BTreeMap<String, String>,
        /// Number of compilations that run at once, as far as the launcher reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        slots: Option<u32>,
        /// Number of build servers, as far as the launcher reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        servers: Option<u32>,
        /// Why the number of slots is unknown although the launcher can be asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        slots_unknown: Option<String>,
    },
    /// Where the compilations of one tree ran that a launcher can distribute.
    Distributed {
        /// Id of the tree.
        tree: String,
        /// Number of compilations by build server.
        servers: BTreeMap<String, u64>,
        /// Number of compilations that could not be distributed.
        failed: u64,
        /// Number of compilations that were not cached.
        misses: u64,
    },
    /// The statistics of a compiler cache for one tree.
    Cached {
        /// Id of the tree.
        tree: String,
        /// `ccache`, `sccache`.
        launcher: String,
        /// Compiler calls served from the cache.
        hits: u64,
        /// Compiler calls that were executed and whose results were cached.
        misses: u64,
        /// Compiler calls that cannot be cached.
        other: u64,
        /// The launcher's log with one entry per call.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        /// A hint on unexpected statistics.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A compiler ran out of memory, and the build of a tree continues with fewer parallel compilers.
    Narrowed {
        /// Id of the tree.
        tree: String,
        /// Number of parallel compilers until now.
        before: u32,
        /// Number of parallel compilers from now on.
        jobs: u32,
        /// The output line or reason that indicates the cause.
        why: String,
    },
    /// A build step of a tree started.
    Progress {
        /// Id of the tree.
        tree: String,
        /// Number of finished steps.
        done: u32,
        /// Total number of steps.
        total: u32,
        /// Description of the step.
        what: String,
    },
    /// A tool printed a line that is not a build step.
    Line {
        /// Id of the tree, or `cargo`.
        tree: String,
        /// The line.
        text: String,
    },
    /// A tree failed.
    Failed {
        /// Id of the tree.
        tree: String,
        /// The first root error.
        error: FirstError,
        /// The causes recognised in the output, root cause first.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        causes: Vec<Finding>,
        /// Path of the full log.
        log: String,
    },
    /// A tree is finished.
    Finished {
        /// Id of the tree.
        tree: String,
        /// Whether anything was built.
        state: TreeState,
        /// Duration in seconds.
        seconds: f64,
    },
    /// A backend is omitted because it failed and the user did not request it explicitly.
    Dropped {
        /// The omitted backend.
        backend: Backend,
        /// Why.
        why: String,
    },
    /// Cargo starts to build the program.
    Linking {
        /// Folder of the cargo package.
        package: String,
    },
    /// The libraries that the build needs at run time are in the project's Python environment.
    Environment {
        /// Folder of the environment.
        path: String,
        /// The CUDA release of its wheels.
        cuda: String,
        /// Wheel versions by package name.
        wheels: BTreeMap<String, String>,
        /// Packages that this build installed; empty if the environment was current.
        installed: Vec<String>,
    },
    /// The build is finished.
    Done {
        /// The backends that were built.
        backends: Vec<Backend>,
        /// Path of the manifest.
        manifest: String,
        /// Path of the program, if the project has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        binary: Option<String>,
        /// GPU code by library; only libraries that contain some.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        device_code: BTreeMap<String, Vec<DeviceCode>>,
        /// Whether anything was built.
        state: TreeState,
        /// Duration in seconds.
        seconds: f64,
    },
}

/// Whether anything was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TreeState {
    /// Nothing changed since the last build, so no tool was run.
    Unchanged,
    /// Everything was copied from the build store.
    Taken,
    /// Something was built.
    Built,
}

/// A callback that receives events, possibly from several threads at once.
pub type Sink<'a> = &'a (dyn Fn(&BuildEvent) + Sync);
