//! Builds through the command line: output while they run, failures, and what they leave.

use serde_json::Value;

use crate::support::{ADDER, RunResult, Sandbox};

const BROKEN: &str = "double add(double x)\n{\n  return x + nothing;\n}\n";

/// Checks properties of every stream of JSON lines and returns its last line.
#[track_caller]
fn last_line(ran: &RunResult) -> Value {
    let lines = ran.json_lines();
    assert!(lines.iter().all(|line| line["reason"].is_string()), "{ran:#?}");
    let ends = lines.iter().filter(|line| line["reason"] == "done" || line["reason"] == "error").count();
    assert_eq!(ends, 1, "exactly one line has the outcome: {ran:#?}");
    lines.last().unwrap().clone()
}

const JSON: [&str; 3] = ["build", "--message-format", "json"];

#[test]
fn json_lines_report_every_event_and_the_outcome() {
    let Some(project) = Sandbox::with_library() else { return };
    let ran = project.run(&JSON);
    ran.succeeds();
    assert_eq!(ran.stderr, "", "JSON output has no text on stderr");
    let done = last_line(&ran);
    assert_eq!((done["reason"].as_str(), done["state"].as_str()), (Some("done"), Some("built")));
    assert!(done["manifest"].as_str().unwrap().ends_with("manifest.json"));
    let lines = ran.json_lines();
    for reason in ["configuring", "configured", "progress", "finished"] {
        assert!(lines.iter().any(|line| line["reason"] == reason), "{reason} is missing in {ran:#?}");
    }
    let again = project.run(&JSON);
    assert_eq!(last_line(&again)["state"], "unchanged");
    assert!(again.json_lines().iter().all(|line| line["reason"] != "progress"), "{again:#?}");
}

#[test]
fn json_lines_of_a_failed_build_end_with_the_error() {
    let Some(project) = Sandbox::with_library() else { return };
    project.write("vendor/adder.c", BROKEN);
    let ran = project.run(&JSON);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let end = last_line(&ran);
    assert_eq!((end["reason"].as_str(), end["exit"].as_i64()), (Some("error"), Some(1)));
    assert_eq!(end["error"]["id"], "build.compile-failed");
    let lines = ran.json_lines();
    let failed =
        lines.iter().find(|line| line["reason"] == "failed").expect("an event reports the tree that failed");
    assert!(failed["error"]["file"].as_str().unwrap().ends_with("adder.c"), "{failed}");
    assert_eq!(failed["error"]["line"], 3);
    assert!(failed["error"]["message"].as_str().unwrap().contains("nothing"), "{failed}");
}

#[test]
fn json_lines_report_rejected_requests() {
    let project = Sandbox::with_project("gk");
    for (arguments, id) in [
        (["--backends", "quantum"], "backend.unknown"),
        (["--backends", "metal"], "plan.refused"),
        (["--project", "/nowhere/at/all"], "project.not-found"),
    ] {
        let ran = project.run(&[JSON.as_slice(), &arguments].concat());
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        assert_eq!(last_line(&ran)["error"]["id"], id);
    }
    let ran = project.run(&[JSON.as_slice(), &["--run"]].concat());
    assert_eq!(ran.exit, Some(2), "program output and events cannot share stdout: {ran:#?}");
    assert_eq!(last_line(&ran)["error"]["id"], "usage.conflict");
}

#[test]
fn json_dry_run_prints_one_line_and_builds_nothing() {
    let Some(project) = Sandbox::with_library() else { return };
    let ran = project.run(&[JSON.as_slice(), &["--dry-run"]].concat());
    let lines = ran.succeeds().json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (lines[0]["reason"].as_str(), lines[0]["schema"]["name"].as_str()),
        (Some("plan"), Some("plan"))
    );
    assert_eq!(lines[0]["trees"][0]["targets"][0], "adder");
    assert!(!project.exists(".gpubuild"));
}

#[test]
fn compile_error_shows_location_and_log() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    let good = project.run(&["link"]).succeeds().stdout.clone();
    project.write("vendor/adder.c", BROKEN);
    let ran = project.run(&["build"]);
    ran.fails(1, "build.compile-failed").says(&["adder.c:3:", "nothing", "hint: the full log is `"]);
    let log = ran.stderr.split("the full log is `").nth(1).unwrap().split('`').next().unwrap();
    let log = project.read(log);
    assert!(log.contains("nothing") && log.contains("adder.c"), "{log}");
    assert_eq!(project.run(&["link"]).succeeds().stdout, good, "the last successful build stays usable");
    project.write("vendor/adder.c", ADDER);
    project.run(&["build"]).succeeds();
    assert_eq!(project.run(&["link"]).succeeds().stdout, good);
}

#[test]
fn configure_failure_shows_the_cmake_error() {
    let Some(project) = Sandbox::with_library() else { return };
    let scripts = "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\n";
    let good = project.read("vendor/CMakeLists.txt");
    let bad = format!("{scripts}message(FATAL_ERROR \"no luck today\")\n");
    project.write("vendor/CMakeLists.txt", &bad);
    for _ in 0..2 {
        project.run(&["build"]).fails(1, "build.configure-failed").says(&[
            "CMakeLists.txt:3",
            "no luck today",
            "the full log is `",
        ]);
        project.run(&["link"]).fails(2, "manifest.missing").says(&["hint: run `gpubuild build`"]);
    }
    project.write("vendor/CMakeLists.txt", &good);
    project.run(&["build"]).succeeds();
    project.write("vendor/CMakeLists.txt", &bad);
    project.run(&["build"]).fails(1, "build.configure-failed").says(&["no luck today"]);
    project.run(&["link"]).succeeds();
}

#[test]
fn missing_cmake_without_network_names_the_fixing_command() {
    // Hides the tools of PATH; the compiler is in its own folder.
    let Some(project) = Sandbox::with_library() else { return };
    let Some(ran) = project.run_with_only(&["cc", "gcc", "g++"], &["build", "--offline"]) else { return };
    ran.fails(1, "fetch.offline").says(&["cmake is required", "pip install cmake==", "without `--offline`"]);
    assert!(!project.exists(".gpubuild/adder/cpu"), "nothing is built");
}

#[test]
fn build_without_a_compiler_is_rejected() {
    let Some(project) = Sandbox::with_library() else { return };
    // Clang is also found outside PATH; this description searches only PATH.
    project.write(
        "tools/clang.toml",
        "id = \"clang\"\nname = \"Clang\"\nkind = \"tool\"\nfamily = \"clang\"\nprovides = \"host-compiler\"\n\
         [[roots]]\nprogram = [\"clang\"]\n",
    );
    let arguments = ["build", "--backends", "cpu", "--toolkits", "tools"];
    let Some(ran) = project.run_with_only(&[], &arguments) else { return };
    ran.fails(2, "plan.refused").says(&["cpu.compiler-missing", "hint:", "nothing was compiled"]);
    assert!(!project.exists(".gpubuild"), "nothing is created");
}

/// Such a project has the oldest policies: without `IN_LIST`, and with quoted arguments that are names of variables.
#[test]
fn project_without_cmake_minimum_required_is_built() {
    let Some(project) = Sandbox::with_library() else { return };
    let text = project.read("vendor/CMakeLists.txt");
    let old = text.replace("cmake_minimum_required(VERSION 3.24)\n", "set(C other)\n");
    assert_ne!(old, text);
    project.write("vendor/CMakeLists.txt", &old);
    project.run(&["build", "--no-store"]).succeeds();
    assert!(project.run(&["link"]).succeeds().stdout.contains("adder"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_the_build_and_the_next_build_completes_it() {
    use std::process::Stdio;
    let Some(project) = Sandbox::with_library() else { return };
    let quick = project.read("vendor/CMakeLists.txt");
    let slow = "add_custom_command(OUTPUT slow.h COMMAND ${CMAKE_COMMAND} -E touch started COMMAND \
                ${CMAKE_COMMAND} -E sleep 120 COMMAND ${CMAKE_COMMAND} -E touch ended VERBATIM)\ntarget_sources(adder PRIVATE slow.h)\n";
    project.write("vendor/CMakeLists.txt", &format!("{quick}{slow}"));
    let child = project.command().arg("build").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..3000 {
        if project.exists(".gpubuild/adder/cpu/started") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(project.exists(".gpubuild/adder/cpu/started"), "the slow step did not start within a minute");
    let clean = project.run(&["clean"]);
    clean.fails(1, "build.running").says(&["hint: wait until it finishes"]);
    project.send("INT", child.id());
    let ran = RunResult::from(child.wait_with_output().unwrap());
    ran.fails(130, "build.interrupted");
    assert!(!project.exists(".gpubuild/adder/cpu/ended"), "the slow step is killed instead of waited for");
    project.run(&["link"]).fails(2, "manifest.missing");
    project.write("vendor/CMakeLists.txt", &quick);
    project.run(&["build"]).succeeds();
    project.run(&["link"]).succeeds();
}

#[test]
#[cfg(unix)]
fn missing_cargo_is_reported_before_anything_is_built() {
    let Some(project) = Sandbox::with_library() else { return };
    let table = project.read("gpubuild.toml") + "[binary]\npackage = \"app\"\n";
    project.write("gpubuild.toml", &table);
    project.write("app/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\n[workspace]\n");
    project.write("app/src/main.rs", "fn main() {}\n");
    let build = |more: &[&str]| {
        let arguments = [&["build", "--backends", "cpu"], more].concat();
        project
            .run_with_only(&["cc", "c++", "cmake", "ninja", "ar", "ranlib", "ld", "as"], &arguments)
            .unwrap()
    };
    let ran = build(&[]);
    ran.fails(1, "build.program-failed").says(&["`cargo`", "https://rustup.rs", "--no-binary"]);
    assert!(!ran.stderr.contains("configured") && !project.exists(".gpubuild"), "{ran:#?}");
    build(&["--no-binary"]).succeeds();
}
