//! `gpubuild resolve --python --install` with a uv that the test replaces: it writes what a package leaves in an environment.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{RunResult, Sandbox, is_on_path, recorded, skip};

/// Installs the requirement by creating its metadata. `FAKE_VERSION` is the version.
const UV: &str = r#"#!/bin/sh
echo "$*" >> calls
[ "$1" = --version ] && { echo "uv 0.9.0"; exit 0; }
[ -n "$FAKE_FAILS" ] && { echo "error: no route to index" >&2; exit 2; }
site=$(echo env/lib/python3*/site-packages)
for word in "$@"; do
  case "$word" in torch*|cupy*|onnxruntime*) name=$(echo "$word" | sed 's/[^a-z0-9-].*//;s/-/_/g') ;; esac
done
rm -rf "$site/$name-"*.dist-info
mkdir -p "$site/$name-${FAKE_VERSION:-2.9.0}.dist-info"
"#;

fn sandbox() -> Option<Sandbox> {
    if !is_on_path("python3") {
        skip("python", "no python3");
        return None;
    }
    let sandbox = Sandbox::new();
    sandbox.write("bin/uv", UV);
    std::fs::set_permissions(sandbox.path("bin/uv"), std::fs::Permissions::from_mode(0o755)).unwrap();
    if !sandbox.start(&["python3", "-m", "venv", "--without-pip", "env"]).is_success() {
        skip("python", "no venv module");
        return None;
    }
    Some(sandbox)
}

fn resolve(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> RunResult {
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    let mut command = sandbox.command();
    command.env("PATH", path).envs(variables.iter().copied());
    RunResult::from(command.args(["resolve", "--python"]).args(arguments).output().unwrap())
}

fn calls(sandbox: &Sandbox) -> Vec<String> {
    let calls = sandbox.read("calls");
    calls.lines().filter(|line| line.starts_with("pip install")).map(str::to_owned).collect()
}

#[test]
fn named_packages_are_installed_from_their_index() {
    let Some(sandbox) = sandbox() else { return };
    let choice = resolve(&sandbox, &["--json"], &[]).succeeds().json()["gpus"][0]["torch"].clone();
    let ran = resolve(&sandbox, &["--install=torch", "--venv", "env", "--json"], &[]);
    let document = ran.succeeds().json();
    ran.says(&["installing torch", "/env"]);
    let packages = &document["installed"]["packages"];
    assert_eq!((&packages[0]["package"], &packages[0]["state"]), (&"torch".into(), &"installed".into()));
    let calls = calls(&sandbox);
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].contains("--python") && calls[0].contains("/env/bin/python"), "{calls:?}");
    if let Value::String(index) = &choice["index"] {
        assert!(calls[0].ends_with(&format!("--index-url {index}")), "{calls:?}");
    }
}

#[test]
fn all_fitting_packages_are_installed_and_another_build_is_replaced() {
    let Some(sandbox) = sandbox() else { return };
    let active = sandbox.path("env").display().to_string();
    let variables = [("VIRTUAL_ENV", active.as_str())];
    let text = resolve(&sandbox, &["--install"], &variables);
    let lines: Vec<String> = text.succeeds().stdout.lines().map(str::to_owned).collect();
    assert_eq!(lines[0], active);
    assert!(lines.iter().any(|line| line.starts_with("  torch 2.9.0")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("onnxruntime")), "{lines:?}");
    // A build for no known machine is replaced, although its version satisfies the requirement.
    let site = sandbox.start(&["sh", "-c", "echo env/lib/python3*/site-packages"]).stdout.trim().to_owned();
    sandbox.start(&["sh", "-c", "rm -r env/lib/python3*/site-packages/torch-*"]).succeeds();
    sandbox.write(&format!("{site}/torch-2.9.0+cu1.dist-info/METADATA"), "Name: torch\n");
    let ran = resolve(&sandbox, &["--install=torch", "--json"], &variables);
    let document = ran.succeeds().json();
    if document["gpus"][0]["torch"]["index"].is_string() {
        assert!(calls(&sandbox).last().unwrap().contains("--reinstall-package torch"));
    }
    assert_eq!(document["installed"]["packages"][0]["state"], "replaced");
}

#[test]
fn failures_name_the_package_and_the_message() {
    let Some(sandbox) = sandbox() else { return };
    let ran = resolve(&sandbox, &["--install=torch", "--venv", "env"], &[("FAKE_FAILS", "1")]);
    ran.fails(1, "venv.package-failed").says(&["`torch", "error: no route to index"]);
    sandbox.write("other/file", "");
    resolve(&sandbox, &["--install", "--venv", "other"], &[]).fails(2, "venv.not-an-environment");
    let recording = recorded("ubuntu-22.04-h200");
    assert_eq!(resolve(&sandbox, &["--install", "--host", &recording], &[]).exit, Some(2));
    assert_eq!(sandbox.run(&["resolve", "--install"]).exit, Some(2));
}
