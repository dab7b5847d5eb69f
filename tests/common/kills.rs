//! Kills of the program when its files have changed a number of times, and what remains of it.
#![expect(clippy::disallowed_methods, reason = "a test starts and kills the program and reads its files")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The variable that marks a started program and its children.
const MARK: &str = "GPUBUILD_TEST_MARK";

/// The number of generated cases: `GPUBUILD_CASES`, or a number for a run that takes seconds.
pub(crate) fn cases(default: usize) -> usize {
    std::env::var("GPUBUILD_CASES").map_or(default, |count| count.parse().unwrap())
}

/// Deterministic pseudorandom numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end.max(1) as u64).unwrap()
    }
}

/// A program that is killed while it changes these folders.
pub(crate) struct Victim {
    folders: Vec<PathBuf>,
    random: Random,
    /// Number of changes in a complete run.
    changes: usize,
    kills: usize,
}

/// Names, sizes and times of all files below the folders.
fn fingerprint(folders: &[PathBuf]) -> u64 {
    let mut hash = DefaultHasher::new();
    for entry in folders.iter().flat_map(|folder| walkdir::WalkDir::new(folder).sort_by_file_name()) {
        let Ok(entry) = entry else { continue };
        let Ok(file) = entry.metadata() else { continue };
        (entry.path(), file.len(), file.modified().ok()).hash(&mut hash);
    }
    hash.finish()
}

/// Starts a command whose descendants can be found by their environment.
fn start(command: &mut Command) -> Child {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst));
    command.env(MARK, mark).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

impl Victim {
    /// Runs the command to its end to count the changes.
    pub(crate) fn new(seed: u64, folders: Vec<PathBuf>, command: &mut Command) -> Self {
        let mut victim = Self { folders, random: Random::new(seed), changes: 0, kills: 0 };
        let mut child = start(command);
        victim.changes = victim.watch(&mut child, usize::MAX);
        assert!(child.wait().unwrap().success(), "{command:?}");
        victim
    }

    /// Waits for a number of changes, or for the end, and returns the number of changes.
    fn watch(&self, child: &mut Child, changes: usize) -> usize {
        let (mut seen, mut last) = (0, fingerprint(&self.folders));
        while seen < changes && child.try_wait().unwrap().is_none() {
            let now = fingerprint(&self.folders);
            seen += usize::from(now != last);
            last = now;
            std::thread::sleep(Duration::from_micros(300));
        }
        seen
    }

    /// Runs the command and kills it after a random number of changes. Checks that its children end. Returns whether the
    /// command was killed before its end.
    pub(crate) fn kill(&mut self, command: &mut Command) -> bool {
        let after = self.random.below(self.changes + 1);
        let pause = Duration::from_micros(self.random.below(3000) as u64);
        let mut child = start(command);
        self.watch(&mut child, after);
        std::thread::sleep(pause);
        let _ = child.kill();
        let was_killed = child.wait().unwrap().code().is_none();
        let mark = command.get_envs().find(|(name, _)| *name == MARK).unwrap().1.unwrap().to_owned();
        no_process_has(mark.to_str().unwrap());
        self.kills += usize::from(was_killed);
        was_killed
    }

    /// Whether another kill is needed for a number of them. Panics if the command is too fast to be killed.
    pub(crate) fn needs_more(&self, wanted: usize, attempts: usize) -> bool {
        assert!(attempts < 20 * wanted + 20, "only {} kills in {attempts} attempts", self.kills);
        self.kills < wanted
    }
}

/// Waits until no process has a mark in its environment.
fn no_process_has(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    let started = Instant::now();
    loop {
        let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let has = |path: &PathBuf| {
            let environment = std::fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        let left: Vec<String> = entries.filter(has).map(|path| arguments(&path)).collect();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "processes of a killed program: {left:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn arguments(process: &Path) -> String {
    let text = std::fs::read_to_string(process.join("cmdline")).unwrap_or_default();
    format!("{}: {}", process.display(), text.replace('\0', " "))
}

/// Temporary names below these folders, as gpubuild, pip, uv and Python create them.
pub(crate) fn temporary_names(folders: &[PathBuf]) -> Vec<PathBuf> {
    let is_temporary = |name: &str| {
        ["gpubuild-", ".gpubuild-", ".tmp", "pip-"].iter().any(|start| name.starts_with(start))
            && Path::new(name).extension().is_none_or(|end| end != "json")
            || name.starts_with("tmp") && name.len() == "tmp".len() + 8
            || [".partial", ".removed", ".old", ".new", ".tmp"].iter().any(|end| name.ends_with(end))
    };
    let entries = folders.iter().flat_map(|folder| walkdir::WalkDir::new(folder).min_depth(1));
    let names = entries.filter_map(Result::ok);
    names
        .filter(|entry| is_temporary(&entry.file_name().to_string_lossy()))
        .map(walkdir::DirEntry::into_path)
        .collect()
}
