//! `--json`: every command has it, and the documents about written files and CI jobs.
#![expect(clippy::disallowed_methods, reason = "tests read their own files")]

use std::path::Path;

use clap::Command;
use serde_json::{Value, json};

use crate::support::{Sandbox, is_on_path, recorded, skip};

/// Commands whose standard output belongs to a shell, to the user's program, or to a protocol.
const WITHOUT: [&str; 3] = ["run", "completions", "mcp"];

#[test]
fn every_command_accepts_json() {
    fn add_missing(command: &Command, path: &str, found: &mut Vec<String>) {
        let visible: Vec<&Command> = command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
        if visible.is_empty() && !command.get_arguments().any(|one| one.get_long() == Some("json")) {
            found.push(path.to_owned());
        }
        for one in visible {
            add_missing(one, format!("{path} {}", one.get_name()).trim_start(), found);
        }
    }
    let mut found = Vec::new();
    add_missing(&gpubuild::cli::command_line(), "", &mut found);
    assert_eq!(found, WITHOUT, "these commands have no `--json`");
}

/// The published schema of a document.
fn schema(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/schemas");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Runs a command with `--json`, and returns its document if it has the keys of the schema.
#[track_caller]
fn document(sandbox: &Sandbox, name: &str, arguments: &[&str]) -> Value {
    let document = sandbox.run(&[arguments, &["--json"]].concat()).succeeds().json();
    assert_eq!(document["schema"], json!({"name": name, "version": 1}));
    let (schema, keys) = (schema(name), document.as_object().unwrap());
    for key in schema["required"].as_array().unwrap() {
        assert!(keys.contains_key(key.as_str().unwrap()), "{key} is missing: {document}");
    }
    for key in keys.keys() {
        assert!(schema["properties"].get(key).is_some(), "the schema has no {key}: {document}");
    }
    document
}

/// The size of a file in the sandbox.
fn size(sandbox: &Sandbox, name: &str) -> u64 {
    std::fs::metadata(sandbox.path(name)).unwrap().len()
}

fn is_path_of(sandbox: &Sandbox, value: &Value, name: &str) -> bool {
    Path::new(value.as_str().unwrap()) == sandbox.path(name)
}

#[test]
fn clean_reports_removed_files() {
    let sandbox = Sandbox::with_project("gk");
    let none = document(&sandbox, "clean", &["clean"]);
    assert_eq!((&none["removed"], &none["files"]), (&json!(false), &json!(0)));
    sandbox.write(".gpubuild/demo/cpu/a.o", "12345");
    sandbox.write(".gpubuild/demo/b.o", "67");
    let some = document(&sandbox, "clean", &["clean"]);
    assert_eq!((&some["removed"], &some["files"], &some["bytes"]), (&json!(true), &json!(2), &json!(7)));
    assert!(is_path_of(&sandbox, &some["folder"], ".gpubuild/demo") && !sandbox.exists(".gpubuild/demo"));
    sandbox.write(".gpubuild/demo/b.o", "67");
    sandbox.run(&["clean"]).succeeds().says(&["(1 file, 2 bytes)"]);
}

#[cfg(unix)]
#[test]
fn clean_does_not_count_the_targets_of_links() {
    let sandbox = Sandbox::with_project("gk");
    sandbox.write("outside/large", "1234567890");
    sandbox.write(".gpubuild/demo/a.o", "123");
    sandbox.write(".gpubuild/demo/cpu/b.o", "4");
    for (target, link) in [("outside/large", "cpu/file"), ("outside", "cpu/folder")] {
        std::os::unix::fs::symlink(sandbox.path(target), sandbox.path(".gpubuild/demo").join(link)).unwrap();
    }
    let removed = document(&sandbox, "clean", &["clean"]);
    assert_eq!((&removed["files"], &removed["bytes"]), (&json!(4), &json!(4)));
    assert!(sandbox.exists("outside/large"));
}

#[test]
fn manual_pages_are_listed() {
    let sandbox = Sandbox::new();
    let pages = document(&sandbox, "man", &["man", "--out", "man1"]);
    assert!(is_path_of(&sandbox, &pages["folder"], "man1"));
    let files = pages["files"].as_array().unwrap();
    assert_eq!(files.len(), std::fs::read_dir(sandbox.path("man1")).unwrap().count());
    assert!(files.iter().all(|file| sandbox.exists(&format!("man1/{}", file.as_str().unwrap()))));
    assert!(files.contains(&json!("gpubuild-ci-matrix.1")));
    assert_eq!(sandbox.run(&["man", "build", "--json"]).exit, Some(2), "a page is not a document");
}

#[test]
fn recordings_and_reports_describe_their_files() {
    let sandbox = Sandbox::new();
    let host = recorded("debian-12-bare");
    let recording = document(&sandbox, "host-record", &["host", "record", "here.toml", "--host", &host]);
    assert!(is_path_of(&sandbox, &recording["file"], "here.toml"));
    let entries = sandbox.read("here.toml").lines().filter(|line| *line == "[[file]]").count();
    assert!(entries > 0);
    assert_eq!(recording["entries"], json!(entries));
    let again = sandbox.run(&["host", "record", "here.toml", "--host", &host, "--json"]);
    assert_eq!((again.exit, again.json()["error"]["id"].as_str()), (Some(2), Some("host.record-exists")));
    for (more, format) in [(None, "markdown"), (Some("--html"), "html")] {
        let arguments = ["report", "issue", "--host", &host, "--offline"];
        let report = document(&sandbox, "report", &[&arguments[..], more.as_slice()].concat());
        assert_eq!(report["format"], format);
        assert_eq!(report["bytes"], json!(size(&sandbox, "issue")));
        let doctor = sandbox.run(&["doctor", "--host", "here.toml", "--offline", "--json"]).json();
        assert_eq!(report["summary"], doctor["summary"]);
    }
    assert_eq!(sandbox.run(&["report", "--json"]).exit, Some(2), "the report itself goes to stdout");
}

/// A project with kernels for the CPU.
fn with_kernels() -> Sandbox {
    let sandbox = Sandbox::with_project("gk");
    sandbox.write("vendor/src/cpu/CMakeLists.txt", "");
    sandbox
}

/// A project with two variants in a repository of its own.
fn with_jobs() -> Sandbox {
    let sandbox = with_kernels();
    let table = sandbox.read("gpubuild.toml");
    let variants =
        "[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\nimages = [\"ubuntu-22.04\", \"ubuntu-24.04\"]\n";
    sandbox.write("gpubuild.toml", &(table + variants));
    sandbox.write(".git/HEAD", "");
    sandbox
}

#[test]
fn workflow_files_are_reported_with_their_jobs() {
    let sandbox = with_jobs();
    let file = ".github/workflows/gpubuild.yml";
    let missing = sandbox.run(&["ci", "verify", "--json"]);
    assert_eq!((missing.exit, missing.json()["error"]["id"].as_str()), (Some(2), Some("ci.missing")));
    for state in ["written", "up-to-date"] {
        let written = document(&sandbox, "ci-init", &["ci", "init"]);
        assert!(is_path_of(&sandbox, &written["file"], file), "{written}");
        assert_eq!(
            (&written["service"], &written["state"], &written["jobs"]),
            (&json!("github"), &json!(state), &json!(2))
        );
    }
    let gitlab = document(&sandbox, "ci-init", &["ci", "init", "--format", "gitlab"]);
    assert!(gitlab["note"].as_str().unwrap().contains(".gitlab-ci.yml"), "{gitlab}");
    let verified = document(&sandbox, "ci-verify", &["ci", "verify"]);
    let services: Vec<&Value> =
        verified["files"].as_array().unwrap().iter().map(|file| &file["service"]).collect();
    assert_eq!(services, ["github", "gitlab"]);
    assert_eq!(verified["files"][0]["jobs"], 2);
    sandbox.write(file, &sandbox.read(file).replace("on:", "on :"));
    let drift = sandbox.run(&["ci", "verify", "--json"]);
    assert_eq!((drift.exit, drift.json()["error"]["id"].as_str()), (Some(1), Some("ci.drift")));
}

#[test]
fn images_have_sizes_in_bytes() {
    let sandbox = Sandbox::new();
    let document = document(&sandbox, "ci-images", &["ci", "images"]);
    let images = document["images"].as_array().unwrap();
    let text = sandbox.run(&["ci", "images"]).succeeds().stdout.clone();
    assert_eq!(text.lines().count(), images.len());
    for (image, line) in images.iter().zip(text.lines()) {
        assert!(line.starts_with(image["id"].as_str().unwrap()), "{line}");
        assert!(image["memory_bytes"].as_u64() > Some(1 << 30), "{image}");
        assert!(image["disk_bytes"].as_u64() > Some(1 << 30), "{image}");
    }
    let with_cuda = images.iter().find(|image| image["toolkit"]["backend"] == "cuda").unwrap();
    assert!(with_cuda["container"].as_str().unwrap().contains("nvidia/cuda"), "{with_cuda}");
    assert!(images.iter().any(|image| image["default"] == true && image["github"].is_string()));
}

#[test]
fn planned_jobs_list_their_commands() {
    let sandbox = with_jobs();
    let planned = document(&sandbox, "ci-run", &["ci", "run", "cpu-ubuntu-24.04", "--dry-run"]);
    let text = sandbox.run(&["ci", "run", "cpu-ubuntu-24.04", "--dry-run"]).succeeds().stdout.clone();
    assert_eq!((&planned["job"], &planned["state"]), (&json!("cpu-ubuntu-24.04"), &json!("planned")));
    assert_eq!(planned["commands"], json!(text.lines().collect::<Vec<_>>()));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn jobs_write_the_output_of_their_commands_to_stderr() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let lines = "\n[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\nimages = [\"debian-12\"]\n";
    sandbox.write("gpubuild.toml", &(sandbox.read("gpubuild.toml") + lines));
    let arguments = ["ci", "run", "cpu-debian-12"];
    let plain = sandbox.run(&arguments);
    let first = plain.succeeds().stdout.lines().next().unwrap_or_default();
    assert!(!first.is_empty(), "the preflight prints its checks: {plain:#?}");
    assert_eq!(document(&sandbox, "ci-run", &arguments)["state"], "succeeded");
    sandbox.run(&[&arguments[..], &["--json"]].concat()).succeeds().says(&[first]);
    sandbox.write("vendor/adder.c", "this is not C;\n");
    let failed = sandbox.run(&[&arguments[..], &["--json"]].concat());
    assert_eq!((failed.exit, failed.json()["error"]["id"].as_str()), (Some(1), Some("ci.job-failed")));
}

#[test]
fn dry_run_names_the_environment() {
    let sandbox = with_kernels();
    let planned = |arguments: &[&str]| sandbox.run(arguments).succeeds().json_lines()[0].clone();
    let dry_run = ["build", "--backends", "cpu", "--dry-run", "--json"];
    if !is_on_path("cc") {
        skip("cmake", "no cc");
        return;
    }
    assert!(planned(&dry_run).get("environment").is_none());
    sandbox.write("gpubuild.toml", &(sandbox.read("gpubuild.toml") + "[python]\nvenv = \"env\"\n"));
    assert!(is_path_of(&sandbox, &planned(&dry_run)["environment"]["path"], "env"));
    let text = sandbox.run(&dry_run[..4]).succeeds().stdout.clone();
    assert!(text.contains("\nvenv ") && text.contains("wheels of the run-time libraries"), "{text}");
    assert!(planned(&[&dry_run[..], &["--no-venv"]].concat()).get("environment").is_none());
    let without = sandbox.run(&[&dry_run[..4], &["--no-venv"]].concat()).succeeds().stdout.clone();
    assert!(!without.contains("\nvenv "), "{without}");
    let plan = sandbox.run(&["plan", "--backends", "cpu", "--json"]).succeeds().json();
    assert!(is_path_of(&sandbox, &plan["environment"]["path"], "env"));
    assert!(!sandbox.exists("env"));
}
