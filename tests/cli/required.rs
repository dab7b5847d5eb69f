//! Every requirement that lets a test be skipped is named by `.ci/run`, or is an exception with a reason.
#![expect(clippy::disallowed_methods, reason = "a test reads the repository")]

use std::collections::BTreeSet;
use std::path::Path;

use crate::requirements::{EXCEPTIONS, IN_CI, is_known};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names that `.ci/run` adds to `GPUBUILD_REQUIRE`.
fn named_by_ci() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let lists = text.lines().filter_map(|line| line.split_once("GPUBUILD_REQUIRE=").map(|(_, list)| list));
    let words = lists.filter_map(|list| list.split_whitespace().next());
    words
        .flat_map(|list| list.trim_matches('"').split(','))
        .filter(|name| *name != "$GPUBUILD_REQUIRE")
        .map(str::to_owned)
        .collect()
}

/// The sources of all tests that can be skipped, except the helper.
fn sources() -> Vec<(String, String)> {
    let files = ["tests", "examples"].map(|folder| walkdir::WalkDir::new(root().join(folder)));
    let files = files.into_iter().flatten().map(|entry| entry.unwrap().into_path());
    let files = files.filter(|path| {
        path.extension().is_some_and(|end| end == "rs")
            && !["common/requirements.rs", "cli/required.rs"].iter().any(|helper| path.ends_with(helper))
    });
    files.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn ci_names_every_requirement_of_tests() {
    let named = named_by_ci();
    for name in IN_CI {
        assert!(named.contains(*name), ".ci/run does not name {name}");
    }
    for name in &named {
        assert!(is_known(name), ".ci/run names {name}, which no test requires");
    }
    let sources = sources();
    for name in IN_CI.iter().chain(EXCEPTIONS.iter().map(|(name, _)| name)) {
        let quoted = format!("\"{name}\"");
        assert!(sources.iter().any(|(_, text)| text.contains(&quoted)), "no test requires {name}");
    }
}

#[test]
fn tests_are_skipped_by_the_common_function_only() {
    let mut calls = 0;
    for (path, text) in sources() {
        for own in ["(\"GPUBUILD_REQUIRE\")", "println!(\"skipped", "print!(\"skipped"] {
            assert!(!text.contains(own), "{path}: {own} outside tests/common/requirements.rs");
        }
        let uses = ["skip(\"", "requires(\"", "requirements::skip(\""];
        for rest in uses.iter().flat_map(|call| text.split(call).skip(1)) {
            let name = rest.split('"').next().unwrap();
            assert!(is_known(name), "{path}: {name} is not listed in tests/common/requirements.rs");
            calls += 1;
        }
    }
    assert!(calls > 60, "only {calls} calls");
}
