//! Missing toolkits and sources are reported at link time, not earlier.

use gpubuild_host::{HostInfo, ReadFiles, find_program};

use crate::support::{SMALL, Workspace, workspace};

/// A backend whose toolkit is not installed, with its finding.
fn absent(workspace: &Workspace) -> (&'static str, &'static str) {
    let host = &workspace.host;
    let has_cuda = !find_program(host, "nvcc").is_empty() || host.exists(&host.path("/usr/local/cuda"));
    if has_cuda { ("sycl", "sycl.") } else { ("cuda", "cuda.toolkit.missing") }
}

/// A program that calls more functions than the linker lists in its errors.
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
fn missing_toolkit_fails_at_link_time() {
    let Some(workspace) = workspace(SMALL) else { return };
    with_many_functions(&workspace);
    let (backend, id) = absent(&workspace);
    let features = format!("app/{backend}");
    let stderr = workspace.cargo(&["check", "--features", &features], &[]).success().output.stderr;
    assert!(stderr.contains(&format!("warning: x-sys@0.1.0: cannot build {backend}, which")), "{stderr}");

    let stderr = workspace.cargo(&["build", "--features", &features], &[]).failure().output.stderr;
    for part in [
        format!("gpubuild: `x-sys` cannot build {backend}, which `--features {backend}` requests\n"),
        format!("[{id}"),
        "    fix: ".to_owned(),
    ] {
        assert!(stderr.contains(&part), "{part} in {stderr}");
    }
    let mut first = stderr.find("gpubuild: `x-sys`").unwrap();
    assert!(stderr.find("x_7").is_none_or(|at| first < at), "the help precedes the linker errors: {stderr}");

    // GNU ld, where rustc uses another linker by default.
    if !find_program(&workspace.host, "ld.bfd").is_empty() {
        let flags = ["-Clink-arg=-fuse-ld=bfd", "-Clinker-features=-lld"];
        let stderr = workspace.rustc(&["-p", "app", "--features", &features], &flags).failure().output.stderr;
        assert!(stderr.contains("ld.bfd") && stderr.contains(&format!("[{id}")), "{stderr}");
        first = stderr.find("gpubuild: `x-sys`").unwrap();
        assert!(
            first < stderr.find("undefined reference").unwrap(),
            "the help precedes the linker errors: {stderr}"
        );
    }

    workspace.cargo(&["doc", "--no-deps", "--features", &features], &[("DOCS_RS", "1")]).success();
}

#[test]
fn missing_sources_fail_at_link_time() {
    let Some(workspace) = workspace(SMALL) else { return };
    let toml = workspace.host.read_text(&workspace.path("x-sys/gpubuild.toml")).unwrap();
    workspace.write("x-sys/gpubuild.toml", &toml.replace("\"native\"", "\"submodule\""));
    let stderr = workspace.cargo(&["check"], &[]).success().output.stderr;
    assert!(stderr.contains("[project.source-missing]"), "{stderr}");
    let stderr = workspace.cargo(&["build"], &[]).failure().output.stderr;
    assert!(stderr.contains("fetch the submodule"), "{stderr}");
    // Sources are looked for in every build, so they are found once they exist.
    workspace.write("x-sys/gpubuild.toml", &toml);
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "42");
}

#[test]
fn configuration_errors_fail_immediately() {
    let Some(workspace) = workspace(SMALL) else { return };
    let toml = workspace.host.read_text(&workspace.path("x-sys/gpubuild.toml")).unwrap();
    workspace.write("x-sys/gpubuild.toml", &toml.replace("source", "sauce"));
    let stderr = workspace.cargo(&["check"], &[]).failure().output.stderr;
    assert!(stderr.contains("sauce") && stderr.contains("[project.invalid]"), "{stderr}");
    workspace.write("x-sys/gpubuild.toml", &toml);
    let stderr = workspace.cargo(&["check"], &[("GPUBUILD_BACKENDS", "vulcan")]).failure().output.stderr;
    assert!(stderr.contains("vulcan") && stderr.contains("[backend.unknown]"), "{stderr}");
    let stderr = workspace.cargo(&["check"], &[("GPUBUILD_BACKENDS", "cpu,rocm")]).failure().output.stderr;
    assert!(stderr.contains("[project.backend-unknown]"), "{stderr}");
}

/// A program that links existing build outputs, here only a manifest.
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
fn feature_without_its_library_fails_at_link_time() {
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
        assert_eq!(workspace.app(), "42", "a feature without a backend's name requests no backend");
        let stderr =
            workspace.cargo(&["check", "-p", "app", "--features", "cuda"], &[]).success().output.stderr;
        assert!(
            stderr
                .contains("warning: app@0.1.0: has no library for cuda, which `--features cuda` requests: "),
            "{stderr}"
        );
        let stderr =
            workspace.cargo(&["build", "-p", "app", "--features", "cuda"], &[]).failure().output.stderr;
        for part in [
            "gpubuild: `app` has no library for cuda, which `--features cuda` requests\n",
            cause,
            "[manifest.backend-missing]",
            "      gpubuild build --backends cpu,cuda\n",
        ] {
            assert!(stderr.contains(part), "{part} in {stderr}");
        }
        let help = stderr.find("gpubuild: `app`").unwrap();
        assert!(
            stderr.find("symbol: of_cuda").is_none_or(|at| help < at),
            "the help precedes the linker errors: {stderr}"
        );
    }
    // GNU ld, where rustc uses another linker by default.
    if !find_program(&workspace.host, "ld.bfd").is_empty() {
        let flags = ["-Clink-arg=-fuse-ld=bfd", "-Clinker-features=-lld"];
        let stderr = workspace.rustc(&["-p", "app", "--features", "cuda"], &flags).failure().output.stderr;
        let help = stderr.find("gpubuild build --backends cpu,cuda").unwrap_or_else(|| panic!("{stderr}"));
        assert!(stderr.contains("ld.bfd") && help < stderr.find("undefined reference").unwrap(), "{stderr}");
    }
    workspace.cargo(&["doc", "-p", "app", "--no-deps", "--features", "cuda"], &[("DOCS_RS", "1")]).success();

    // The manifest is watched: once it has the backend, only symbols that the program itself lacks are undefined.
    manifest("\"cpu\",\"cuda\"");
    let stderr = workspace.cargo(&["build", "-p", "app", "--features", "cuda"], &[]).failure().output.stderr;
    assert!(!stderr.contains("gpubuild build --backends") && stderr.contains("of_cuda"), "{stderr}");
}

const EMPTY: &str = "[package]\nname = \"x-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
