//! New locks from the output of uv, which a script replaces.
#![cfg(unix)]

use std::fmt::Write as _;
use std::path::Path;

use crate::sandbox::{RunResult, Sandbox, requires, skip};

/// A uv that prints this text and exits with this code.
fn uv(sandbox: &Sandbox, text: &str, exit: i32) {
    sandbox.write("printed", text);
    let here = sandbox.path("");
    sandbox.script(
        "uv",
        &format!(
            "#!/bin/sh\ncd '{}'\necho \"$@\" > asked\ncat printed\ncat printed >&2\nexit {exit}\n",
            here.display()
        ),
    );
}

fn lock(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    let mut command = sandbox.command(&[&["toolkit", "lock"], arguments].concat());
    RunResult::from(command.env("UV", sandbox.path("uv")).output().unwrap())
}

/// The output of uv for CUDA 13.2 on PyPI, with placeholder hashes.
fn list() -> String {
    let mut text =
        "lock-version = '1.0'\n[[packages]]\nname = 'cuda-toolkit'\nversion = '13.2.2'\n".to_owned();
    for package in ["cuda-nvcc", "nvvm", "cuda-cccl", "cuda-runtime", "cuda-crt", "cublas", "cuda-nvrtc"]
        .map(|name| format!("nvidia-{name}"))
    {
        let file = format!("{}-13.2.86-py3-none-manylinux_2_17_x86_64.whl", package.replace('-', "_"));
        let sum = "ab".repeat(32);
        write!(
            text,
            "[[packages]]\nname = '{package}'\nversion = '13.2.86'\n\
             wheels = [{{ url = 'https://index.example/{file}', hashes = {{ sha256 = '{sum}' }} }}]\n"
        )
        .unwrap();
    }
    text
}

#[test]
fn project_lock_is_created_and_then_offered() {
    let Some(sandbox) = Sandbox::new() else { return };
    uv(&sandbox, &list(), 0);
    std::fs::create_dir(sandbox.path("src")).unwrap();
    sandbox.write("src/CMakeLists.txt", "");
    sandbox.write("gpubuild.toml", "schema = 1\n[project]\nname = \"x\"\nsource = \"src\"\n");
    lock(&sandbox, &["cuda@13.2"])
        .succeeds()
        .says(&["locked cuda 13.2.2 for linux-x86_64", "gpubuild.lock.d"]);
    let asked = std::fs::read_to_string(sandbox.path("asked")).unwrap();
    assert!(asked.contains("pip compile --universal --format pylock.toml"), "{asked}");
    let text = std::fs::read_to_string(sandbox.path("gpubuild.lock.d/cuda-13.2.toml")).unwrap();
    assert!(text.contains("nvidia_cuda_nvcc-13.2.86-py3-none-manylinux_2_17_x86_64.whl"), "{text}");
    assert!(!text.contains("index.example"), "locks contain no index");
    lock(&sandbox, &["cuda@13.2"]).succeeds();
    lock(&sandbox, &["cuda@13.2", "--output", "gpubuild.toml"]).fails(2, "file.not-ours");
    assert!(std::fs::read_to_string(sandbox.path("gpubuild.toml")).unwrap().starts_with("schema = 1"));
    sandbox.run(&["toolkit", "install", "cuda@13.2", "--dry-run"]).succeeds();
    let shown = lock(&sandbox, &["cuda@13.2", "--output", "-"]).succeeds().stdout.clone();
    assert_eq!(shown, text);
    let both = lock(&sandbox, &["cuda@13.2", "--output", "-", "--json"]);
    assert_eq!((both.exit, both.json()["error"]["id"].as_str()), (Some(2), Some("usage.conflict")));
    let document = lock(&sandbox, &["cuda@13.2", "--output", "other.toml", "--json"]).succeeds().json();
    assert_eq!(document["schema"]["name"], "toolkit-lock");
    assert_eq!(document["version"], "13.2.2");
    assert_eq!(Path::new(document["file"].as_str().unwrap()), sandbox.path("other.toml"));
    let base = &document["components"][0];
    assert_eq!((base["id"].as_str(), base["optional"].as_bool()), (Some("base"), Some(false)));
    assert_eq!(base["wheels"][0]["sha256"], "ab".repeat(32));
    assert_eq!(std::fs::read_to_string(sandbox.path("other.toml")).unwrap(), text);
}

#[test]
fn failed_lock_reports_why_and_writes_nothing() {
    let Some(sandbox) = Sandbox::new() else { return };
    uv(&sandbox, "error: error sending request for url", 2);
    lock(&sandbox, &["cuda"]).fails(2, "toolkit.unknown-release").says(&["cuda@13.0"]);
    lock(&sandbox, &["cuda@12.9"]).fails(2, "toolkit.not-in-wheels").says(&["no compiler"]);
    lock(&sandbox, &["rocm@6.4"]).fails(2, "toolkit.not-in-wheels").says(&["7.13 and older"]);
    lock(&sandbox, &["vulkan@1"]).fails(2, "toolkit.unknown");
    assert!(!sandbox.exists("asked"), "uv was not called for any of these");
    lock(&sandbox, &["cuda@13.2"]).fails(1, "wheel.network");
    uv(&sandbox, "  × No solution found when resolving dependencies", 1);
    lock(&sandbox, &["cuda@13.99"]).fails(1, "wheel.not-found");
    uv(&sandbox, "<html>", 0);
    lock(&sandbox, &["cuda@13.2"]).fails(1, "toolkit.lock-unreadable");
    assert!(!sandbox.exists("cuda-13.2.toml") && !sandbox.exists("cuda-13.99.toml"));
}

#[test]
fn real_index_matches_the_embedded_locks() {
    if !requires("network") {
        skip("network", "GPUBUILD_REQUIRE does not name network");
        return;
    }
    let Some(sandbox) = Sandbox::new() else { return };
    // PATH has no uv, so the pinned version is fetched.
    let mut command = sandbox.command(&["toolkit", "lock", "cuda@13.0.3", "--output", "-"]);
    let is_setting = |name: &str| {
        let name = name.to_ascii_uppercase();
        ["PIP_", "UV_", "SSL_"].iter().any(|prefix| name.starts_with(prefix)) || name.ends_with("_PROXY")
    };
    command.envs(std::env::vars().filter(|(name, _)| is_setting(name)));
    let made = RunResult::from(command.output().unwrap()).succeeds().stdout.clone();
    let ours = include_str!("../../toolkits/locks/cuda-13.0.toml");
    let sums = |text: &str| {
        let mut sums: Vec<String> =
            text.split("sha256 = \"").skip(1).map(|rest| rest[..64].to_owned()).collect();
        sums.sort();
        sums
    };
    assert_eq!(sums(&made), sums(ours));
}
