//! `cargo gpubuild`.
#![expect(clippy::disallowed_methods, reason = "tests start cargo")]

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{RunResult, Sandbox};

/// Both programs in one folder, as every package installs them.
fn installed() -> Sandbox {
    let folder = Sandbox::new();
    folder.write("bin/.keep", "");
    for program in [env!("CARGO_BIN_EXE_gpubuild"), env!("CARGO_BIN_EXE_cargo-gpubuild")] {
        let name = Path::new(program).file_name().unwrap();
        std::fs::copy(program, folder.path("bin").join(name)).unwrap();
    }
    folder
}

/// `cargo ARGUMENTS` with the folder of the programs on PATH.
fn cargo(folder: &Sandbox, arguments: &[&str]) -> Output {
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([folder.path("bin")].into_iter().chain(std::env::split_paths(&path)));
    Command::new(env!("CARGO"))
        .args(arguments)
        .env("PATH", path.unwrap())
        .env("GPUBUILD_CACHE", folder.path("cache"))
        .current_dir(folder.path(""))
        .output()
        .unwrap()
}

#[test]
fn cargo_starts_gpubuild_with_the_same_arguments() {
    let folder = installed();
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/ubuntu-24.04-nouveau.toml");
    let own = folder.command().args(["detect", "--json", "--host", host]).output().unwrap();
    let result = cargo(&folder, &["gpubuild", "detect", "--json", "--host", host]);
    assert_eq!(String::from_utf8_lossy(&result.stdout), String::from_utf8_lossy(&own.stdout));
    assert!(result.status.success() && !result.stdout.is_empty(), "{result:?}");
}

#[test]
fn exit_codes_and_help_are_those_of_gpubuild() {
    let folder = installed();
    let wrong = RunResult::from(cargo(&folder, &["gpubuild", "plan", "--backends", "gpu"]));
    assert_eq!(wrong.exit, Some(2), "{wrong:?}");
    let help = RunResult::from(cargo(&folder, &["help", "gpubuild"]));
    assert!(help.exit == Some(0) && help.stdout.contains("Usage: gpubuild"), "{help:?}");
    let list = RunResult::from(cargo(&folder, &["--list"]));
    assert!(list.stdout.lines().any(|line| line.trim() == "gpubuild"), "{list:?}");
}

#[test]
fn missing_gpubuild_is_an_error() {
    let folder = installed();
    let name = format!("gpubuild{}", std::env::consts::EXE_SUFFIX);
    std::fs::remove_file(folder.path("bin").join(&name)).unwrap();
    let alone = folder.path("bin").join(format!("cargo-{name}"));
    let output = Command::new(alone).args(["gpubuild", "detect"]).env("PATH", folder.path("bin")).output();
    let result = RunResult::from(output.unwrap());
    assert_eq!(result.exit, Some(127), "{result:?}");
    assert!(result.stderr.contains("[cargo.not-started]") && result.stderr.contains("hint:"), "{result:?}");
}
