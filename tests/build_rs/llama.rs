//! The example crate with llama.cpp, as it stands in this repository.

use gpubuild::host::{Host, RealHost};

use crate::support::{SMALL, Workspace, workspace};

fn example(workspace: &Workspace, words: &[&str], source: &str) -> gpubuild::host::Output {
    let root = workspace.host.path(env!("CARGO_MANIFEST_DIR"));
    workspace.cargo_in(&root, &[words, &["-p", "llama-sys"]].concat(), &[("LLAMA_CPP_SOURCE", source)]).output
}

#[test]
fn without_sources_the_example_is_checked_and_not_linked() {
    let Some(workspace) = workspace(SMALL) else { return };
    let nowhere = workspace.path("nowhere");
    let checked = example(&workspace, &["check"], nowhere.as_str());
    assert!(checked.success() && checked.stderr.contains("[project.source-missing]"), "{}", checked.stderr);
    let linked = example(&workspace, &["build"], nowhere.as_str());
    assert!(!linked.success(), "{}", linked.stderr);
    for part in ["gpubuild: `llama-sys` has no sources to build", "fetch the submodule that should be there"]
    {
        assert!(linked.stderr.contains(part), "{part} in {}", linked.stderr);
    }
}

/// Runs where `LLAMA_CPP_SOURCE` names a checkout.
#[test]
fn with_sources_the_example_runs() {
    let host = RealHost::new();
    let Some(source) = host.env().get("LLAMA_CPP_SOURCE").map(str::to_owned) else {
        println!("skipped: LLAMA_CPP_SOURCE names no checkout of llama.cpp");
        return;
    };
    let Some(workspace) = workspace(SMALL) else { return };
    let ran = example(&workspace, &["run"], &source);
    assert!(ran.success(), "{}", ran.stderr);
    assert!(ran.stdout.contains("backends: cpu\n") && ran.stdout.contains("CPU : "), "{}", ran.stdout);
}
