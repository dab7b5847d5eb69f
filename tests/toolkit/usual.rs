//! What works.

use std::process::Stdio;

use crate::sandbox::{Ran, Sandbox};

#[test]
fn a_toolkit_is_installed_found_verified_and_removed() {
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
        assert!(!sandbox.exists("cache/toolkits/.cuda-13.0.partial"), "nothing is left over");
        let verified = sandbox.run(&["toolkit", "verify", "--json"]);
        assert_eq!(verified.succeeds().json()["toolkits"][0]["problems"], serde_json::json!([]));
        assert!(verified.json()["toolkits"][0]["compared"].as_u64().unwrap() >= 8);
        // It is an installation like any other.
        let detected = sandbox.run(&["detect", "--json"]).succeeds().json();
        assert!(detected.to_string().contains("\"found_via\":[\"gpubuild\"]"), "{detected:#}");
        let env = sandbox.run(&["toolkit", "env", "cuda@13.0"]);
        let nvcc = sandbox.prefix("bin/nvcc");
        assert!(env.succeeds().stdout.contains(&format!("export CUDACXX={}\n", nvcc.display())), "{env:#?}");
        sandbox.run(&["toolkit", "remove", "cuda"]).succeeds().says(&["removed cuda 13.0"]);
        sandbox.holds_nothing();
        sandbox.run(&["toolkit", "remove", "cuda"]).fails(2, "toolkit.not-installed");
        sandbox
            .run(&["toolkit", "env"])
            .fails(2, "toolkit.not-installed")
            .says(&["gpubuild toolkit install cuda"]);
    }
}

#[test]
fn a_second_call_starts_nothing_and_components_are_added_to_what_is_there() {
    let Some(sandbox) = Sandbox::new() else { return };
    sandbox.install(&[]).succeeds();
    // Neither Python nor a compiler is there to be started.
    let again =
        sandbox.command(&[&Sandbox::INSTALL[..], &["--json"]].concat()).env("PATH", "/nowhere").output();
    let again = Ran::from(again.unwrap());
    assert_eq!(again.succeeds().json()["state"], "unchanged");
    assert_eq!(again.stderr, "");
    // The wheels of the base are gone: they are not needed again.
    for wheel in &sandbox.wheels[..2] {
        std::fs::remove_file(&wheel.path).unwrap();
    }
    let more = sandbox.install(&["--with", "cublas", "--json"]);
    assert_eq!(more.succeeds().json()["installed"]["components"], serde_json::json!(["base", "cublas"]));
    assert_eq!(more.json()["taken_bytes"], sandbox.wheels[2].size);
    assert!(sandbox.prefix("lib/libcublas.so").is_file() && sandbox.prefix("bin/nvcc").is_file());
    // Asking for less takes nothing away.
    assert_eq!(sandbox.install(&["--json"]).succeeds().json()["state"], "unchanged");
    sandbox.run(&["toolkit", "verify", "cuda@13.0"]).succeeds();
}

#[test]
fn what_was_changed_is_found() {
    let Some(sandbox) = Sandbox::new() else { return };
    sandbox.install(&[]).succeeds();
    // Beside the wheel's file, not through it: both names are compared.
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
fn two_at_once_make_one_installation() {
    let Some(sandbox) = Sandbox::new() else { return };
    let start = || sandbox.command(&[&Sandbox::INSTALL[..], &["--json"]].concat()).spawn().unwrap();
    let both = [start(), start()].map(|child| Ran::from(child.wait_with_output().unwrap()));
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
fn a_kill_leaves_nothing_half_installed() {
    let Some(sandbox) = Sandbox::new() else { return };
    for milliseconds in [100, 700, 1400, 2100] {
        let mut child =
            sandbox.command(&Sandbox::INSTALL).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        if sandbox.exists("cache/toolkits/cuda-13.0") {
            sandbox.run(&["toolkit", "verify"]).succeeds();
        }
    }
    sandbox.install(&["--with", "cublas"]).succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
    // Between the two renames of a replacement.
    let (place, old) = ("cache/toolkits/cuda-13.0", "cache/toolkits/.cuda-13.0.old");
    std::fs::rename(sandbox.path(place), sandbox.path(old)).unwrap();
    for wheel in &sandbox.wheels {
        std::fs::remove_file(&wheel.path).unwrap();
    }
    sandbox.install(&[]).succeeds().says(&["is installed already"]);
    assert!(!sandbox.exists(old));
}

#[test]
fn without_a_c_compiler_the_stub_follows_later() {
    let Some(sandbox) = Sandbox::new() else { return };
    let python =
        sandbox.command(&[]).get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap().to_owned();
    let bin = std::env::split_paths(&python).next().unwrap();
    if ["cc", "gcc", "clang"].iter().any(|name| bin.join(name).exists())
        || crate::sandbox::on_path("cc").is_none()
    {
        crate::sandbox::skip("cc", "a C compiler lies beside Python, or nowhere");
        return;
    }
    let bare = Ran::from(sandbox.command(&Sandbox::INSTALL).env("PATH", &bin).output().unwrap());
    bare.succeeds().says(&["warning: `lib/stubs/libcuda.so`", "install a C compiler"]);
    assert!(!sandbox.prefix("lib/stubs/libcuda.so").exists());
    sandbox.install(&[]).succeeds();
    let stub = std::fs::read(sandbox.prefix("lib/stubs/libcuda.so")).unwrap();
    let has = |name: &[u8]| stub.windows(name.len()).any(|part| part == name);
    assert!(has(b"libcuda.so.1\0") && has(b"cuInit\0") && has(b"cuMemAlloc_v2\0"));
}

#[test]
fn what_would_be_done_is_told_without_doing_it() {
    let Some(sandbox) = Sandbox::new() else { return };
    let told = sandbox.run(&["toolkit", "install", "cuda@13.0", "--with", "cublas", "--dry-run", "--json"]);
    let plan = told.succeeds().json();
    assert_eq!(plan["version"], "13.0.3");
    let wheels = plan["wheels"].as_array().unwrap();
    assert!(wheels.iter().any(|wheel| wheel["package"] == "nvidia-cublas"));
    let sum: u64 = wheels.iter().map(|wheel| wheel["bytes"].as_u64().unwrap()).sum();
    assert_eq!(plan["download_bytes"], sum);
    assert!(!sandbox.exists("cache"), "nothing is done");
    let list = sandbox.run(&["toolkit", "list"]);
    for text in ["installed\n  none\n", "cuda@13.0 ", "cuda@13.5 ", "driver >= 580", "--with cublas (+"] {
        assert!(list.succeeds().stdout.contains(text), "`{text}` in {list:#?}");
    }
}
