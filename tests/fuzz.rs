//! Runs the kept fuzzing corpus (`fuzz/corpus`) through the functions that the fuzz targets run: none may panic. Also checks the size of
//! the corpus. `fuzz/run` limits the time.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads and writes its own files")]
#![expect(unreachable_pub, reason = "the files of another crate")]

#[path = "../fuzz/src/lib.rs"]
mod inputs;

use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of files of all targets together.
const MOST_FILES: usize = 200;
/// The targets of this test.
const TARGETS: [&str; 9] =
    ["manifest", "archive", "host", "project", "log", "file", "object", "reply", "settings"];
/// Those of `examples/infer`.
const OTHERS: [&str; 2] = ["gguf", "template"];
/// The maximum size of a file in bytes.
const LARGEST: u64 = 16 << 10;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// The files of a target, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs all files of a target. At least `accepted` of them must be valid: otherwise the corpus does not reach what follows parsing.
fn replay(target: &str, run: fn(&[u8]) -> bool, accepted: usize) {
    let mut count = 0;
    for file in files(&corpus().join(target)) {
        count += usize::from(run(&fs::read(&file).unwrap()));
    }
    assert!(count >= accepted, "only {count} files of `{target}` are valid");
}

#[test]
fn manifests_are_processed() {
    replay("manifest", inputs::manifest::run, 3);
}

#[test]
fn archives_are_processed() {
    replay("archive", inputs::archive::run, 6);
}

#[test]
fn recorded_hosts_are_processed() {
    replay("host", inputs::host::run, 4);
}

#[test]
fn project_files_are_processed() {
    replay("project", inputs::project::run, 3);
}

#[test]
fn logs_are_processed() {
    replay("log", inputs::log::run, 8);
}

#[test]
fn workflows_and_dockerfiles_are_processed() {
    replay("file", inputs::file::run, 20);
}

#[test]
fn executables_are_processed() {
    replay("object", inputs::object::run, 10);
}

#[test]
fn replies_of_cmake_are_processed() {
    replay("reply", inputs::reply::run, 1);
}

#[test]
fn settings_of_other_programs_are_processed() {
    replay("settings", inputs::settings::run, 6);
}

#[test]
fn corpus_is_small() {
    let all: Vec<PathBuf> =
        TARGETS.iter().chain(&OTHERS).flat_map(|target| files(&corpus().join(target))).collect();
    assert!(all.len() <= MOST_FILES, "{} files", all.len());
    for file in all {
        let size = fs::metadata(&file).unwrap().len();
        assert!(size <= LARGEST, "{} has {size} bytes", file.display());
    }
}
