//! `gpubuild export` and `gpubuild pack --libraries`: C programs that use the exported or installed folder, after it was moved, with CMake
//! and with pkg-config.
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
        sandbox.write("vendor/LICENSE", "as you like\n");
        sandbox.write("COPYING.txt", "mine\n");
        sandbox.run(&["build"]).succeeds();
        let ran = sandbox.run(&["export", "out dir"]);
        let text = &ran.succeeds().stdout;
        assert!(text.contains(library) && text.contains("include (2 headers)"), "{text}");
        assert_eq!(sandbox.read("out dir/share/licences/vendor/LICENSE"), "as you like\n");
        assert_eq!(sandbox.read("out dir/share/licences/adder/COPYING.txt"), "mine\n");
        assert!(!sandbox.exists("out dir/include/math/notes.txt"));
        // Nothing but the moved folder is left.
        sandbox.start(&["mv", "out dir", "moved dir"]).succeeds();
        sandbox.start(&["rm", "-r", ".gpubuild", "vendor"]).succeeds();
        with_cmake(&sandbox, "moved dir");
        with_pkg_config(&sandbox, "moved dir");
    }
}

/// Builds the program with pkg-config against the folder.
fn with_pkg_config(sandbox: &Sandbox, folder: &str) {
    if !is_on_path("pkg-config") {
        return skip("pkg-config", "no pkg-config");
    }
    let script = format!(
        "eval cc main.c -o program $(PKG_CONFIG_PATH='{folder}/lib/pkgconfig' pkg-config --cflags --libs adder)"
    );
    sandbox.start(&["sh", "-c", &script]).succeeds();
    assert_eq!(sandbox.start(&["./program"]).succeeds().stdout, "4.0 7\n");
}

/// The project links a static and a shared library that are not part of it.
#[test]
fn packed_libraries_link_c_programs_on_other_machines() {
    for (kind, library) in [("STATIC", "libadder.a"), ("SHARED", "libadder.so.3")] {
        let Some(sandbox) = project(kind) else { return };
        for (name, value) in [("one", 1), ("two", 2)] {
            sandbox.write(&format!("third/{name}.c"), &format!("int {name}(void) {{ return {value}; }}\n"));
        }
        sandbox.start(&["cc", "-c", "-fPIC", "third/one.c", "-o", "third/one.o"]).succeeds();
        sandbox.start(&["ar", "rcs", "third/libone.a", "third/one.o"]).succeeds();
        let soname = "-Wl,-soname,libtwo.so.2";
        sandbox.start(&["cc", "-shared", "-fPIC", soname, "third/two.c", "-o", "third/libtwo.so"]).succeeds();
        // What the loader looks for on this machine.
        sandbox.start(&["cp", "third/libtwo.so", "third/libtwo.so.2"]).succeeds();
        let cmake = sandbox.read("vendor/CMakeLists.txt");
        let third = sandbox.path("third").display().to_string();
        sandbox.write(
            "vendor/CMakeLists.txt",
            &format!(
                "{cmake}target_sources(adder PRIVATE sum.c)\n\
                 set_target_properties(adder PROPERTIES SOVERSION 3)\n\
                 target_link_libraries(adder PUBLIC {third}/libone.a {third}/libtwo.so)\n"
            ),
        );
        sandbox.write(
            "vendor/sum.c",
            "int one(void);\nint two(void);\nint sum(void) { return one() + two(); }\n",
        );
        sandbox.write("vendor/LICENSE", "as you like\n");
        sandbox.write(
            "main.c",
            &MAIN
                .replace("add(27.0), ADD_LEVEL", "add(27.0), ADD_LEVEL - 3 + sum()")
                .replace("int main", "int sum(void);\nint main"),
        );
        let pack = ["pack", "--libraries", "--out", "release", "--offline"];
        sandbox.run(&pack).fails(2, "pack.version-missing").says(&["`--release-version`"]);
        let version = ["--release-version", "1.2", "--json"];
        let document = if kind == "STATIC" {
            sandbox.run(&[&pack[..], &version].concat())
        } else {
            // The same in gpubuild.toml.
            let file = sandbox.read("gpubuild.toml");
            sandbox.write("gpubuild.toml", &format!("{file}[pack]\nlibraries = true\nversion = \"1.2\"\n"));
            sandbox.run(&["pack", "--out", "release", "--offline", "--json"])
        };
        let document = document.succeeds().json();
        let manifest = &document["manifest"];
        assert_eq!((&manifest["name"], &manifest["version"]), (&"adder".into(), &"1.2".into()), "{manifest}");
        let variant = &manifest["platforms"]["linux-x86_64"]["variants"][0];
        assert!(variant["libc"]["version"].is_string() && variant.get("start").is_none(), "{variant}");

        let installed = sandbox.run(&["install", "--manifest", "release", "--to", "to"]);
        assert_eq!(installed.succeeds().stdout.trim(), sandbox.path("to/current").to_str().unwrap());
        // The build machine with its libraries is gone.
        sandbox.start(&["rm", "-r", ".gpubuild", "vendor", "third", "release"]).succeeds();
        for file in [
            &format!("lib/{library}"),
            "lib/libone.a",
            "lib/libtwo.so.2",
            "include/math/add.h",
            "share/sbom.cdx.json",
            "share/licences/vendor/LICENSE",
        ] {
            assert!(sandbox.exists(&format!("to/current/{file}")), "{file}");
        }
        for file in ["lib/pkgconfig/adder.pc", "lib/cmake/adder/adderConfig.cmake"] {
            let text = sandbox.read(&format!("to/current/{file}"));
            assert!(!text.contains(sandbox.path("").to_str().unwrap()), "{text}");
        }
        assert!(sandbox.read("to/current/lib/pkgconfig/adder.pc").contains("\nVersion: 1.2\n"));
        with_cmake(&sandbox, "to/current");
        with_pkg_config(&sandbox, "to/current");
    }
}

#[test]
fn libraries_are_packed_instead_of_programs() {
    let Some(sandbox) = project("STATIC") else { return };
    let out = ["pack", "--out", "release"];
    sandbox.run(&out).fails(2, "run.no-binary").says(&["`--libraries`", "`libraries = true` in [pack]"]);
    let wheel = ["--libraries", "--format", "wheel"];
    sandbox.run(&[&out[..], &wheel].concat()).fails(2, "usage.conflict");
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

/// Libraries with device code or debug information are larger than the limit of documents.
#[test]
fn libraries_of_any_size_are_exported() {
    let Some(sandbox) = project("STATIC") else { return };
    let source = sandbox.read("vendor/adder.c");
    sandbox.write("vendor/adder.c", &format!("{source}const char adder_data[(64 << 20) + 1] = {{1}};\n"));
    sandbox.run(&["build"]).succeeds();
    sandbox.run(&["export", "dist"]).succeeds();
    with_cmake(&sandbox, "dist");
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
