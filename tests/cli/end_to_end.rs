//! The bundled kernels, built and tested through the command line; and a build on a machine without CMake.

use serde_json::Value;

use crate::support::{RunResult, Sandbox, is_on_path, requires, skip};

/// A project outside this repository whose source is its `vendor/gk`.
fn kernels() -> Sandbox {
    let project = Sandbox::new();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor/gk");
    project.write(
        "gpubuild.toml",
        &format!(
            "schema = 1\n[project]\nname = \"kernels\"\nsource = '{}'\nprofile = \"gk\"\n",
            source.display()
        ),
    );
    project
}

fn state<'a>(detected: &'a Value, backend: &str, of: &str) -> Option<&'a str> {
    let row = detected["backends"].as_array()?.iter().find(|row| row["id"] == backend)?;
    row[of]["state"].as_str()
}

/// The processor only: `.ci/run` tests the kernels of all backends with the same command.
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn bundled_kernels_match_the_reference() {
    if !(requires("network") || is_on_path("cmake") && is_on_path("ninja")) {
        skip("cmake", "no CMake or Ninja");
        return;
    }
    let project = kernels();
    let detected = project.run(&["detect", "--json"]).succeeds().json();
    if state(&detected, "cpu", "build") != Some("ready") {
        skip("cmake", "no C and C++ compiler");
        return;
    }
    assert_eq!(project.run(&["build", "--backends", "cpu", "--no-binary"]).succeeds().stdout, "");
    let words = project.run(&["link"]).succeeds().stdout.clone();
    assert!(words.contains("gk-cpu"), "{words}");
    let tested = project.run(&["test", "--json", "--backends", "cpu"]).succeeds().json();
    let [report] = tested["backends"].as_array().unwrap().as_slice() else { panic!("{tested:#}") };
    assert_eq!((&report["state"], &report["failed"]), (&"tested".into(), &0.into()), "{tested:#}");
    let passed = report["passed"].as_u64().unwrap();
    assert!(passed > 500, "only {passed} cases");
    let cases = report["cases"].as_array().unwrap().len() as u64;
    assert_eq!(cases, passed + report["skipped"].as_u64().unwrap());
}

#[cfg(unix)]
#[test]
fn missing_cmake_and_ninja_are_fetched() {
    if !requires("network") {
        skip("network", "GPUBUILD_REQUIRE does not name network");
        return;
    }
    let Some(project) = Sandbox::with_c_library() else { return };
    let programs = ["cc", "c++", "gcc", "g++", "as", "ld", "ar", "ranlib", "sh", "uname"];
    // `python3` on PATH may be a wrapper that searches PATH for the real one.
    let python =
        project.start(&["python3", "-c", "import sys; print(sys.executable)"]).succeeds().stdout.clone();
    project.write("only/python3", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", python.trim()));
    project.start(&["chmod", "+x", "only/python3"]).succeeds();
    let run = |arguments: &[&str]| -> RunResult { project.run_with_only(&programs, arguments).unwrap() };
    let planned = run(&["plan", "--json"]).succeeds().json();
    let fetched: Vec<&str> =
        planned["fetch"].as_array().unwrap().iter().map(|fetch| fetch["tool"].as_str().unwrap()).collect();
    if fetched != ["cmake", "ninja"] {
        skip("tools-on-path-only", "this machine has CMake or Ninja outside PATH");
        return;
    }
    let built = run(&["build"]);
    built.succeeds().says(&["fetching cmake", "fetching ninja", "built cpu"]);
    let again = run(&["build", "--offline"]);
    again.succeeds().says(&["up to date"]);
    assert!(!again.stderr.contains("fetching"), "{again:#?}");
    run(&["clean"]).succeeds();
    assert!(
        !run(&["build", "--offline"]).succeeds().stderr.contains("fetching"),
        "the tools stay in the cache"
    );
}
