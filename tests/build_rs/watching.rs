//! The script runs again when something that was read is another, and only then.

use crate::support::{SMALL, Workspace, workspace};

fn build(workspace: &Workspace, variables: &[(&str, &str)]) -> bool {
    workspace.cargo(&["build", "-v"], variables).success().ran_script_of("x-sys")
}

#[test]
fn exactly_what_was_read_is_watched() {
    let Some(workspace) = workspace(SMALL) else { return };
    assert!(build(&workspace, &[]));
    assert_eq!(workspace.app(), "42");
    assert!(!build(&workspace, &[]), "nothing changed");

    workspace.write("x-sys/native/include/x.h", "#define X 50\n");
    assert!(build(&workspace, &[]), "a header that a source includes");
    assert_eq!(workspace.app(), "51");
    assert!(!build(&workspace, &[]));

    workspace.write("x-sys/native/notes.txt", "still nothing\n");
    assert!(!build(&workspace, &[]), "a file beside the sources");

    workspace.write("x-sys/native/y.cpp", "extern \"C\" int y() { return 2; }\n");
    assert!(build(&workspace, &[]), "a source");
    assert_eq!(workspace.app(), "52");

    let backends = [("GPUBUILD_BACKENDS", "cpu")];
    assert!(build(&workspace, &backends), "a variable that was read and is set now");
    assert!(!build(&workspace, &backends));
    let compiler = [("GPUBUILD_BACKENDS", "cpu"), ("CXX", "c++")];
    assert!(build(&workspace, &compiler), "another compiler");
    assert!(!build(&workspace, &compiler));
    assert!(
        !build(&workspace, &[compiler[0], compiler[1], ("X_UNKNOWN", "1")]),
        "a variable that nobody reads"
    );
}

#[test]
fn a_build_that_fails_fails_at_once() {
    let Some(workspace) = workspace(SMALL) else { return };
    workspace.write("x-sys/native/x.c", "int x_answer(void) { return 1 }\n");
    let ran = workspace.cargo(&["check"], &[]).failure();
    let told = ran.output.stderr;
    assert!(told.contains("error: x-sys@0.1.0: failed to build `cpu`: "), "{told}");
    assert!(told.contains("x.c:1") && told.contains("[build.compile-failed]"), "{told}");
    assert!(told.contains("the whole log is `"), "{told}");
}
