//! Build scripts rerun if and only if something that they read changes.

use crate::support::{SMALL, Workspace, workspace};

fn build(workspace: &Workspace, variables: &[(&str, &str)]) -> bool {
    workspace.cargo(&["build", "-v"], variables).success().ran_script_of("x-sys")
}

#[test]
fn build_script_reruns_only_for_inputs_it_read() {
    let Some(workspace) = workspace(SMALL) else { return };
    assert!(build(&workspace, &[]));
    assert_eq!(workspace.app(), "42");
    assert!(!build(&workspace, &[]), "unchanged inputs");

    workspace.write("x-sys/native/include/x.h", "#define X 50\n");
    assert!(build(&workspace, &[]), "an included header");
    assert_eq!(workspace.app(), "51");
    assert!(!build(&workspace, &[]));

    workspace.write("x-sys/native/notes.txt", "still nothing\n");
    assert!(!build(&workspace, &[]), "an unrelated file");

    workspace.write("x-sys/native/y.cpp", "extern \"C\" int y() { return 2; }\n");
    assert!(build(&workspace, &[]), "a source file");
    assert_eq!(workspace.app(), "52");

    let backends = [("GPUBUILD_BACKENDS", "cpu")];
    assert!(build(&workspace, &backends), "a variable that the script reads is now set");
    assert!(!build(&workspace, &backends));
    let compiler = [("GPUBUILD_BACKENDS", "cpu"), ("CXX", "c++")];
    assert!(build(&workspace, &compiler), "another compiler");
    assert!(!build(&workspace, &compiler));
    assert!(
        !build(&workspace, &[compiler[0], compiler[1], ("X_UNKNOWN", "1")]),
        "a variable that is not read"
    );
}

#[test]
fn failing_build_fails_the_build_script() {
    let Some(workspace) = workspace(SMALL) else { return };
    workspace.write("x-sys/native/x.c", "int x_answer(void) { return 1 }\n");
    let ran = workspace.cargo(&["check"], &[]).failure();
    let stderr = ran.output.stderr;
    assert!(stderr.contains("error: x-sys@0.1.0: failed to build `cpu`: "), "{stderr}");
    assert!(stderr.contains("x.c:1") && stderr.contains("[build.compile-failed]"), "{stderr}");
    assert!(stderr.contains("the full log is `"), "{stderr}");
}
