//! `gpubuild link`: every format before and after a build, and a C program linked with the output.

use std::path::Path;

use crate::support::{Sandbox, is_on_path, skip};

const FORMATS: [&str; 5] = ["plain", "cargo", "json", "pkg-config", "cmake"];

const MAIN: &str =
    "#include <stdio.h>\ndouble add(double);\nint main(void) { printf(\"%.1f\\n\", add(27.0)); return 0; }\n";

#[test]
fn link_before_a_build_fails_with_a_hint() {
    let Some(project) = Sandbox::with_library() else { return };
    for format in FORMATS {
        let ran = project.run(&["link", "--format", format]);
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        ran.says(&["[manifest.missing]", "nothing was built yet", "hint: run `gpubuild build`"]);
        if format == "json" {
            assert_eq!(ran.json()["error"]["id"], "manifest.missing");
        } else {
            assert_eq!(ran.stdout, "");
        }
    }
}

#[test]
fn every_link_format_lists_the_library_and_its_dependencies() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    let link = |format: &str| {
        let ran = project.run(&["link", "--format", format]);
        assert_eq!(ran.succeeds().stderr, "");
        ran
    };
    let plain = link("plain").stdout;
    assert!(plain.contains("libadder.a") && plain.trim_end().ends_with("-lm"), "{plain}");
    let cargo = link("cargo").stdout;
    assert!(cargo.lines().all(|line| line.starts_with("cargo::rustc-link-")), "{cargo}");
    assert!(cargo.contains("static=adder") && cargo.contains("dylib=m"), "{cargo}");
    let json = link("json").json();
    assert_eq!((&json["static"][0], &json["dynamic"][0]), (&"adder".into(), &"m".into()));
    assert!(link("pkg-config").stdout.contains("Libs: "));
    assert!(link("cmake").stdout.contains("add_library(gpubuild::adder INTERFACE IMPORTED)"));
}

#[test]
fn deleted_library_is_reported() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    project.remove(".gpubuild/adder/cpu/libadder.a");
    project.run(&["link"]).fails(1, "manifest.stale").says(&["libadder.a", "run `gpubuild build` again"]);
    project.run(&["build"]).succeeds();
    project.run(&["link"]).succeeds();
}

#[cfg(target_os = "linux")]
#[test]
fn plain_link_line_works_with_gnu_ld() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    project.write("main.c", MAIN);
    let words = project.run(&["link", "--format", "plain"]).stdout;
    let mut linkers = vec![None];
    if is_on_path("ld.bfd") {
        linkers.push(Some("-fuse-ld=bfd"));
    } else {
        skip("cmake", "no ld.bfd");
    }
    for linker in linkers {
        let mut argv = vec!["cc"];
        argv.extend(linker);
        argv.extend(["main.c", "-o", "program"]);
        argv.extend(words.split_whitespace());
        project.start(&argv).succeeds();
        assert_eq!(project.start(&["./program"]).succeeds().stdout, "4.0\n");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn pkg_config_and_cmake_formats_link_a_c_program() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    project.write("app/main.c", MAIN);
    let form = |format: &str| project.run(&["link", "--format", format]).succeeds().stdout.clone();
    project.write("app/adder.cmake", &form("cmake"));
    project.write(
        "app/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(app C)\ninclude(adder.cmake)\n\
         add_executable(app main.c)\ntarget_link_libraries(app PRIVATE gpubuild::adder)\n",
    );
    project.start(&["cmake", "-G", "Ninja", "-S", "app", "-B", "app/out"]).succeeds();
    project.start(&["cmake", "--build", "app/out"]).succeeds();
    assert_eq!(project.start(&["app/out/app"]).succeeds().stdout, "4.0\n");
    if !is_on_path("pkg-config") {
        skip("pkg-config", "no pkg-config");
        return;
    }
    project.write("adder.pc", &form("pkg-config"));
    let words = project.start(&["pkg-config", "--libs", "./adder.pc"]).succeeds().stdout.clone();
    let mut argv = vec!["cc", "app/main.c", "-o", "program"];
    argv.extend(words.split_whitespace());
    project.start(&argv).succeeds();
    assert_eq!(project.start(&["./program"]).succeeds().stdout, "4.0\n");
}

#[cfg(target_os = "linux")]
#[test]
fn cargo_format_links_a_rust_program() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    let lines = project.run(&["link", "--format", "cargo"]).succeeds().stdout.clone();
    project.write("app/lines.txt", &lines);
    project.write("app/Cargo.toml", "[package]\nname = \"app\"\nedition = \"2024\"\n[workspace]\n");
    project.write("app/build.rs", "fn main() { print!(\"{}\", include_str!(\"lines.txt\")); }\n");
    project.write(
        "app/src/main.rs",
        "unsafe extern \"C\" { safe fn add(x: f64) -> f64; }\nfn main() { println!(\"{:.1}\", add(27.0)); }\n",
    );
    let cargo = Path::new(env!("CARGO")).to_str().unwrap();
    project
        .start(&[
            cargo,
            "build",
            "--offline",
            "--quiet",
            "--manifest-path",
            "app/Cargo.toml",
            "--target-dir",
            "app/target",
        ])
        .succeeds();
    assert_eq!(project.start(&["app/target/debug/app"]).succeeds().stdout, "4.0\n");
}
