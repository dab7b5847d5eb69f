//! Project sources, fetched once by pinned hash into the target folder or the folder in `GPUBUILD_PROJECTS`.

use std::path::PathBuf;
use std::process::Command;

use crate::sdist::{FETCHING, folder};

pub(crate) use crate::sdist::{llama, wanted};

/// Crates that contain projects, with the hashes of their archives.
const CRATES: [(&str, &str, &str); 6] = [
    ("llama-cpp-sys-2", "0.1.161", "e9bea77fde41bbc15a278891cd5edd2ba07c5260d162614b41080ba1f100b39b"),
    ("whisper-rs-sys", "0.15.0", "6986c0fe081241d391f09b9a071fbcbb59720c3563628c3c829057cf69f2a56f"),
    ("diffusion-rs-sys", "0.1.20", "1947b40e9b457a11baef32b105b5047227911ac48ae050e5828c5980e6a12af4"),
    ("libz-ng-sys", "1.1.31", "5744ce2ea938839ed4541cb8736d222d70ba50f324ec74127a7c40ffc3c25c67"),
    ("highs-sys", "1.15.0", "e4da0c52322648e2360a5a8896d23301fa5ed99ed7607c5faf229bd0bbb30d3f"),
    ("snmalloc-sys", "0.7.6", "f09c93c55f9a2b8dab75738a83c771231c5f408af65b8657433fe5bc93cc76cb"),
];

/// Standalone ggml: the copy in llama.cpp with a missing file.
pub(crate) fn ggml() -> PathBuf {
    let (source, target) = (llama().join("ggml"), folder().join("ggml"));
    if !target.join("ggml.pc.in").is_file() {
        let _one = FETCHING.lock().unwrap();
        assert!(Command::new("cp").arg("-r").arg(source).arg(&target).status().unwrap().success());
        std::fs::write(target.join("ggml.pc.in"), "Name: ggml\n").unwrap();
    }
    target
}

/// The folder of a crate that contains a project.
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
    // cargo verifies the archive against the registry; this verifies it against the pinned hash.
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
