//! The life of an installation: install, find, verify, remove.

use crate::sandbox::{RunResult, Sandbox};

#[test]
fn toolkit_is_installed_found_verified_and_removed() {
    for sandbox in [Sandbox::new(), Sandbox::with_uv()].into_iter().flatten() {
        sandbox.holds_nothing();
        let installed = sandbox.install(&["--json"]);
        installed.succeeds().says(&[
            "installing cuda 13.0.3 into",
            "to download",
            "of disk",
            "nvidia-cuda-nvcc",
        ]);
        let document = installed.json();
        assert_eq!(document["schema"]["name"], "toolkit-install");
        assert_eq!(document["state"], "installed");
        assert_eq!(document["installed"]["components"], serde_json::json!(["base"]));
        for name in
            ["bin/nvcc", "include/cuda.h", "lib/libcudart.so.13", "version.json", "lib64/libcudart.so"]
        {
            assert!(sandbox.prefix(name).is_file(), "{name}");
        }
        assert!(std::fs::read_to_string(sandbox.prefix("version.json")).unwrap().contains("\"13.0.3\""));
        assert!(!sandbox.exists("cache/toolkits/.cuda-13.0.partial"), "the partial folder is gone");
        let verified = sandbox.run(&["toolkit", "verify", "--json"]);
        assert_eq!(verified.succeeds().json()["toolkits"][0]["problems"], serde_json::json!([]));
        assert!(verified.json()["toolkits"][0]["compared"].as_u64().unwrap() >= 8);
        // `detect` finds it like any other installation.
        let detected = sandbox.run(&["detect", "--json"]).succeeds().json();
        assert!(detected.to_string().contains("\"found_via\":[\"gpubuild\"]"), "{detected:#}");
        let env = sandbox.run(&["toolkit", "env", "cuda@13.0"]);
        let nvcc = sandbox.prefix("bin/nvcc");
        assert!(env.succeeds().stdout.contains(&format!("export CUDACXX={}\n", nvcc.display())), "{env:#?}");
        sandbox.run(&["toolkit", "remove", "cuda"]).succeeds().says(&["removed cuda 13.0"]);
        sandbox.holds_nothing();
        sandbox.run(&["toolkit", "remove", "cuda"]).fails(2, "toolkit.not-installed");
        sandbox.run(&["toolkit", "env"]).fails(2, "toolkit.not-installed").says(&["gpubuild toolkit list"]);
    }
}

#[test]
fn second_install_is_a_no_op_and_components_are_added() {
    let Some(sandbox) = Sandbox::new() else { return };
    sandbox.install(&[]).succeeds();
    // Neither Python nor a compiler is available.
    let again =
        sandbox.command(&[&Sandbox::INSTALL[..], &["--json"]].concat()).env("PATH", "/nowhere").output();
    let again = RunResult::from(again.unwrap());
    assert_eq!(again.succeeds().json()["state"], "unchanged");
    assert_eq!(again.stderr, "");
    // The base wheels were deleted and are not needed again.
    for wheel in &sandbox.wheels[..2] {
        std::fs::remove_file(&wheel.path).unwrap();
    }
    let more = sandbox.install(&["--with", "cublas", "--json"]);
    assert_eq!(more.succeeds().json()["installed"]["components"], serde_json::json!(["base", "cublas"]));
    assert_eq!(more.json()["taken_bytes"], sandbox.wheels[2].size);
    assert!(sandbox.prefix("lib/libcublas.so").is_file() && sandbox.prefix("bin/nvcc").is_file());
    // Requesting fewer components removes nothing.
    assert_eq!(sandbox.install(&["--json"]).succeeds().json()["state"], "unchanged");
    sandbox.run(&["toolkit", "verify", "cuda@13.0"]).succeeds();
}

#[test]
fn modified_files_are_reported_by_verify() {
    let Some(sandbox) = Sandbox::new() else { return };
    sandbox.install(&[]).succeeds();
    // Replaces the installed file instead of writing through its hard link: both names are verified.
    let header = sandbox.prefix("include/cuda.h");
    std::fs::remove_file(&header).unwrap();
    std::fs::write(&header, "another").unwrap();
    std::fs::remove_file(sandbox.prefix("lib/libcudart.so")).unwrap();
    std::fs::remove_file(sandbox.prefix("bin/nvcc")).unwrap();
    let verified = sandbox.run(&["toolkit", "verify", "--json"]);
    assert_eq!(verified.exit, Some(1), "{verified:#?}");
    let problems = verified.json()["toolkits"][0]["problems"].clone();
    let ids: Vec<&str> = problems.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let expected =
        ["toolkit.file-missing", "toolkit.file-changed", "toolkit.link-wrong", "toolkit.does-not-run"];
    assert_eq!(ids, expected, "{problems:#}");
}

#[test]
fn concurrent_installs_create_one_installation() {
    let Some(sandbox) = Sandbox::new() else { return };
    let start = || sandbox.command(&[&Sandbox::INSTALL[..], &["--json"]].concat()).spawn().unwrap();
    let both = [start(), start()].map(|child| RunResult::from(child.wait_with_output().unwrap()));
    let mut states: Vec<String> =
        both.iter().map(|ran| ran.succeeds().json()["state"].as_str().unwrap().to_owned()).collect();
    states.sort();
    assert_eq!(states, ["installed", "unchanged"], "{both:#?}");
    let waited =
        both.iter().filter(|ran| ran.stderr.contains("waiting for another installation of cuda 13.0"));
    assert_eq!(waited.count(), 1, "{both:#?}");
    sandbox.run(&["toolkit", "verify"]).succeeds();
}

#[test]
fn install_killed_between_two_renames_is_completed() {
    let Some(sandbox) = Sandbox::new() else { return };
    sandbox.install(&["--with", "cublas"]).succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
    // The state between the two renames of a replacement.
    let (current, old) = ("cache/toolkits/cuda-13.0", "cache/toolkits/.cuda-13.0.old");
    std::fs::rename(sandbox.path(current), sandbox.path(old)).unwrap();
    for wheel in &sandbox.wheels {
        std::fs::remove_file(&wheel.path).unwrap();
    }
    sandbox.install(&[]).succeeds().says(&["is already installed"]);
    assert!(!sandbox.exists(old));
}

#[test]
fn driver_stub_is_created_once_a_c_compiler_exists() {
    let Some(sandbox) = Sandbox::new() else { return };
    if crate::sandbox::on_path("cc").is_none() {
        crate::sandbox::skip("cc", "no cc");
        return;
    }
    // A folder with Python only.
    let python = format!("#!/bin/sh\nexec '{}' \"$@\"\n", sandbox.python.display());
    let bin = sandbox.script("bare/python3", &python).parent().unwrap().to_owned();
    let bare = RunResult::from(sandbox.command(&Sandbox::INSTALL).env("PATH", &bin).output().unwrap());
    bare.succeeds().says(&["the stub library `lib/stubs/libcuda.so` was not built", "install a C compiler"]);
    assert!(!sandbox.prefix("lib/stubs/libcuda.so").exists());
    sandbox.install(&[]).succeeds();
    let stub = std::fs::read(sandbox.prefix("lib/stubs/libcuda.so")).unwrap();
    let has = |name: &[u8]| stub.windows(name.len()).any(|part| part == name);
    assert!(has(b"libcuda.so.1\0") && has(b"cuInit\0") && has(b"cuMemAlloc_v2\0"));
}

#[test]
fn dry_run_reports_the_plan_and_changes_nothing() {
    let Some(sandbox) = Sandbox::new() else { return };
    let dry_run =
        sandbox.run(&["toolkit", "install", "cuda@13.0", "--with", "cublas", "--dry-run", "--json"]);
    let plan = dry_run.succeeds().json();
    assert_eq!(plan["version"], "13.0.3");
    let wheels = plan["wheels"].as_array().unwrap();
    assert!(wheels.iter().any(|wheel| wheel["package"] == "nvidia-cublas"));
    let sum: u64 = wheels.iter().map(|wheel| wheel["bytes"].as_u64().unwrap()).sum();
    assert_eq!(plan["download_bytes"], sum);
    assert!(!sandbox.exists("cache"), "nothing is installed");
    let list = sandbox.run(&["toolkit", "list"]);
    for text in ["installed\n  none\n", "cuda@13.0 ", "cuda@13.5 ", "driver >= 580", "--with cublas (+"] {
        assert!(list.succeeds().stdout.contains(text), "`{text}` in {list:#?}");
    }
}
