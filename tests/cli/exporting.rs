//! `gpubuild export`: C programs that use the exported folder, after it was moved, with CMake and with pkg-config.
#![cfg(target_os = "linux")]

use crate::support::{Sandbox, is_on_path, skip};

const MAIN: &str = "#include <math/add.h>\n#include <stdio.h>\n\
    int main(void) { printf(\"%.1f %d\\n\", add(27.0), ADD_LEVEL); return 0; }\n";

/// A project with headers in a subfolder of an include folder, a generated header and a definition.
fn project(kind: &str) -> Option<Sandbox> {
    let sandbox = Sandbox::with_library()?;
    sandbox.write(
        "vendor/CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder {kind} adder.c)\n\
             file(WRITE ${{CMAKE_BINARY_DIR}}/made/level.h \"#define ADD_LEVEL LEVEL\\n\")\n\
             target_include_directories(adder PUBLIC include ${{CMAKE_BINARY_DIR}}/made)\n\
             target_compile_definitions(adder PUBLIC LEVEL=7)\ntarget_link_libraries(adder PUBLIC m)\n"
        ),
    );
    sandbox.write("vendor/include/math/add.h", "#include <level.h>\ndouble add(double);\n");
    sandbox.write("vendor/include/math/notes.txt", "not a header\n");
    sandbox.write("main.c", MAIN);
    Some(sandbox)
}

/// Builds the program with CMake against the folder.
fn with_cmake(sandbox: &Sandbox, folder: &str) {
    sandbox.write(
        "app/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(app C)\nfind_package(adder REQUIRED)\n\
         add_executable(app ../main.c)\ntarget_link_libraries(app PRIVATE gpubuild::adder)\n",
    );
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", sandbox.path(folder).display());
    sandbox.start(&["cmake", "-G", "Ninja", "-S", "app", "-B", "app/out", &prefix]).succeeds();
    sandbox.start(&["cmake", "--build", "app/out"]).succeeds();
    assert_eq!(sandbox.start(&["app/out/app"]).succeeds().stdout, "4.0 7\n");
}

#[test]
fn moved_export_links_c_programs_without_the_project() {
    for (kind, library) in [("STATIC", "lib/libadder.a"), ("SHARED", "lib/libadder.so")] {
        let Some(sandbox) = project(kind) else { return };
        sandbox.run(&["build"]).succeeds();
        let ran = sandbox.run(&["export", "out dir"]);
        let text = &ran.succeeds().stdout;
        assert!(text.contains(library) && text.contains("include (2 headers)"), "{text}");
        assert!(!sandbox.exists("out dir/include/math/notes.txt"));
        // Nothing but the moved folder is left.
        sandbox.start(&["mv", "out dir", "moved dir"]).succeeds();
        sandbox.start(&["rm", "-r", ".gpubuild", "vendor"]).succeeds();
        with_cmake(&sandbox, "moved dir");
        if !is_on_path("pkg-config") {
            skip("pkg-config", "no pkg-config");
            continue;
        }
        let script = "eval cc main.c -o program $(PKG_CONFIG_PATH='moved dir/lib/pkgconfig' pkg-config --cflags --libs adder)";
        sandbox.start(&["sh", "-c", script]).succeeds();
        assert_eq!(sandbox.start(&["./program"]).succeeds().stdout, "4.0 7\n");
    }
}

#[test]
fn second_export_removes_what_is_gone_and_keeps_the_rest() {
    let Some(sandbox) = project("STATIC") else { return };
    sandbox.write("vendor/include/old.h", "\n");
    sandbox.run(&["build"]).succeeds();
    sandbox.write("dist/mine.txt", "mine\n");
    let document = sandbox.run(&["export", "dist", "--json"]).succeeds().json();
    let headers = ["include/level.h", "include/math/add.h", "include/old.h"];
    assert_eq!(
        (&document["schema"]["name"], &document["headers"]),
        (&"export".into(), &serde_json::json!(headers))
    );
    assert_eq!(document["cmake"], "lib/cmake/adder/adderConfig.cmake");
    #[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
    let written = |name: &str| std::fs::metadata(sandbox.path(name)).unwrap().modified().unwrap();
    let before = written("dist/lib/libadder.a");
    sandbox.remove("vendor/include/old.h");
    sandbox.run(&["export", "dist"]).succeeds();
    assert!(!sandbox.exists("dist/include/old.h") && sandbox.exists("dist/mine.txt"));
    assert_eq!(written("dist/lib/libadder.a"), before, "an equal file is not written again");
}

#[test]
fn exports_need_an_intact_build_and_a_folder_of_their_own() {
    let Some(sandbox) = project("STATIC") else { return };
    sandbox.run(&["export", "dist"]).fails(2, "manifest.missing").says(&["run `gpubuild build`"]);
    sandbox.run(&["build"]).succeeds();
    sandbox.run(&["export", "."]).fails(2, "export.into-project");
    sandbox.write("file", "");
    sandbox.run(&["export", "file"]).fails(1, "export.failed");
    sandbox.remove(".gpubuild/adder/cpu/libadder.a");
    sandbox.run(&["export", "dist"]).fails(1, "manifest.stale");
    assert!(!sandbox.exists("dist"));
}
