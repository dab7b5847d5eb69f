//! What is missing is told by the linker, and by nobody before.

use gpubuild::host::{Host, find_program};

use crate::support::{SMALL, Workspace, workspace};

/// A backend whose toolkit is not here.
fn absent(workspace: &Workspace) -> (&'static str, &'static str) {
    let host = &workspace.host;
    let has_cuda = !find_program(host, "nvcc").is_empty() || host.exists(&host.path("/usr/local/cuda"));
    if has_cuda { ("sycl", "sycl.") } else { ("cuda", "cuda.toolkit.missing") }
}

/// A program that calls more functions than a linker tells.
fn with_many_functions(workspace: &Workspace) {
    use std::fmt::Write as _;
    let (mut declared, mut called) = (String::new(), String::new());
    for number in 0..40 {
        writeln!(declared, "    pub fn x_{number}();").unwrap();
        writeln!(called, "        x_sys::x_{number}();").unwrap();
    }
    workspace.write("x-sys/src/lib.rs", &format!("unsafe extern \"C\" {{\n{declared}}}\n"));
    workspace.write("app/src/main.rs", &format!("fn main() {{\n    unsafe {{\n{called}    }}\n}}\n"));
}

#[test]
fn a_missing_toolkit_is_told_when_a_program_is_linked() {
    let Some(workspace) = workspace(SMALL) else { return };
    with_many_functions(&workspace);
    let (backend, id) = absent(&workspace);
    let features = format!("app/{backend}");
    let told = workspace.cargo(&["check", "--features", &features], &[]).success().output.stderr;
    assert!(told.contains(&format!("warning: x-sys@0.1.0: cannot build {backend}, which")), "{told}");

    let told = workspace.cargo(&["build", "--features", &features], &[]).failure().output.stderr;
    for part in [
        format!("gpubuild: `x-sys` cannot build {backend}, which `--features {backend}` asks for\n"),
        format!("[{id}"),
        "    fix: ".to_owned(),
    ] {
        assert!(told.contains(&part), "{part} in {told}");
    }
    let mut first = told.find("gpubuild: `x-sys`").unwrap();
    assert!(told.find("x_7").is_none_or(|at| first < at), "the help comes first: {told}");

    // GNU's linker, where rustc has another by default.
    if !find_program(&workspace.host, "ld.bfd").is_empty() {
        let flags = ["-Clink-arg=-fuse-ld=bfd", "-Clinker-features=-lld"];
        let told = workspace.rustc(&["-p", "app", "--features", &features], &flags).failure().output.stderr;
        assert!(told.contains("ld.bfd") && told.contains(&format!("[{id}")), "{told}");
        first = told.find("gpubuild: `x-sys`").unwrap();
        assert!(first < told.find("undefined reference").unwrap(), "the help comes first: {told}");
    }

    workspace.cargo(&["doc", "--no-deps", "--features", &features], &[("DOCS_RS", "1")]).success();
}

#[test]
fn missing_sources_and_tools_are_told_in_the_same_way() {
    let Some(workspace) = workspace(SMALL) else { return };
    let toml = workspace.host.read_text(&workspace.path("x-sys/gpubuild.toml")).unwrap();
    workspace.write("x-sys/gpubuild.toml", &toml.replace("\"native\"", "\"submodule\""));
    let told = workspace.cargo(&["check"], &[]).success().output.stderr;
    assert!(told.contains("[project.source-missing]"), "{told}");
    let told = workspace.cargo(&["build"], &[]).failure().output.stderr;
    assert!(told.contains("fetch the submodule that should be there"), "{told}");
    // It is looked for again each time, so that nobody has to touch anything once it is there.
    workspace.write("x-sys/gpubuild.toml", &toml);
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "42");
}

#[test]
fn what_is_wrong_is_told_at_once() {
    let Some(workspace) = workspace(SMALL) else { return };
    let toml = workspace.host.read_text(&workspace.path("x-sys/gpubuild.toml")).unwrap();
    workspace.write("x-sys/gpubuild.toml", &toml.replace("source", "sauce"));
    let told = workspace.cargo(&["check"], &[]).failure().output.stderr;
    assert!(told.contains("sauce") && told.contains("[project.invalid]"), "{told}");
    workspace.write("x-sys/gpubuild.toml", &toml);
    let told = workspace.cargo(&["check"], &[("GPUBUILD_BACKENDS", "vulcan")]).failure().output.stderr;
    assert!(told.contains("vulcan") && told.contains("[backend.unknown]"), "{told}");
    let told = workspace.cargo(&["check"], &[("GPUBUILD_BACKENDS", "cpu,rocm")]).failure().output.stderr;
    assert!(told.contains("[project.backend-unknown]"), "{told}");
}
