//! The projects' sources: fetched once, by pinned hash, into a folder of the test build or the one that `GPUBUILD_PROJECTS` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A source distribution of a Python package that carries a project.
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

/// Crates that carry projects, with the hashes of their archives.
const CRATES: [(&str, &str, &str); 6] = [
    ("llama-cpp-sys-2", "0.1.161", "e9bea77fde41bbc15a278891cd5edd2ba07c5260d162614b41080ba1f100b39b"),
    ("whisper-rs-sys", "0.15.0", "6986c0fe081241d391f09b9a071fbcbb59720c3563628c3c829057cf69f2a56f"),
    ("diffusion-rs-sys", "0.1.20", "1947b40e9b457a11baef32b105b5047227911ac48ae050e5828c5980e6a12af4"),
    ("libz-ng-sys", "1.1.31", "5744ce2ea938839ed4541cb8736d222d70ba50f324ec74127a7c40ffc3c25c67"),
    ("highs-sys", "1.15.0", "e4da0c52322648e2360a5a8896d23301fa5ed99ed7607c5faf229bd0bbb30d3f"),
    ("snmalloc-sys", "0.7.6", "f09c93c55f9a2b8dab75738a83c771231c5f408af65b8657433fe5bc93cc76cb"),
];

static FETCHING: Mutex<()> = Mutex::new(());

/// Whether these tests run; says so if they do not.
pub(crate) fn wanted() -> bool {
    let wanted = std::env::var("GPUBUILD_REQUIRE").is_ok_and(|list| list.contains("projects"));
    if !wanted {
        println!("skipped: GPUBUILD_REQUIRE does not name projects");
    }
    wanted
}

fn folder() -> PathBuf {
    let folder = std::env::var_os("GPUBUILD_PROJECTS")
        .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects"), PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// llama.cpp with its tests.
pub(crate) fn llama() -> PathBuf {
    let _one = FETCHING.lock().unwrap();
    let folder = folder();
    let root = folder.join(LLAMA.file.trim_end_matches(".tar.gz"));
    if !root.join("vendor/llama.cpp/CMakeLists.txt").is_file() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/projects/fetch.py");
        let mut command = Command::new("python3");
        command.arg(script).args([LLAMA.project, LLAMA.file, LLAMA.sha256]).arg(&folder);
        assert!(command.status().unwrap().success(), "fetching {} failed", LLAMA.file);
    }
    root.join("vendor/llama.cpp")
}

/// ggml by itself: the copy in llama.cpp with the one file that it lacks there.
pub(crate) fn ggml() -> PathBuf {
    let (source, target) = (llama().join("ggml"), folder().join("ggml"));
    if !target.join("ggml.pc.in").is_file() {
        let _one = FETCHING.lock().unwrap();
        assert!(Command::new("cp").arg("-r").arg(source).arg(&target).status().unwrap().success());
        std::fs::write(target.join("ggml.pc.in"), "Name: ggml\n").unwrap();
    }
    target
}

/// The folder of a crate that carries a project.
pub(crate) fn vendored(name: &str) -> PathBuf {
    let _one = FETCHING.lock().unwrap();
    let (_, version, sha256) = CRATES.into_iter().find(|(known, ..)| *known == name).unwrap();
    let root = folder().join("crates");
    let found = root.join("vendor").join(name);
    if !found.is_dir() {
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(root.join("src/lib.rs"), "").unwrap();
        let dependencies: Vec<String> =
            CRATES.iter().map(|(name, version, _)| format!("{name} = \"={version}\"")).collect();
        let manifest = format!(
            "[package]\nname = \"projects\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{}\n",
            dependencies.join("\n")
        );
        std::fs::write(root.join("Cargo.toml"), manifest).unwrap();
        let status = Command::new("cargo").args(["vendor", "--quiet"]).current_dir(&root).status().unwrap();
        assert!(status.success(), "cargo vendor failed");
    }
    // cargo has checked the archive against the registry; this checks that it is the one that was read.
    let sums = std::fs::read_to_string(found.join(".cargo-checksum.json")).unwrap();
    assert!(sums.contains(sha256), "{name} {version} is not the pinned archive: {sums:.200}");
    found
}

pub(crate) fn whisper() -> PathBuf {
    vendored("whisper-rs-sys").join("whisper.cpp")
}

pub(crate) fn diffusion() -> PathBuf {
    vendored("diffusion-rs-sys").join("stable-diffusion.cpp")
}
