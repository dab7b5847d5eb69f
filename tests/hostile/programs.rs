//! Programs that print payloads: compilers, CMake and the programs of a release.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "tests write their own programs")]

use std::os::unix::fs::PermissionsExt as _;

use crate::check::Form;
use crate::payloads::{bundle, payloads};
use crate::runs::{Runs, call};

/// Answers `--version`, prints the payload on both streams for everything else, and fails.
const PROGRAM: &str = r#"#!/bin/sh
case "$1" in --version|-v|-dumpversion) echo "NAME version 3.31.0"; [ -f loud ] && cat payload; exit 0;; esac
cat payload; cat payload >&2
exit 1
"#;

fn programs(payloads: &[String]) {
    let mut runs = Runs::new("output of programs");
    for name in ["cmake", "ninja", "cc", "c++", "gcc", "g++", "clang", "nvcc", "python3", "ccache"] {
        runs.write(&format!("bin/{name}"), &PROGRAM.replace("NAME", name));
        let file = runs.path(&format!("bin/{name}"));
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", runs.path("bin").display());
    runs.set("PATH", &path);
    runs.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nbackends = [\"cpu\"]\n",
    );
    runs.write("vendor/CMakeLists.txt", "cmake_minimum_required(VERSION 3.24)\nproject(x C)\n");
    for payload in payloads {
        runs.write("payload", payload);
        runs.run(&call(Form::Text, "build"));
        runs.run(&call(Form::Text, "build -v"));
        runs.run(&call(Form::Text, "build -v --color always").without_styles());
        runs.run(&call(Form::Lines, "build --message-format json"));
        runs.run(&call(Form::Text, "doctor --validate --backends cpu --fail-on never"));
        runs.run(&call(Form::Text, "venv"));
        runs.write("loud", "");
        runs.run(&call(Form::Text, "detect -v"));
        runs.run(&call(Form::Text, "doctor -v --fail-on never"));
        std::fs::remove_file(runs.path("loud")).unwrap();
    }
    runs.finish(2);
}

#[test]
fn program_with_hostile_output() {
    programs(&[bundle(), "\u{1b}[31m::error::x\u{1b}[0m\r##[error]y\n".to_owned()]);
}

#[test]
#[ignore = "takes minutes"]
fn all_programs_with_hostile_output() {
    programs(&payloads());
}
