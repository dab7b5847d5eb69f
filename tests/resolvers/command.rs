//! The command `gpubuild doctor --resolvers`.

use std::process::{Command, Output};

fn gpubuild(host: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpubuild"))
        .args(["doctor", "--resolvers", "--host"])
        .arg(format!("{}/tests/hosts/{host}.toml", env!("CARGO_MANIFEST_DIR")))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn resolvers_document_lists_choices_and_reasons() {
    let output = gpubuild("debian-12-split-cuda", &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], serde_json::json!({"name": "resolvers", "version": 1}));
    assert_eq!(document["agree"], false);
    assert_eq!(document["chosen"][0]["root"], "/usr");
    let resolvers = document["resolvers"].as_array().unwrap();
    let find = |id: &str| resolvers.iter().find(|one| one["id"] == id).unwrap();
    let package = find("cmake-cuda-package");
    assert_eq!(package["takes"]["compiler"], "/usr/bin/nvcc");
    assert_eq!(package["takes"]["version"], "11.8");
    assert_eq!(package["agrees"], true);
    assert_eq!(find("find-cuda-helper")["error"], "Could not find a cuda installation");
    assert_eq!(find("find-cuda-helper")["agrees"], false);
    assert_eq!(document["lines"][0]["text"], "export CUDA_PATH=/usr");
    assert_eq!(document["lines"][0]["changes"][0]["action"], "set");
    assert_eq!(document["cmake"][0]["text"], "-DCMAKE_CUDA_COMPILER=/usr/bin/nvcc");
    assert!(document["exceptions"].as_array().unwrap().iter().all(|one| one["reason"] != ""));
}

#[test]
fn resolvers_respect_backends_and_severity() {
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let disagree = gpubuild("debian-12-split-cuda", &["--fail-on", "warning"]);
    assert_eq!(disagree.status.code(), Some(1));
    let agree = gpubuild("arch-cuda", &["--fail-on", "warning"]);
    assert_eq!(agree.status.code(), Some(0));
    assert!(
        text(&agree).starts_with("CUDA Toolkit: all build systems select the same copy\n"),
        "{}",
        text(&agree)
    );
    let asked = text(&gpubuild("ubuntu-22.04-rtx4090", &["--backends", "vulkan"]));
    assert!(asked.contains("Vulkan SDK") && !asked.contains("CUDA Toolkit"), "{asked}");
    let bare = text(&gpubuild("debian-12-bare", &[]));
    assert_eq!(bare, "no toolkit found that build systems search for\n");
    let missing = text(&gpubuild("debian-12-bare", &["--backends", "cuda"]));
    assert!(missing.starts_with("CUDA Toolkit: no complete copy\n"), "{missing}");
}

#[test]
fn resolvers_conflicts_with_other_modes() {
    for other in [&["--fix"] as &[&str], &["--validate"], &["--format", "sarif"], &["--list-checks"]] {
        assert_eq!(gpubuild("arch-cuda", other).status.code(), Some(2), "{other:?}");
    }
}
