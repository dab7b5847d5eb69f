//! What a build took: times of its steps and files, memory of its compilers, hits of its cache.
//!
//! A [`TimingRecorder`] listens to the events of a build, reads Ninja's log of every run, and looks at the processes below us
//! from time to time. What came of it is a [`TimingRecording`], a plain value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpubuild_host::{HostPath, InspectHost};
use serde::Serialize;

use super::launcher::{self, LauncherOutcome};
use super::ninja::{self, Edge};
use super::processes::{Processes, Sample};
use crate::event::{BuildEvent, TreeState};

/// How often the processes are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Everything that was recorded; times are seconds since the build began.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimingRecording {
    /// How long it took.
    pub seconds: f64,
    /// Trees, in the order in which they began.
    pub trees: Vec<TreeTime>,
    /// Steps of trees and of the whole.
    pub steps: Vec<TimedStep>,
    /// Files that were made.
    pub units: Vec<TimedUnit>,
    /// What compiler caches have saved.
    pub caches: Vec<LauncherTotals>,
    /// What was told on the way.
    pub messages: Vec<TimedMessage>,
    /// Memory and work, over time.
    pub samples: Vec<Sample>,
    /// For each unit the units that it waited for.
    #[serde(skip)]
    pub needs: Vec<Vec<usize>>,
}

/// A tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeTime {
    /// Its id.
    pub id: String,
    /// What became of it; none if it did not come to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TreeState>,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedStep {
    /// Its tree, `cargo`, or nothing for the whole build.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tree: String,
    /// `wait`, `fetch`, `configure`, `build`, `collect`, `cargo`.
    pub kind: &'static str,
    /// What it is.
    pub name: String,
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
}

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedUnit {
    /// Its tree, or `cargo`.
    pub tree: String,
    /// The file, below the build folder; of cargo the crate.
    pub output: String,
    /// `c`, `cxx`, `cuda`, `hip`, `archive`, `link`, `configure`, `rust`, `other`.
    pub kind: &'static str,
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// The most memory that its processes were seen with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What the compiler cache said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<LauncherOutcome>,
    /// Whether its times are only when it was seen, and not told by the tool.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
}

impl TimedUnit {
    /// How long it took.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (self.end - self.start).max(0.0)
    }
}

/// What a compiler cache has saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LauncherTotals {
    /// Tree.
    pub tree: String,
    /// `ccache`.
    pub launcher: String,
    /// Answered from the cache.
    pub hits: u64,
    /// Compiled.
    pub misses: u64,
    /// Neither.
    pub other: u64,
}

/// Something that was told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedMessage {
    /// When.
    pub time: f64,
    /// The text.
    pub text: String,
}

/// Listens to a build.
pub struct TimingRecorder<'a> {
    host: &'a dyn InspectHost,
    began: Duration,
    state: Mutex<RecorderState>,
    ended: AtomicBool,
}

#[derive(Default)]
struct RecorderState {
    recording: TimingRecording,
    /// Steps that are going on, as indices.
    open: BTreeMap<(String, &'static str), usize>,
    runs: BTreeMap<String, TimedRun>,
    /// Per tree, what its edges need, by output.
    edges: BTreeMap<String, Vec<Edge>>,
    /// Build folders by tree.
    folders: BTreeMap<String, HostPath>,
    processes: Processes,
}

/// A run of the build tool that is going on.
struct TimedRun {
    start: f64,
    lines: BTreeSet<String>,
}

impl<'a> TimingRecorder<'a> {
    /// Begins to record.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost) -> Self {
        Self { host, began: host.elapsed(), state: Mutex::default(), ended: AtomicBool::new(false) }
    }

    fn now(&self) -> f64 {
        self.host.elapsed().saturating_sub(self.began).as_secs_f64()
    }

    fn inner(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the processes until [`Self::end`]; for a thread of its own.
    pub fn watch(&self) {
        while !self.ended.load(Ordering::Relaxed) {
            let now = self.now();
            self.inner().processes.look(self.host, now);
            std::thread::sleep(INTERVAL);
        }
    }

    /// Ends [`Self::watch`].
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Takes note of an event.
    pub fn event(&self, event: &BuildEvent) {
        let now = self.now();
        let inner = &mut *self.inner();
        inner.close("", now);
        match event {
            BuildEvent::Waiting { lock } => {
                inner.begin("", "wait", format!("for the build that holds {lock}"), now);
            }
            BuildEvent::WaitingForStore { tree, .. } => {
                inner.begin("", "wait", format!("for another build that makes {tree}"), now);
            }
            BuildEvent::Taken { tree, .. } => {
                inner.tree(tree);
                inner.say(now, format!("{tree} came from the store"));
            }
            BuildEvent::StoreUnused { tree, why } => {
                inner.say(now, format!("{tree}: the store is not used: {why}"));
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
                inner.begin(tree, "build", format!("build, {jobs} at once"), now);
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
                    inner.mark_cached(tree, &launcher::parse_log(&text));
                }
            }
            BuildEvent::Finished { tree, state, .. } => {
                inner.close(tree, now);
                inner.tree(tree).state = Some(*state);
            }
            BuildEvent::Failed { tree, error, .. } => {
                inner.close(tree, now);
                inner.say(now, format!("{tree} failed: {error}"));
            }
            BuildEvent::Narrowed { tree, before, jobs, why } => {
                inner.say(
                    now,
                    format!("{tree}: {before} compilers at once were too many ({why}), going on with {jobs}"),
                );
            }
            BuildEvent::LauncherDropped { tree, language, launcher, why } => {
                inner.say(now, format!("{tree}: {language} without {launcher}: {why}"));
            }
            BuildEvent::Dropped { backend, why } => inner.say(now, format!("{backend} is left out: {why}")),
            BuildEvent::Linking { package } => {
                inner.begin("cargo", "cargo", format!("cargo build of {package}"), now);
            }
            BuildEvent::Done { .. } => inner.close("cargo", now),
            _ => {}
        }
    }

    /// Reads what a run of Ninja added to its log, and what its edges need.
    fn read_run(&self, inner: &mut RecorderState, tree: &str) {
        let (Some(run), Some(folder)) = (inner.runs.remove(tree), inner.folders.get(tree)) else { return };
        let log = self.host.read_text(&folder.join(ninja::LOG)).unwrap_or_default();
        for made in ninja::parse_log(&log, &run.lines) {
            inner.recording.units.push(TimedUnit {
                tree: tree.to_owned(),
                kind: kind_of(&made.output),
                output: made.output,
                start: run.start + made.start,
                end: run.start + made.end,
                memory_bytes: None,
                cache: None,
                seen: false,
            });
        }
        let text = self.host.read_text(&folder.join("build.ninja")).unwrap_or_default();
        inner.edges.insert(tree.to_owned(), ninja::parse_edges(&text));
    }

    /// What was recorded.
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
        recording.units.sort_by(|left, right| left.start.total_cmp(&right.start));
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
        // Until it is closed, it lasts to the end.
        let step = TimedStep { tree: tree.to_owned(), kind, name, start: now, end: f64::INFINITY };
        self.recording.steps.push(step);
        self.open.insert((tree.to_owned(), kind), self.recording.steps.len() - 1);
    }

    /// Ends the steps of a tree that are going on.
    fn close(&mut self, tree: &str, now: f64) {
        let steps = &mut self.recording.steps;
        self.open.retain(|(of, _), index| {
            if of == tree {
                steps[*index].end = now;
            }
            of != tree
        });
    }

    fn say(&mut self, time: f64, text: String) {
        self.recording.messages.push(TimedMessage { time, text });
    }

    /// Gives each unit of a tree what the cache said of its source, where one unit alone can be meant.
    fn mark_cached(&mut self, tree: &str, calls: &[launcher::LauncherCall]) {
        for call in calls {
            let source = call.source.replace('\\', "/");
            let mut fitting: Vec<&mut TimedUnit> = (self.recording.units.iter_mut())
                .filter(|unit| unit.tree == tree && unit.cache.is_none() && is_made_of(&unit.output, &source))
                .collect();
            if let [unit] = fitting.as_mut_slice() {
                unit.cache = Some(call.outcome);
            }
        }
    }
}

/// Whether CMake names an object like this for that source: `x.dir/src/a.cpp.o` for `/p/src/a.cpp`.
fn is_made_of(output: &str, source: &str) -> bool {
    let Some(inner) = output.strip_suffix(".o").or_else(|| output.strip_suffix(".obj")) else { return false };
    let inner = inner.split_once(".dir/").map_or(inner, |(_, inner)| inner).replace("__/", "");
    source == inner || source.ends_with(&format!("/{inner}"))
}

/// What kind of step makes a file.
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
