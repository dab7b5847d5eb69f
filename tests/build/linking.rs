//! Link lines from the probe are sufficient, also for linkers that read their arguments once.

use gpubuild_core::Backend;
use gpubuild_host::{HostInfo, Os, ReadFiles};
use gpubuild_plan::artifacts::{LinkItem, Manifest};
use gpubuild_plan::link;

use crate::support::{Project, project};

const MIXED: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        r#"cmake_minimum_required(VERSION 3.16)
project(mixed C CXX)
option(MX_LOUD "say it" OFF)
if(MX_LOUD)
  add_compile_definitions(LOUD=1)
endif()
find_package(Threads REQUIRED)
add_subdirectory(deep)
add_library(top STATIC top.cpp)
target_link_libraries(top PUBLIC deep Threads::Threads)
add_library(never STATIC never.c)
"#,
    ),
    (
        "top.cpp",
        "#include <string>\nextern \"C\" double deep(double);\nextern \"C\" double top(double x) { return std::to_string(deep(x)).size() + deep(x); }\n",
    ),
    ("never.c", "#error this target was not asked for\n"),
    ("deep/CMakeLists.txt", "add_library(deep STATIC deep.c)\ntarget_link_libraries(deep PUBLIC m)\n"),
    ("deep/deep.c", "#include <math.h>\ndouble deep(double x) { return cbrt(x); }\n"),
];

const MAIN: &str =
    "#include <stdio.h>\ndouble top(double);\nint main(void) { printf(\"%.1f\\n\", top(27.0)); return 0; }\n";

fn link_and_run(project: &Project, manifest: &Manifest, linker: Option<&str>) -> String {
    link_and_run_program(project, manifest, linker, MAIN)
}

fn link_and_run_program(project: &Project, manifest: &Manifest, linker: Option<&str>, main: &str) -> String {
    project.write("../main.c", main);
    let (main, program) = (project.path("main.c"), project.path("program"));
    let mut argv = vec!["cc".to_owned()];
    argv.extend(linker.map(|name| format!("-fuse-ld={name}")));
    argv.extend([main.to_string(), "-o".to_owned(), program.to_string()]);
    argv.extend(link::words(&link::directives(manifest, Os::Linux)));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    project.output(&argv);
    project.output(&[program.as_str()])
}

#[test]
fn c_and_cxx_libraries_link_with_the_c_driver_in_one_pass() {
    let Some(project) = project(MIXED) else { return };
    let outcome = project.build(vec![project.tree(&[Backend::Cpu], &["top"], &[("MX_LOUD", "ON")])]).unwrap();
    let tree = &outcome.manifest.trees[0];
    let names: Vec<&str> = tree.files.iter().map(|file| file.target.as_str()).collect();
    assert_eq!(names, ["deep", "top"], "the requested target and its dependencies, nothing else");
    assert!(tree.files.iter().all(|file| file.kind == "static" && file.symbols > Some(0)));
    assert_eq!(tree.compilers["CXX"].id.len(), tree.compilers["C"].id.len());
    let system: Vec<&str> = tree
        .link
        .iter()
        .filter_map(|item| if let LinkItem::System { name } = item { Some(name.as_str()) } else { None })
        .collect();
    if project.host.platform().os == Os::Linux {
        assert!(system.contains(&"m"), "{system:?}");
        assert!(link_and_run(&project, &outcome.manifest, None).starts_with("11.0"));
        let bfd = gpubuild_host::find_program(&project.host, "ld.bfd");
        if bfd.is_empty() {
            crate::requirements::skip("cmake", "no ld.bfd");
        } else {
            assert!(link_and_run(&project, &outcome.manifest, Some("bfd")).starts_with("11.0"));
        }
    }
    assert_eq!(Manifest::read(&project.host, &outcome.path).unwrap(), outcome.manifest);
}

#[test]
fn c_project_does_not_need_a_cxx_compiler() {
    let Some(project) = project(&[
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.16)\nproject(c C)\nadd_library(only STATIC only.c)\n",
        ),
        ("only.c", "int only(void) { return 1; }\n"),
    ]) else {
        return;
    };
    let outcome = project.build(vec![project.tree(&[Backend::Cpu], &["only"], &[])]).unwrap();
    let directives = link::directives(&outcome.manifest, Os::Linux);
    assert_eq!(directives.statics.len(), 1);
    assert!(!directives.dynamic.contains(&"stdc++".to_owned()));
}

#[test]
fn shared_libraries_link_and_are_found_at_run_time() {
    let Some(project) = project(&[
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_library(top SHARED top.c)\nset_target_properties(top PROPERTIES VERSION 1.2.3 SOVERSION 1)\n",
        ),
        ("top.c", "double top(double x) { return x; }\n"),
    ]) else {
        return;
    };
    let outcome = project.build(vec![project.tree(&[Backend::Cpu], &["top"], &[])]).unwrap();
    let directives = link::directives(&outcome.manifest, project.host.platform().os);
    assert_eq!(directives.dynamic.first().map(String::as_str), Some("top"));
    assert_eq!(directives.rpath.len(), 1);
    if project.host.platform().os == Os::Linux {
        assert_eq!(link_and_run(&project, &outcome.manifest, None), "27.0\n");
    }
}

#[test]
fn option_values_reach_the_project_unchanged() {
    let odd = r#"a;b "c" $ENV{HOME} \d ]=] '"#;
    let Some(project) = project(&[
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.16)\nproject(v C)\nfile(WRITE \"${CMAKE_BINARY_DIR}/seen.txt\" \"${ODD}\")\nadd_library(v STATIC v.c)\n",
        ),
        ("v.c", "int v(void) { return 1; }\n"),
    ]) else {
        return;
    };
    let tree = project.tree(&[Backend::Cpu], &["v"], &[("ODD", odd)]);
    let seen = tree.build.join("seen.txt");
    project.build(vec![tree]).unwrap();
    assert_eq!(project.host.read_text(&seen).unwrap(), odd);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn bundled_kernels_link_into_a_c_program() {
    let Some(project) = project(&[]) else { return };
    let mut tree =
        project.tree(&[Backend::Cpu], &["gk-core", "gk-cpu"], &[("GK_CPU", "ON"), ("GK_VULKAN", "OFF")]);
    tree.source = project.host.path(concat!(env!("CARGO_MANIFEST_DIR"), "/vendor/gk"));
    let outcome = project.build(vec![tree]).unwrap();
    let kinds: Vec<(&str, &str)> = outcome.manifest.trees[0]
        .files
        .iter()
        .map(|file| (file.target.as_str(), file.kind.as_str()))
        .collect();
    assert_eq!(kinds, [("gk-core", "static"), ("gk-cpu", "static")]);
    if project.host.platform().os == Os::Linux {
        let main = "const void *gk_backend_cpu(void);\nint main(void) { return gk_backend_cpu() == 0; }\n";
        assert_eq!(link_and_run_program(&project, &outcome.manifest, None, main), "");
    }
}
