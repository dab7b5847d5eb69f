//! The llama.cpp example crate of this repository. The tests of `projects` build it with sources.

use gpubuild_host::HostInfo;

use crate::support::{SMALL, Workspace, workspace};

fn example(workspace: &Workspace, arguments: &[&str], source: &str) -> gpubuild_host::CommandOutput {
    let root = workspace.host.path(env!("CARGO_MANIFEST_DIR"));
    workspace
        .cargo_in(&root, &[arguments, &["-p", "llama-sys"]].concat(), &[("LLAMA_CPP_SOURCE", source)])
        .output
}

#[test]
fn example_without_sources_checks_but_does_not_link() {
    let Some(workspace) = workspace(SMALL) else { return };
    let nowhere = workspace.path("nowhere");
    let checked = example(&workspace, &["check"], nowhere.as_str());
    assert!(checked.success() && checked.stderr.contains("[project.source-missing]"), "{}", checked.stderr);
    let linked = example(&workspace, &["build"], nowhere.as_str());
    assert!(!linked.success(), "{}", linked.stderr);
    for part in ["gpubuild: `llama-sys` has no sources to build", "fetch the submodule"] {
        assert!(linked.stderr.contains(part), "{part} in {}", linked.stderr);
    }
}
