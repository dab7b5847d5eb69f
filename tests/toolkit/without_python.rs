//! Installations on a machine that has neither uv nor pip.

use serde_json::json;

use crate::sandbox::{RunResult, Sandbox};
use crate::server::{Server, files};

const ONLINE: [&str; 5] = ["toolkit", "install", "cuda", "--lock", "lock.toml"];

/// The pages of an index with the wheels, and the wheels.
fn index(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let of_wheel = |wheel: &crate::wheels::Wheel| {
        let name = wheel.path.file_name().unwrap().to_str().unwrap();
        let file = json!({"filename": name, "url": format!("../../files/{name}"), "hashes": {"sha256": wheel.sha256}});
        let page = json!({"meta": {"api-version": "1.0"}, "name": wheel.package, "files": [file]});
        [
            (format!("simple/{}/", wheel.package), page.to_string().into_bytes()),
            (format!("files/{name}"), std::fs::read(&wheel.path).unwrap()),
        ]
    };
    sandbox.wheels.iter().flat_map(of_wheel).collect()
}

/// Runs the command with a folder as PATH that has no program, or a Python without pip and venv.
fn run(sandbox: &Sandbox, arguments: &[&str], index: &str) -> RunResult {
    let bare = sandbox.path("bare");
    std::fs::create_dir_all(&bare).unwrap();
    let mut command = sandbox.command(arguments);
    RunResult::from(command.env("PATH", &bare).env("PIP_INDEX_URL", index).output().unwrap())
}

#[test]
fn wheels_come_from_the_index_or_a_folder() {
    let Some(sandbox) = Sandbox::new() else { return };
    let server = Server::start(files(index(&sandbox)));
    run(&sandbox, &ONLINE, &server.url("simple")).succeeds();
    assert!(sandbox.prefix("bin/nvcc").is_file() && sandbox.prefix("include/cuda.h").is_file());
    sandbox.run(&["toolkit", "verify"]).succeeds();
    sandbox.run(&["toolkit", "remove", "cuda"]).succeeds();
    sandbox.script("bare/python3", "#!/bin/sh\necho \"$0: No module named pip\" >&2\nexit 1\n");
    run(&sandbox, &Sandbox::INSTALL, "http://127.0.0.1:1/simple").succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn wheels_that_are_missing_or_changed_are_refused() {
    let Some(sandbox) = Sandbox::new() else { return };
    let good = index(&sandbox);
    let without = |part: &str| good.iter().filter(|(name, _)| !name.contains(part)).cloned().collect();
    let mut changed = good.clone();
    changed[1].1.push(0);
    let mut other = good.clone();
    other[0].1 =
        String::from_utf8(other[0].1.clone()).unwrap().replace("none-any", "none-win32").into_bytes();
    for (served, id) in [
        (without("simple/nvidia-cuda-nvcc"), "wheel.not-found"),
        (without("files/nvidia_cuda_nvcc"), "wheel.not-found"),
        (changed, "wheel.hash-mismatch"),
        (other, "wheel.not-found"),
    ] {
        let server = Server::start(files(served));
        run(&sandbox, &ONLINE, &server.url("simple")).fails(1, id);
        sandbox.holds_nothing();
    }
    run(&sandbox, &ONLINE, "http://127.0.0.1:1/simple").fails(1, "wheel.network");
    run(&sandbox, &[&ONLINE[..], &["--offline"]].concat(), "http://127.0.0.1:1/simple")
        .fails(1, "fetch.offline");
    sandbox.holds_nothing();
}
