//! Generated cases for builds and the files that they leave: kills, damaged state, and actors that run at once.
//! `GPUBUILD_CASES` sets the number of cases of the long tests.

#[path = "../../common/kills.rs"]
mod common;
mod kills;
mod packs;
mod rounds;
mod stale;

use std::process::Command;

use crate::support::{RunResult, Sandbox};

/// Number of C files beside `adder.c`.
const UNITS: usize = 4;

/// A project with several C files, where `unit0` returns a number, and a public header.
fn project() -> Option<Sandbox> {
    let sandbox = Sandbox::with_library()?;
    let units: Vec<String> = (0..UNITS).map(|index| format!("u{index}.c")).collect();
    for (index, unit) in units.iter().enumerate() {
        sandbox.write(&format!("vendor/{unit}"), &format!("int unit{index}(void) {{ return {index}; }}\n"));
    }
    sandbox.write(
        "vendor/CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder STATIC adder.c {})\n\
             target_include_directories(adder PUBLIC include)\ntarget_link_libraries(adder PUBLIC m)\n",
            units.join(" ")
        ),
    );
    sandbox.write("tmp/.keep", "");
    set(&sandbox, 0);
    Some(sandbox)
}

/// Makes `unit0` return this number.
fn set(sandbox: &Sandbox, number: usize) {
    sandbox.write("vendor/u0.c", &format!("int unit0(void) {{ return {number}; }}\n"));
    sandbox.write("vendor/include/adder.h", &format!("#define ADDER {number}\nint unit0(void);\n"));
}

/// The command with its own store and temporary folder.
fn command(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command();
    command.env("GPUBUILD_STORE", sandbox.path("store")).env("TMPDIR", sandbox.path("tmp")).args(arguments);
    command
}

fn run(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    RunResult::from(command(sandbox, arguments).output().unwrap())
}

/// Checks that the library in a folder returns this number.
#[track_caller]
fn answers(sandbox: &Sandbox, library: &str, number: usize) {
    sandbox.write("main.c", "int unit0(void);\nint main(void) { return unit0(); }\n");
    sandbox.start(&["cc", "-o", "main", "main.c", library, "-lm"]).succeeds();
    assert_eq!(sandbox.start(&["./main"]).exit, Some(i32::try_from(number % 100).unwrap()));
}

const LIBRARY: &str = ".gpubuild/adder/cpu/libadder.a";

/// Checks that all entries of the store have files with the recorded hashes.
fn store_is_complete(sandbox: &Sandbox) {
    use gpubuild_exec::store::{maintain, settings};
    use gpubuild_host::{HostInfo, RealHost};
    let host = RealHost::new();
    let root = host.path(sandbox.path("store/v1").to_str().unwrap());
    let store = settings::Store { root, access: gpubuild_plan::project::CacheAccess::Readonly, limit: 0 };
    for item in maintain::items(&host, &store) {
        item.entry.as_ref().unwrap().verify(&host, &item.folder).unwrap();
    }
}
