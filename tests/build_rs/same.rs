//! Crates of one program that define the same symbols.

use crate::support::{Workspace, workspace};

const CARGO: &str = "[package]\nname = \"@NAME@-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"@NAME@\"\n[dependencies]\n@DEPENDENCIES@\n[build-dependencies]\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n";

/// A minimal copy of a library that a profile describes, with options that are not used.
const CMAKE: &str = "cmake_minimum_required(VERSION 3.16)\nproject(ggml C)\nset(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR 9)\nset(GGML_VERSION_PATCH @PATCH@)\n# GGML_NATIVE GGML_CCACHE GGML_CPU GGML_OPENMP GGML_RPC GGML_BUILD_TESTS GGML_BUILD_EXAMPLES GGML_BACKEND_DL GGML_STATIC GGML_METAL GGML_CUDA GGML_HIP GGML_VULKAN GGML_SYCL GGML_OPENCL GGML_BLAS GGML_ACCELERATE GGML_LLAMAFILE GGML_STANDALONE GGML_CPU_ALL_VARIANTS GGML_RPC_RDMA\nadd_library(ggml-base STATIC src/base.c)\nadd_library(ggml-cpu STATIC src/cpu.c)\nadd_library(ggml STATIC src/ggml.c)\ntarget_include_directories(ggml PUBLIC include)\ntarget_link_libraries(ggml PUBLIC ggml-base ggml-cpu)\n";

const HEADER: &str = "#ifndef GGML_MAX_NAME\n#define GGML_MAX_NAME @SIZE@\n#endif\n";

/// Adds a crate with its own copy; its exported functions start with the crate's name.
fn add(workspace: &Workspace, name: &str, size: u32, dependencies: &str, build: &str) {
    let cargo = CARGO.replace("@NAME@", name).replace("@DEPENDENCIES@", dependencies);
    let cargo = cargo.replace("@GPUBUILD@", env!("CARGO_MANIFEST_DIR"));
    workspace.write(&format!("{name}-sys/Cargo.toml"), &cargo);
    workspace.write(
        &format!("{name}-sys/build.rs"),
        &format!("fn main() {{\n    gpubuild_build::Build::new(){build}.link();\n}}\n"),
    );
    workspace.write(
        &format!("{name}-sys/gpubuild.toml"),
        &format!("schema = 1\n[project]\nname = \"brs-{name}\"\nsource = \"native\"\nprofile = \"ggml\"\n"),
    );
    let library = format!("unsafe extern \"C\" {{\n    pub fn {name}_answer() -> i32;\n}}\n");
    workspace.write(&format!("{name}-sys/src/lib.rs"), &library);
    let native = |file: &str, text: &str| workspace.write(&format!("{name}-sys/native/{file}"), text);
    native("CMakeLists.txt", &CMAKE.replace("@PATCH@", &size.to_string()));
    native("include/ggml.h", &HEADER.replace("@SIZE@", &size.to_string()));
    native("src/base.c", "int ggml_base(void) { return 1; }\nint ggml_other(void) { return 2; }\n");
    native("src/cpu.c", "int ggml_cpu(void) { return 1; }\n");
    native(
        "src/ggml.c",
        &format!("int ggml_base(void);\nint {name}_answer(void) {{ return {size} + ggml_base(); }}\n"),
    );
}

/// A program that calls both crates; `build` is its build script.
fn app(workspace: &Workspace, dependencies: &str, build: &str) {
    workspace.write(
        "app/Cargo.toml",
        &format!(
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}\n[build-dependencies]\ngpubuild-build = {{ path = \"{}/crates/build\" }}\n",
            env!("CARGO_MANIFEST_DIR")
        ),
    );
    workspace.write("app/build.rs", build);
}

const BOTH: &str = "one-sys = { path = \"../one-sys\" }\ntwo-sys = { path = \"../two-sys\" }";

fn two(build: &str) -> Option<Workspace> {
    let workspace = workspace(&[])?;
    add(&workspace, "one", 64, "", build);
    add(&workspace, "two", 128, "", build);
    workspace.write(
        "app/src/main.rs",
        "fn main() {\n    println!(\"{}\", unsafe { one_sys::one_answer() + two_sys::two_answer() });\n}\n",
    );
    Some(workspace)
}

#[test]
fn two_copies_are_reported_before_linking() {
    let Some(workspace) = two("") else { return };
    app(&workspace, BOTH, "fn main() {\n    gpubuild_build::check_symbols();\n}\n");
    let stderr = workspace.cargo(&["check"], &[]).failure().output.stderr;
    for part in [
        "error: app@0.1.0: `one` and `two` both define `ggml_base` and 2 more symbols; the two copies differ: GGML_MAX_NAME is 64 and 128",
        "[symbols.same]",
        "hint: let one crate use the libraries of the other",
    ] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }

    // If cargo does not show the metadata of indirect dependencies, the linker reports the duplicate.
    app(&workspace, BOTH, "fn main() {}\n");
    workspace.cargo(&["check"], &[]).success();
    let stderr = workspace.cargo(&["build"], &[]).failure().output.stderr;
    let help = stderr.find("gpubuild: two crates of this program each contain a copy of ggml").unwrap();
    assert!(
        stderr.find("ggml_base").is_none_or(|at| help < at),
        "the help precedes the linker errors: {stderr}"
    );

    // A crate that depends on the other crate is checked by its own build script.
    add(&workspace, "two", 128, "one-sys = { path = \"../one-sys\" }", "");
    let stderr = workspace.cargo(&["check"], &[]).failure().output.stderr;
    assert!(stderr.contains("error: two-sys@0.1.0: `one` and `two-sys` both define `ggml_base`"), "{stderr}");
}

#[test]
fn allowed_duplicate_symbols_are_linked() {
    let Some(workspace) = two(".allow_same_symbols()") else { return };
    app(&workspace, BOTH, "fn main() {}\n");
    // With static archives the linker uses the first copy for both.
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "194");
}
