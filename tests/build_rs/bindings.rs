//! Bindings that bindgen generates in a build script, and their store.

use gpubuild_host::{HostInfo, RealHost};

use crate::requirements::{requires, skip};
use crate::support::{SMALL, Workspace, workspace};

const CARGO: &str = "[package]\nname = \"x-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"x\"\n[build-dependencies]\nbindgen = { version = \"0.73\", default-features = false, features = [\"runtime\"] }\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n";

/// The documented build script, with a variable that simulates a missing libclang.
const BUILD: &str = "\
fn main() {
    let Ok(built) = gpubuild_build::Build::new().run() else { return };
    built.bindings().header(\"x.h\").prebuilt(\"src/prebuilt.rs\").write(|call| {
        assert!(std::env::var_os(\"X_WITHOUT_LIBCLANG\").is_none(), \"Unable to find libclang: \\\"a test\\\"\");
        bindgen::Builder::default()
            .headers(&call.headers)
            .clang_args(&call.arguments)
            .depfile(\"bindings\", &call.depfile)
            .allowlist_item(\"x_.*|X_.*\")
            .generate()
            .map(|bindings| bindings.to_string())
    });
}
";

const LIBRARY: &str = "\
#![allow(non_camel_case_types, non_upper_case_globals)]
include!(concat!(env!(\"OUT_DIR\"), \"/bindings.rs\"));
";

const HEADER: &str = "#include <stddef.h>\n#include \"deep.h\"\n#define X 41\n#ifndef X_NAME\n#define X_NAME 8\n#endif\nstruct x_table { char name[X_NAME]; size_t size; };\nint x_answer(void);\n";

const MAIN: &str = "fn main() {\n    println!(\"{} {} {}\", unsafe { x_sys::x_answer() }, size_of::<x_sys::x_table>(), x_sys::X_DEEP);\n}\n";

/// Prints why and returns `None` if libclang cannot be loaded.
fn with_bindings() -> Option<Workspace> {
    let host = RealHost::new();
    if gpubuild_detect::toolkit::libclang::find(&host).0.is_none() {
        skip("libclang", "no libclang");
        return None;
    }
    bound()
}

fn bound() -> Option<Workspace> {
    let workspace = workspace(SMALL)?;
    workspace.write("x-sys/Cargo.toml", &CARGO.replace("@GPUBUILD@", env!("CARGO_MANIFEST_DIR")));
    workspace.write("x-sys/build.rs", BUILD);
    workspace.write("x-sys/src/lib.rs", LIBRARY);
    let cmake = "cmake_minimum_required(VERSION 3.16)\nproject(x C CXX)\nadd_library(x STATIC x.c y.cpp)\ntarget_include_directories(x PUBLIC include)\ntarget_compile_definitions(x PUBLIC X_NAME=24)\n";
    workspace.write("x-sys/native/CMakeLists.txt", cmake);
    workspace.write("x-sys/native/include/x.h", HEADER);
    workspace.write("x-sys/native/include/deep.h", "#define X_DEEP 1\n");
    let app = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nx-sys = { path = \"../x-sys\" }\n";
    workspace.write("app/Cargo.toml", app);
    workspace.write("app/src/main.rs", MAIN);
    Some(workspace)
}

const LOST: [(&str, &str); 1] = [("X_WITHOUT_LIBCLANG", "1")];

#[test]
fn bindings_are_generated_once() {
    let Some(workspace) = with_bindings() else { return };
    workspace.cargo(&["build"], &[]).success();
    // The struct has a name of 24 bytes as CMake defines it, and a size of eight bytes.
    assert_eq!(workspace.app(), "42 32 1");
    let again = workspace.cargo(&["build", "-v"], &[]).success();
    assert!(!again.ran_script_of("x-sys"), "unchanged inputs do not rerun the script");

    workspace.cargo(&["clean", "-p", "x-sys"], &[]).success();
    workspace.cargo(&["build"], &LOST).success();
    assert_eq!(workspace.app(), "42 32 1", "from the store, without libclang");

    // Changes a header that the header includes.
    workspace.write("x-sys/native/include/deep.h", "#define X_DEEP 2\n");
    let stderr = workspace.cargo(&["check"], &LOST).failure().output.stderr;
    for part in ["cannot generate `bindings.rs` [cuda.libclang-missing]", "gpubuild fetch --tool libclang"] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "42 32 2");
    // Both states stay in the store.
    workspace.write("x-sys/native/include/deep.h", "#define X_DEEP 1\n");
    workspace.cargo(&["build"], &LOST).success();
    assert_eq!(workspace.app(), "42 32 1");
}

#[test]
fn prebuilt_bindings_are_the_fallback() {
    let Some(workspace) = with_bindings() else { return };
    let prebuilt = "unsafe extern \"C\" {\n    pub fn x_answer() -> i32;\n}\n#[repr(C)]\npub struct x_table(u64);\npub const X_DEEP: u32 = 7;\n";
    workspace.write("x-sys/src/prebuilt.rs", prebuilt);
    let stderr = workspace.cargo(&["build"], &LOST).success().output.stderr;
    assert!(
        stderr.contains("using `src/prebuilt.rs` instead of `bindings.rs`: libclang was not found"),
        "{stderr}"
    );
    assert_eq!(workspace.app(), "42 8 7");

    // Errors in a header are reported unchanged.
    workspace.write("x-sys/native/include/deep.h", "#include \"nowhere.h\"\n");
    workspace.write("x-sys/native/x.c", "int y(void);\nint x_answer(void) { return 41 + y(); }\n");
    let stderr = workspace.cargo(&["check"], &[]).failure().output.stderr;
    assert!(
        stderr.contains("[bindings.failed]") && stderr.contains("'nowhere.h' file not found"),
        "{stderr}"
    );
}

#[test]
fn pinned_libclang_is_fetched_once() {
    let host = RealHost::new();
    if !requires("network") {
        skip("network", "GPUBUILD_REQUIRE does not name network");
        return;
    }
    if host.env().get("LIBCLANG_PATH").is_some() {
        skip("no-libclang-path", "LIBCLANG_PATH selects a libclang");
        return;
    }
    let Some(workspace) = bound() else { return };
    let pinned = BUILD.replace(".prebuilt(\"src/prebuilt.rs\")", ".pinned_libclang()").replace(
        ".map(|bindings|",
        ".inspect(|_| println!(\"cargo::warning=by {}\", bindgen::clang_version().full)).map(|bindings|",
    );
    workspace.write("x-sys/build.rs", &pinned);
    let offline = ("GPUBUILD_OFFLINE", "1");
    let stderr = workspace.cargo(&["check"], &[offline]).failure().output.stderr;
    for part in ["cannot generate `bindings.rs`", "libclang is required", "[fetch.offline]", "fix: "] {
        assert!(stderr.contains(part), "{part} in {stderr}");
    }
    let stderr = workspace.cargo(&["build", "-vv"], &[]).success().output.stderr;
    assert!(
        stderr.contains("fetching libclang 18.1.1 into") && stderr.contains("by clang version 18.1.1"),
        "{stderr}"
    );
    assert_eq!(workspace.app(), "42 32 1");
    // Other headers use the same libclang.
    workspace.write("x-sys/native/include/deep.h", "#define X_DEEP 2\n");
    let stderr = workspace.cargo(&["build", "-vv"], &[offline]).success().output.stderr;
    assert!(!stderr.contains("fetching libclang") && stderr.contains("by clang version 18.1.1"), "{stderr}");
    assert_eq!(workspace.app(), "42 32 2");
}
