//! The sources of llama.cpp, fetched once by pinned hash into the target folder or the folder in `GPUBUILD_PROJECTS`.
//! The tests of the examples also include this file.

use crate::requirements::{requires, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A source distribution of a Python package that contains a project.
struct Sdist {
    project: &'static str,
    file: &'static str,
    sha256: &'static str,
}

const LLAMA: Sdist = Sdist {
    project: "llama-cpp-python",
    file: "llama_cpp_python-0.3.36.tar.gz",
    sha256: "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
};

pub(crate) static FETCHING: Mutex<()> = Mutex::new(());

/// Whether these tests run; prints why if they do not.
pub(crate) fn wanted() -> bool {
    let wanted = requires("projects");
    if !wanted {
        skip("projects", "GPUBUILD_REQUIRE does not name projects");
    }
    wanted
}

pub(crate) fn folder() -> PathBuf {
    let folder = std::env::var_os("GPUBUILD_PROJECTS")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects"), PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The script that fetches sources, relative to the package of the test.
fn script() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let candidates = package.ancestors().map(|folder| folder.join("tests/projects/fetch.py"));
    candidates.into_iter().find(|path| path.is_file()).unwrap()
}

/// llama.cpp with its tests.
pub(crate) fn llama() -> PathBuf {
    let _one = FETCHING.lock().unwrap();
    let folder = folder();
    let root = folder.join(LLAMA.file.trim_end_matches(".tar.gz"));
    if !root.join("vendor/llama.cpp/CMakeLists.txt").is_file() {
        let mut command = Command::new("python3");
        command.arg(script()).args([LLAMA.project, LLAMA.file, LLAMA.sha256]).arg(&folder);
        assert!(command.status().unwrap().success(), "fetching {} failed", LLAMA.file);
    }
    root.join("vendor/llama.cpp")
}
