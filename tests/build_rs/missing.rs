//! What is missing is told by the linker, and by nobody before.

use gpubuild_host::{Host, find_program};

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
        format!("gpubuild: `x-sys` cannot build {backend}, which `--features {backend}` requests\n"),
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

/// A program that links what a command has built, here nothing but a manifest.
const LINKING: &[(&str, &str)] = &[
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[features]\nfast = []\ncuda = []\n[build-dependencies]\ngpubuild-link = { path = \"@GPUBUILD@/crates/link\" }\n",
    ),
    ("app/build.rs", "fn main() {\n    gpubuild_link::link();\n}\n"),
    ("app/gpubuild.toml", "schema = 1\n[project]\nname = \"brs-app\"\nsource = \"native\"\n"),
    ("app/native/CMakeLists.txt", "cmake_minimum_required(VERSION 3.16)\nproject(x C)\n"),
    (
        "app/src/main.rs",
        "unsafe extern \"C\" {\n    safe fn of_cuda() -> i32;\n}\nfn main() {\n    let n = if cfg!(feature = \"cuda\") { of_cuda() } else { 42 };\n    println!(\"{n}\");\n}\n",
    ),
];

#[test]
fn a_feature_whose_library_is_not_in_the_manifest_is_told_by_the_linker() {
    let mut files = LINKING.to_vec();
    files.extend([("x-sys/Cargo.toml", EMPTY), ("x-sys/src/lib.rs", "")]);
    let Some(workspace) = workspace(&files) else { return };
    let manifest = |backends: &str| {
        let text = format!(
            "{{\"schema\":1,\"gpubuild\":\"0.1.0\",\"project\":\"brs-app\",\"backends\":[{backends}],\"trees\":[],\"cargo\":{{\"lines\":[],\"search_path\":[],\"search_path_beside\":[],\"search_path_alone\":[],\"beside\":[]}}}}"
        );
        workspace.write("app/target/gpubuild/brs-app/manifest.json", &text);
    };
    // Without a manifest, and with one that lacks the backend.
    for (written, cause) in [(false, "nothing was built yet"), (true, "manifest.json` has cpu")] {
        if written {
            manifest("\"cpu\"");
        }
        workspace.cargo(&["build", "-p", "app", "--features", "fast"], &[]).success();
        assert_eq!(workspace.app(), "42", "a feature that names no backend asks for none");
        let told =
            workspace.cargo(&["check", "-p", "app", "--features", "cuda"], &[]).success().output.stderr;
        assert!(
            told.contains("warning: app@0.1.0: has no library for cuda, which `--features cuda` requests: "),
            "{told}"
        );
        let told =
            workspace.cargo(&["build", "-p", "app", "--features", "cuda"], &[]).failure().output.stderr;
        for part in [
            "gpubuild: `app` has no library for cuda, which `--features cuda` requests\n",
            cause,
            "[manifest.backend-missing]",
            "      gpubuild build --backends cpu,cuda\n",
        ] {
            assert!(told.contains(part), "{part} in {told}");
        }
        let help = told.find("gpubuild: `app`").unwrap();
        assert!(told.find("symbol: of_cuda").is_none_or(|at| help < at), "the help comes first: {told}");
    }
    // GNU's linker, where rustc has another by default.
    if !find_program(&workspace.host, "ld.bfd").is_empty() {
        let flags = ["-Clink-arg=-fuse-ld=bfd", "-Clinker-features=-lld"];
        let told = workspace.rustc(&["-p", "app", "--features", "cuda"], &flags).failure().output.stderr;
        let help = told.find("gpubuild build --backends cpu,cuda").unwrap_or_else(|| panic!("{told}"));
        assert!(told.contains("ld.bfd") && help < told.find("undefined reference").unwrap(), "{told}");
    }
    workspace.cargo(&["doc", "-p", "app", "--no-deps", "--features", "cuda"], &[("DOCS_RS", "1")]).success();

    // The manifest is watched: once the backend is in it, what is left is what the program itself lacks.
    manifest("\"cpu\",\"cuda\"");
    let told = workspace.cargo(&["build", "-p", "app", "--features", "cuda"], &[]).failure().output.stderr;
    assert!(!told.contains("gpubuild build --backends") && told.contains("of_cuda"), "{told}");
}

const EMPTY: &str = "[package]\nname = \"x-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
