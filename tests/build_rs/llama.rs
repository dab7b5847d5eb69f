//! The example crate with llama.cpp, as it stands in this repository. With sources it is built among the tests of projects.

use gpubuild_host::Host;

use crate::support::{SMALL, Workspace, workspace};

fn example(workspace: &Workspace, words: &[&str], source: &str) -> gpubuild_host::CommandOutput {
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
