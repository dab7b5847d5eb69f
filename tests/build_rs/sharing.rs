//! Two -sys crates, where one uses the libraries of the other.

use gpubuild_host::{ReadFiles, WriteFiles};

use crate::support::{SMALL, workspace};

const BASE: &[(&str, &str)] = &[
    (
        "base-sys/Cargo.toml",
        "[package]\nname = \"base-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"base\"\n[build-dependencies]\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n",
    ),
    (
        "base-sys/build.rs",
        "fn main() {\n    gpubuild_build::Build::new().source(\"native\").target(\"base\").link();\n}\n",
    ),
    ("base-sys/src/lib.rs", "unsafe extern \"C\" {\n    pub fn base_next() -> i32;\n}\n"),
    (
        "base-sys/native/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(base C)\nadd_library(base STATIC base.c)\ntarget_include_directories(base PUBLIC include)\ntarget_compile_definitions(base PUBLIC BASE_STEP=10)\n",
    ),
    ("base-sys/native/include/base.h", "int base_next(void);\n"),
    (
        "base-sys/native/base.c",
        "#include \"base.h\"\nstatic int count;\nint base_next(void) { return count += BASE_STEP; }\n",
    ),
    (
        "user-sys/Cargo.toml",
        "[package]\nname = \"user-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"user\"\n[dependencies]\nbase-sys = { path = \"../base-sys\" }\n[build-dependencies]\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n",
    ),
    (
        "user-sys/build.rs",
        "fn main() {\n    let build = gpubuild_build::Build::new().source(\"native\").target(\"user\");\n    build.share(\"base\").option(\"USER_SYSTEM_BASE\", \"ON\").link();\n}\n",
    ),
    ("user-sys/src/lib.rs", "use base_sys as _;\nunsafe extern \"C\" {\n    pub fn user_next() -> i32;\n}\n"),
    (
        "user-sys/native/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\noption(USER_SYSTEM_BASE \"\" OFF)\nif(NOT USER_SYSTEM_BASE)\n  message(FATAL_ERROR \"there is no own copy\")\nendif()\nfind_package(base REQUIRED)\nadd_library(user STATIC user.c)\ntarget_link_libraries(user PUBLIC base::base)\n",
    ),
    (
        "user-sys/native/user.c",
        "#include <base.h>\nint user_next(void) { return base_next() + BASE_STEP / 10; }\n",
    ),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nbase-sys = { path = \"../base-sys\" }\nuser-sys = { path = \"../user-sys\" }\n",
    ),
    (
        "app/src/main.rs",
        "fn main() {\n    let (one, two) = unsafe { (base_sys::base_next(), user_sys::user_next()) };\n    println!(\"{one} {two}\");\n}\n",
    ),
];

#[test]
fn crate_links_libraries_of_another_crate() {
    let Some(workspace) = workspace(BASE) else { return };
    workspace.cargo(&["build"], &[]).success();
    // One counter for both crates, with the definitions that the CMake package exports.
    assert_eq!(workspace.app(), "10 21");
    let ran = workspace.cargo(&["build", "-v"], &[]).success();
    assert!(
        !ran.ran_script_of("base-sys") && !ran.ran_script_of("user-sys"),
        "unchanged inputs do not rerun the scripts"
    );

    // If the first crate lacks its sources, the second fails too, and only at link time.
    let absent = workspace.path("base-sys/elsewhere");
    let own = workspace.path("base-sys/native");
    workspace.host.rename(&own, &absent).unwrap();
    let stderr = workspace.cargo(&["check"], &[]).success().output.stderr;
    assert!(
        stderr.contains("[project.source-missing]") && stderr.contains("[script.shared-missing]"),
        "{stderr}"
    );
    workspace.host.rename(&absent, &own).unwrap();

    workspace.write("base-sys/native/base.c", "#include \"base.h\"\nint base_next(void) { return 5; }\n");
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "5 6", "a change in the shared sources reaches both");
}

#[test]
fn crate_without_shared_libraries_is_reported() {
    let Some(workspace) = workspace(SMALL) else { return };
    workspace.write(
        "x-sys/build.rs",
        "fn main() {\n    gpubuild_build::Build::new().share(\"nowhere\").link();\n}\n",
    );
    let stderr = workspace.cargo(&["check"], &[]).failure().output.stderr;
    assert!(stderr.contains("`DEP_NOWHERE_GPUBUILD_MANIFEST` is not set"), "{stderr}");
    assert!(stderr.contains("[script.not-shared]"), "{stderr}");
}

#[test]
fn result_of_another_folder_is_restored_from_the_store() {
    let Some(workspace) = workspace(SMALL) else { return };
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "42");
    // As in a new clone, or after `cargo clean`.
    workspace.cargo(&["clean", "-p", "x-sys"], &[]).success();
    let shared = workspace.target().join("gpubuild");
    for name in workspace.host.list_matching(&shared, "brs-*").unwrap() {
        workspace.host.remove(&shared.join(&name)).unwrap();
    }
    let stderr = workspace.cargo(&["build", "-vv"], &[]).success().output.stderr;
    assert!(
        stderr.contains("[cpu] restored from the build store") && !stderr.contains("is not used"),
        "{stderr}"
    );
    assert_eq!(workspace.app(), "42");
}
