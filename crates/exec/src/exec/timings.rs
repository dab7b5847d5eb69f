//! Records the durations of build steps and files, the memory of compilers, and cache hits.
//!
//! A [`TimingRecorder`] receives the events of a build, reads Ninja's log after every run, and regularly observes descendant
//! processes. The result is a [`TimingRecording`], a plain value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{HostPath, InspectHost};
use gpubuild_plan::plan::bytes;
use serde::Serialize;

use super::launcher::statistics::{LauncherCall, LauncherOutcome, parse_log};
use super::ninja::{self, Edge};
use super::processes::{Processes, Sample};
use crate::event::{BuildEvent, TreeState};

/// Interval between observations of the processes.
const INTERVAL: Duration = Duration::from_millis(100);

/// The recorded data. Times are in seconds since the start of the build.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimingRecording {
    /// Total duration.
    pub seconds: f64,
    /// Trees in the order in which they started.
    pub trees: Vec<TreeTime>,
    /// Steps of the trees and of the build as a whole.
    pub steps: Vec<TimedStep>,
    /// Files and crates that were built.
    pub units: Vec<TimedUnit>,
    /// Statistics of compiler caches.
    pub caches: Vec<LauncherTotals>,
    /// What was transferred from and to the shared store.
    pub shared_store: SharedStoreTotals,
    /// Messages that were reported during the build.
    pub messages: Vec<TimedMessage>,
    /// Memory use and parallelism over time.
    pub samples: Vec<Sample>,
    /// For each unit, the indices of the units that it depends on.
    #[serde(skip)]
    pub needs: Vec<Vec<usize>>,
}

/// The outcome of one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeTime {
    /// Id of the tree.
    pub id: String,
    /// Its final state; `None` if it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TreeState>,
}

/// A step of a build, such as configuring a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimedStep {
    /// Id of the tree, `cargo`, or empty for the build as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tree: String,
    /// `wait`, `fetch`, `configure`, `build`, `collect`, `cargo`.
    pub kind: &'static str,
    /// Description for users.
    pub name: String,
    /// Start time.
    pub start: f64,
    /// End time.
    pub end: f64,
}

/// A file or crate that was built.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimedUnit {
    /// Id of the tree, or `cargo`.
    pub tree: String,
    /// Path below the build folder, or the name of the crate.
    pub output: String,
    /// `c`, `cxx`, `cuda`, `hip`, `archive`, `link`, `configure`, `rust`, `other`.
    pub kind: &'static str,
    /// Start time.
    pub start: f64,
    /// End time.
    pub end: f64,
    /// Peak memory of its processes, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Outcome in the compiler cache, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<LauncherOutcome>,
    /// Whether the times are from observing processes instead of the tool's log.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
}

impl TimedUnit {
    /// Duration in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (self.end - self.start).max(0.0)
    }
}

/// What a build has transferred from and to the shared store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedStoreTotals {
    /// Trees whose results were downloaded.
    pub hits: u64,
    /// Trees whose results were uploaded.
    pub saved: u64,
    /// Downloaded bytes, compressed.
    pub downloaded: u64,
    /// Uploaded bytes, compressed.
    pub uploaded: u64,
    /// Duration of all transfers in seconds.
    pub seconds: f64,
}

/// Statistics of a compiler cache for one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LauncherTotals {
    /// Id of the tree.
    pub tree: String,
    /// The launcher: `ccache`, `sccache`.
    pub launcher: String,
    /// Calls served from the cache.
    pub hits: u64,
    /// Calls that were compiled and cached.
    pub misses: u64,
    /// Calls that cannot be cached.
    pub other: u64,
}

/// A message that was reported during the build.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimedMessage {
    /// Time of the message.
    pub time: f64,
    /// The text.
    pub text: String,
}

/// Records the timings of a build from its events.
pub struct TimingRecorder<'a> {
    host: &'a dyn InspectHost,
    started: Duration,
    state: Mutex<RecorderState>,
    ended: AtomicBool,
}

#[derive(Default)]
struct RecorderState {
    recording: TimingRecording,
    /// Indices of unfinished steps, by tree and kind.
    open: BTreeMap<(String, &'static str), usize>,
    runs: BTreeMap<String, TimedRun>,
    /// Build statements by tree.
    edges: BTreeMap<String, Vec<Edge>>,
    /// Build folders by tree.
    folders: BTreeMap<String, HostPath>,
    processes: Processes,
}

/// A run of the build tool that has not finished.
struct TimedRun {
    start: f64,
    lines: BTreeSet<String>,
}

impl<'a> TimingRecorder<'a> {
    /// Starts recording.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost) -> Self {
        Self { host, started: host.elapsed(), state: Mutex::default(), ended: AtomicBool::new(false) }
    }

    fn now(&self) -> f64 {
        self.host.elapsed().saturating_sub(self.started).as_secs_f64()
    }

    fn inner(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Observes the processes until [`Self::end`] is called. Blocks, so call it in a separate thread.
    pub fn watch(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            let now = self.now();
            self.inner().processes.observe(self.host, now);
            std::thread::sleep(INTERVAL);
        }
    }

    /// Ends [`Self::watch`].
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Records an event.
    pub fn event(&self, event: &BuildEvent) {
        let now = self.now();
        let inner = &mut *self.inner();
        inner.close("", now);
        match event {
            BuildEvent::Waiting { lock } => {
                inner.begin("", "wait", format!("for the build that holds {lock}"), now);
            }
            BuildEvent::WaitingForStore { tree, .. } => {
                inner.begin("", "wait", format!("for another build of {tree}"), now);
            }
            BuildEvent::Taken { tree, .. } => {
                inner.tree(tree);
                inner.message(now, format!("{tree} was restored from the build store"));
            }
            BuildEvent::Pulled { tree, remote, bytes, seconds, .. } => {
                let totals = &mut inner.recording.shared_store;
                totals.hits += 1;
                totals.downloaded += bytes;
                totals.seconds += seconds;
                let bytes = bytes::show(*bytes);
                inner.message(now, format!("{tree}: downloaded {bytes} from {remote} in {seconds:.1} s"));
            }
            BuildEvent::Pushed { tree, remote, bytes, seconds, .. } => {
                let totals = &mut inner.recording.shared_store;
                totals.saved += 1;
                totals.uploaded += bytes;
                totals.seconds += seconds;
                let bytes = bytes::show(*bytes);
                inner.message(now, format!("{tree}: uploaded {bytes} to {remote} in {seconds:.1} s"));
            }
            BuildEvent::Fetching { tool, version, .. } => {
                inner.begin("", "fetch", format!("{tool} {version}"), now);
            }
            BuildEvent::Configuring { tree, .. } => {
                inner.tree(tree);
                inner.begin(tree, "configure", "configure".to_owned(), now);
            }
            BuildEvent::Configured { tree, .. } => inner.close(tree, now),
            BuildEvent::Compiling { tree, build, jobs } => {
                inner.tree(tree);
                inner.close(tree, now);
                inner.begin(tree, "build", format!("build with {jobs} parallel jobs"), now);
                let folder = self.host.path(build);
                let text = self.host.read_text(&folder.join(ninja::LOG)).unwrap_or_default();
                let lines = text.lines().map(str::to_owned).collect();
                inner.runs.insert(tree.clone(), TimedRun { start: now, lines });
                inner.folders.insert(tree.clone(), folder);
            }
            BuildEvent::Compiled { tree, .. } => {
                inner.close(tree, now);
                self.read_run(inner, tree);
                inner.begin(tree, "collect", "collect".to_owned(), now);
            }
            BuildEvent::Cached { tree, launcher, hits, misses, other, log, .. } => {
                let (hits, misses, other) = (*hits, *misses, *other);
                let cache =
                    LauncherTotals { tree: tree.clone(), launcher: launcher.clone(), hits, misses, other };
                inner.recording.caches.push(cache);
                if let Some(text) =
                    log.as_ref().and_then(|log| self.host.read_text(&self.host.path(log)).ok())
                {
                    inner.mark_cached(tree, &parse_log(&text));
                }
            }
            BuildEvent::Finished { tree, state, .. } => {
                inner.close(tree, now);
                inner.tree(tree).state = Some(*state);
            }
            BuildEvent::Failed { tree, error, .. } => {
                inner.close(tree, now);
                inner.message(now, format!("{tree} failed: {error}"));
            }
            BuildEvent::Linking { package } => {
                inner.begin("cargo", "cargo", format!("cargo build in {package}"), now);
            }
            BuildEvent::Done { .. } => inner.close("cargo", now),
            _ => messages(event).into_iter().for_each(|text| inner.message(now, text)),
        }
    }

    /// Reads the new lines of Ninja's log after a run, and the build statements.
    fn read_run(&self, inner: &mut RecorderState, tree: &str) {
        let (Some(run), Some(folder)) = (inner.runs.remove(tree), inner.folders.get(tree)) else { return };
        let log = self.host.read_text(&folder.join(ninja::LOG)).unwrap_or_default();
        for output in ninja::parse_log(&log, &run.lines) {
            inner.recording.units.push(TimedUnit {
                tree: tree.to_owned(),
                kind: kind_of(&output.output),
                output: output.output,
                start: run.start + output.start,
                end: run.start + output.end,
                memory_bytes: None,
                cache: None,
                seen: false,
            });
        }
        let text = self.host.read_text(&folder.join("build.ninja")).unwrap_or_default();
        inner.edges.insert(tree.to_owned(), ninja::parse_edges(&text));
    }

    /// Ends the recording and returns it.
    #[must_use]
    pub fn finish(self) -> TimingRecording {
        let now = self.now();
        let inner = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let RecorderState { mut recording, folders, edges, processes, .. } = inner;
        recording.seconds = now;
        for step in recording.steps.iter_mut().filter(|step| step.end.is_infinite()) {
            step.end = now;
        }
        for unit in &mut recording.units {
            let path = folders.get(&unit.tree).map(|folder| folder.join(&unit.output));
            unit.memory_bytes = path.and_then(|path| processes.peak(path.as_str()));
        }
        recording.units.extend(processes.crates().map(|(name, seen)| TimedUnit {
            tree: "cargo".to_owned(),
            output: name.to_owned(),
            kind: "rust",
            start: seen.first,
            end: seen.last,
            memory_bytes: Some(seen.peak),
            cache: None,
            seen: true,
        }));
        recording.units.sort_indirect_by(|left, right| left.start.total_cmp(&right.start));
        recording.needs = ninja::needs(&recording.units, &edges);
        recording.samples = processes.into_samples();
        recording
    }
}

impl RecorderState {
    fn tree(&mut self, id: &str) -> &mut TreeTime {
        let trees = &mut self.recording.trees;
        let index = trees.iter().position(|tree| tree.id == id).unwrap_or_else(|| {
            trees.push(TreeTime { id: id.to_owned(), state: None });
            trees.len() - 1
        });
        &mut trees[index]
    }

    fn begin(&mut self, tree: &str, kind: &'static str, name: String, now: f64) {
        // An unfinished step has an infinite end time, which `finish` replaces.
        let step = TimedStep { tree: tree.to_owned(), kind, name, start: now, end: f64::INFINITY };
        self.recording.steps.push(step);
        self.open.insert((tree.to_owned(), kind), self.recording.steps.len() - 1);
    }

    /// Ends all unfinished steps of a tree.
    fn close(&mut self, tree: &str, now: f64) {
        let steps = &mut self.recording.steps;
        self.open.retain(|(of, _), index| {
            if of == tree {
                steps[*index].end = now;
            }
            of != tree
        });
    }

    fn message(&mut self, time: f64, text: String) {
        self.recording.messages.push(TimedMessage { time, text });
    }

    /// Sets the cache outcome of the units of a tree. Calls whose source matches several units are skipped.
    fn mark_cached(&mut self, tree: &str, calls: &[LauncherCall]) {
        for call in calls {
            let source = call.source.replace('\\', "/");
            let mut matching: Vec<&mut TimedUnit> = (self.recording.units.iter_mut())
                .filter(|unit| {
                    unit.tree == tree && unit.cache.is_none() && is_object_of(&unit.output, &source)
                })
                .collect();
            if let [unit] = matching.as_mut_slice() {
                unit.cache = Some(call.outcome);
            }
        }
    }
}

/// The messages of an event that only says something.
fn messages(event: &BuildEvent) -> Vec<String> {
    match event {
        BuildEvent::RemoteUnused { tree, id, why, .. } => {
            vec![format!("{tree}: the shared store is not used: {why} [{id}]")]
        }
        BuildEvent::StoreUnused { tree, why } => {
            vec![format!("{tree}: the build store is not used: {why}")]
        }
        BuildEvent::Narrowed { tree, before, jobs, why } => {
            vec![format!("{tree}: {before} parallel compilers were too many ({why}), continuing with {jobs}")]
        }
        BuildEvent::LauncherDropped { tree, language, launcher, why } => {
            vec![format!("{tree}: {launcher} is not used for {language}: {why}")]
        }
        BuildEvent::Distributing { tree, launcher, local, .. } => local
            .iter()
            .map(|(language, why)| format!("{tree}: {language} is not distributed by {launcher}: {why}"))
            .collect(),
        BuildEvent::Dropped { backend, why } => vec![format!("{backend} is omitted: {why}")],
        _ => Vec::new(),
    }
}

/// Whether an object is compiled from a source by CMake's naming: `x.dir/src/a.cpp.o` from `/p/src/a.cpp`.
fn is_object_of(output: &str, source: &str) -> bool {
    let Some(inner) = output.strip_suffix(".o").or_else(|| output.strip_suffix(".obj")) else { return false };
    let inner = inner.split_once(".dir/").map_or(inner, |(_, inner)| inner).replace("__/", "");
    source == inner || source.ends_with(&format!("/{inner}"))
}

/// The kind of step that builds a file.
fn kind_of(output: &str) -> &'static str {
    let lower = output.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    if let Some(source) = name.strip_suffix(".o").or_else(|| name.strip_suffix(".obj")) {
        return match source.rsplit('.').next() {
            Some("cu") => "cuda",
            Some("hip") => "hip",
            Some("c" | "m" | "s") => "c",
            _ => "cxx",
        };
    }
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        _ if name == "build.ninja" => "configure",
        Some("a" | "lib") => "archive",
        Some("so" | "dylib" | "dll" | "exe") => "link",
        _ if name.contains(".so.") => "link",
        _ => "other",
    }
}

#[cfg(test)]
#[path = "timings_tests.rs"]
mod tests;
