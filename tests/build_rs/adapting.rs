//! A plan in the hands of a crate that runs CMake and a compiler itself.

use crate::support::workspace;

const OWN: &[(&str, &str)] = &[
    (
        "own-sys/Cargo.toml",
        "[package]\nname = \"own-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[build-dependencies]\ncc = \"1\"\ncmake = \"0.1\"\ngpubuild = { path = \"@GPUBUILD@\", default-features = false }\n",
    ),
    (
        "own-sys/build.rs",
        "use gpubuild::Backend;\nuse gpubuild::build_rs::Language;\n\nfn main() {\n    let plan = gpubuild::Build::new().backends([\"cpu\"]).plan().unwrap();\n    let mut config = cmake::Config::new(\"native\");\n    let folder = plan.apply_to_cmake(Backend::Cpu, &mut config).build_target(\"own\").build();\n    println!(\"cargo::rustc-link-search=native={}/build\", folder.display());\n    println!(\"cargo::rustc-link-lib=static=own\");\n    let mut build = cc::Build::new();\n    plan.apply_to_cc(Backend::Cpu, Language::Cxx, &mut build).file(\"kernel.cpp\").compile(\"kernel\");\n}\n",
    ),
    (
        "own-sys/src/lib.rs",
        "unsafe extern \"C\" {\n    pub fn own() -> i32;\n    pub fn kernel() -> i32;\n}\npub const CPU: bool = cfg!(gpubuild_backend = \"cpu\");\n",
    ),
    (
        "own-sys/native/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(own C)\nif(NOT CMAKE_BUILD_TYPE STREQUAL \"Release\" OR NOT CMAKE_POSITION_INDEPENDENT_CODE)\n  message(FATAL_ERROR \"the plan did not arrive: ${CMAKE_BUILD_TYPE}\")\nendif()\nadd_library(own STATIC own.c)\n",
    ),
    ("own-sys/native/own.c", "int own(void) { return 3; }\n"),
    (
        "own-sys/kernel.cpp",
        "#include <vector>\nextern \"C\" int kernel() { return (int)std::vector<int>(4).size(); }\n",
    ),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nown-sys = { path = \"../own-sys\" }\n",
    ),
    (
        "app/src/main.rs",
        "fn main() {\n    println!(\"{} {}\", unsafe { own_sys::own() + own_sys::kernel() }, own_sys::CPU);\n}\n",
    ),
];

#[test]
fn a_plan_is_applied_to_cmake_and_cc() {
    let Some(workspace) = workspace(OWN) else { return };
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "7 true");
}
