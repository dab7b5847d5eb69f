//! Paths that are not UTF-8: refused with an id, and nothing is written, neither there nor under a similar name.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests create folders whose names are not UTF-8")]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::support::{RunResult, Sandbox, recorded};

/// `café` in Latin-1.
const NAME: &[u8] = b"caf\xe9";

fn name() -> &'static OsStr {
    OsStr::from_bytes(NAME)
}

/// Everything below a folder.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(folder).sort_by_file_name();
    entries.into_iter().map(|entry| entry.unwrap().into_path()).collect()
}

/// The command lines of all commands that end in one option with a value or one argument, without that value.
fn command_lines() -> Vec<Vec<String>> {
    fn add(command: &clap::Command, above: &[String], lines: &mut Vec<Vec<String>>) {
        // A fixed set of values cannot be a path; clap lists it in its error.
        let is_free = |argument: &&clap::Arg| {
            argument.get_action().takes_values() && argument.get_possible_values().is_empty()
        };
        for argument in command.get_arguments().filter(is_free) {
            let option = match (argument.get_long(), argument.get_short()) {
                (Some(long), _) => vec![format!("--{long}")],
                (None, Some(short)) => vec![format!("-{short}")],
                // Arguments for the program of `run` come after `--`.
                (None, None) if argument.is_last_set() => vec!["--".to_owned()],
                (None, None) => Vec::new(),
            };
            lines.push([above, &option].concat());
        }
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            add(inner, &[above, &[inner.get_name().to_owned()]].concat(), lines);
        }
    }
    let mut lines = Vec::new();
    add(&gpubuild::cli::command_line(), &[], &mut lines);
    lines
}

#[test]
fn every_option_of_every_command_refuses_a_path_that_is_not_utf8() {
    let sandbox = Sandbox::with_project("gk");
    std::fs::create_dir(sandbox.path("").join(name())).unwrap();
    let before = tree(&sandbox.path(""));
    let lines = command_lines();
    assert!(lines.len() > 120, "{}", lines.len());
    for line in lines {
        let path = sandbox.path("").join(name());
        // Some options require `=`.
        let with_equals = match line.last() {
            Some(option) if option.starts_with("--") && option != "--" => {
                let mut joined = OsString::from(option);
                joined.push("=");
                joined.push(&path);
                Some((&line[..line.len() - 1], joined))
            }
            _ => None,
        };
        let (words, value) = with_equals.unwrap_or((&line[..], path.into_os_string()));
        let output = sandbox.command().args(words).arg(value).output().unwrap();
        let ran = RunResult {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            exit: output.status.code(),
        };
        assert_eq!(ran.exit, Some(2), "{line:?}: {ran:#?}");
        assert!(ran.stderr.contains("[usage.path-not-utf8]"), "{line:?}: {ran:#?}");
        assert!(ran.stdout.is_empty(), "{line:?}: {ran:#?}");
    }
    assert_eq!(tree(&sandbox.path("")), before);
}

#[test]
fn no_command_writes_to_a_similar_name_of_the_current_folder() {
    let sandbox = Sandbox::new();
    let here = sandbox.path("place").join(name());
    std::fs::create_dir_all(&here).unwrap();
    let host = recorded("debian-12-bare");
    for command in [
        &["install", "--json", "--manifest", "release", "--to", "to"][..],
        &["install", "--json", "--rollback", "--to", "to"],
        &["new", "demo", "--template", "cpp-library", "--json"],
        &["export", "out", "--json"],
        &["pack", "--out", "out", "--json"],
        &["build", "--json"],
        &["clean", "--json"],
        &["plan", "--json"],
        &["report", "--json", "report.toml"],
        &["host", "record", "machine.toml", "--json"],
        &["man", "--out", "man", "--json"],
        &["doctor", "--json", "--host", &host, "--save", "state.json"],
        &["ci", "init", "github", "--json"],
        &["venv", "--json", "--venv", "env"],
    ] {
        let output = sandbox.command().current_dir(&here).args(command).output().unwrap();
        let ran = RunResult::from(output);
        assert_eq!(ran.exit, Some(2), "{command:?}: {ran:#?}");
        // The others have an argument error of their own first.
        if !ran.stderr.contains("error: unexpected argument") {
            assert!(ran.stderr.contains("[usage.path-not-utf8]"), "{command:?}: {ran:#?}");
        }
        assert_eq!(tree(&sandbox.path("place")), [sandbox.path("place"), here.clone()], "{command:?}");
    }
}

#[test]
fn variables_with_paths_that_are_not_utf8_are_refused_and_others_are_ignored() {
    let sandbox = Sandbox::new();
    let value = sandbox.path("").join(name());
    for variable in ["HOME", "GPUBUILD_CACHE", "XDG_DATA_HOME", "TMPDIR", "CUDA_PATH"] {
        let output = sandbox.command().env(variable, &value).args(["detect"]).output().unwrap();
        let ran = RunResult::from(output);
        assert_eq!(ran.exit, Some(2), "{variable}: {ran:#?}");
        assert!(
            ran.stderr.contains(variable) && ran.stderr.contains("[usage.variable-not-utf8]"),
            "{ran:#?}"
        );
    }
    let path = std::env::join_paths([value.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let mut command = sandbox.command();
    let output =
        command.env("UNRELATED", &value).env("PATH", path).args(["detect", "--json"]).output().unwrap();
    RunResult::from(output).succeeds();
}

#[test]
fn invalid_command_lines_and_variables_have_a_document() {
    let sandbox = Sandbox::new();
    let value = sandbox.path("").join(name());
    let error = |command: &mut std::process::Command| {
        let ran = RunResult::from(command.output().unwrap());
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        let document = ran.json();
        let error = if document["reason"] == "error" {
            assert_eq!(ran.stdout.lines().count(), 1);
            &document["error"]
        } else {
            &document["error"]
        };
        error["id"].as_str().unwrap().to_owned()
    };
    for before in [
        &["plan", "--json", "--project"][..],
        &["build", "--json", "--project"],
        &["doctor", "--format", "json", "--file"],
    ] {
        assert_eq!(error(sandbox.command().args(before).arg(&value)), "usage.path-not-utf8", "{before:?}");
    }
    for wrong in [
        &["detect", "--json", "--unknown"][..],
        &["build", "--message-format=json", "--jobs", "0"],
        &["ci", "--json"],
        &["nothing", "--json"],
    ] {
        assert_eq!(error(sandbox.command().args(wrong)), "usage.invalid", "{wrong:?}");
    }
    assert_eq!(
        error(sandbox.command().env("HOME", &value).args(["detect", "--json"])),
        "usage.variable-not-utf8"
    );
    let ran = RunResult::from(sandbox.command().args(["run", "--", "--json"]).arg(&value).output().unwrap());
    assert!(ran.stdout.is_empty(), "{ran:#?}");
}
