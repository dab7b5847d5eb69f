//! Two projects with two versions of the same library, in one program.

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::exec;
use gpubuild_exec::exec::{BuildOutcome, stage};
use gpubuild_host::{HostInfo, Os, ReadFiles, WriteFiles};
use gpubuild_plan::link;
use gpubuild_plan::project::together::{InterfaceDifference, SameSymbols, With};

use crate::support::{Project, plan, project};

/// A core library with a C function, a C++ inline function that depends on the version, and a variable; and a library
/// that uses it.
fn files(name: &str, size: u32) -> Vec<(String, String)> {
    let cmake = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject({name} C CXX)\nadd_library(core STATIC core.c shape.cpp)\n\
         add_library({name} STATIC {name}.cpp)\ntarget_link_libraries({name} PUBLIC core)\n"
    );
    let header = format!(
        "#pragma once\n#ifdef __cplusplus\nstruct shape {{ int dims[{size}]; }};\n\
         __attribute__((noinline)) inline int shape_size(const shape &) {{ return {size}; }}\nnamespace core {{ int area(const shape &); }}\n\
         extern \"C\" {{\n#endif\nint core_version(void);\nextern int core_calls;\n#ifdef __cplusplus\n}}\n#endif\n"
    );
    let own = format!(
        "#include \"core.h\"\nextern \"C\" int {name}_answer(void) {{ shape s{{}}; return core_version() * 1000 + shape_size(s) * 100 + core::area(s) * 10 + core_calls; }}\n"
    );
    vec![
        ("CMakeLists.txt".into(), cmake),
        ("core.h".into(), header),
        (
            "core.c".into(),
            format!(
                "#include \"core.h\"\nint core_calls = 0;\nint core_version(void) {{ core_calls++; return {size}; }}\n"
            ),
        ),
        (
            "shape.cpp".into(),
            // A static object with a destructor: its comdat group has a name that is not a symbol.
            "#include \"core.h\"\n#include <map>\n#include <string>\nstatic std::map<std::string, int> seen;\n\
             int core::area(const shape &s) { seen[\"area\"] = shape_size(s); return seen.at(\"area\"); }\n"
                .into(),
        ),
        (format!("{name}.cpp"), own),
    ]
}

const MAIN: &str = "#include <stdio.h>\nint talk_answer(void);\nint hear_answer(void);\n\
    int main(void) { printf(\"%d %d\\n\", talk_answer(), hear_answer()); return 0; }\n";

fn built(name: &str, size: u32) -> Option<(Project, BuildOutcome)> {
    let files = files(name, size);
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let project = project(&files)?;
    let outcome = project.build(vec![project.tree(&[Backend::Cpu], &[name], &[])]).unwrap();
    Some((project, outcome))
}

fn with(
    project: &Project,
    other: &Project,
    same_symbols: SameSymbols,
) -> Result<BuildOutcome, exec::BuildError> {
    let mut plan = plan(vec![project.tree(&[Backend::Cpu], &["talk"], &[])]);
    plan.with.push(With {
        name: "hear".into(),
        folder: other.path(""),
        manifest: gpubuild_plan::artifacts::manifest_path(&other.path("build")),
        same_symbols,
        library: None,
        differences: vec![InterfaceDifference {
            name: "CORE_SIZE".into(),
            ours: "2".into(),
            theirs: "3".into(),
        }],
    });
    project.build_plan(&plan)
}

fn answers(project: &Project, outcome: &BuildOutcome) -> String {
    project.write("../main.c", MAIN);
    let (main, program) = (project.path("main.c"), project.path("build/runtime/program"));
    project.host.create_dir_all(&stage::runtime_folder(&project.path("build"))).unwrap();
    let mut argv = vec!["cc".to_owned(), main.to_string(), "-o".to_owned(), program.to_string()];
    let directives = link::directives(&outcome.manifest, Os::Linux).beside_program(Os::Linux);
    argv.extend(link::words(&directives));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    project.output(&argv);
    project.output(&[program.as_str()])
}

#[test]
fn two_versions_of_a_library_are_rejected_or_isolated() {
    let Some((talk, _)) = built("talk", 2) else { return };
    let Some((hear, _)) = built("hear", 3) else { return };
    if talk.host.platform().os != Os::Linux {
        return;
    }
    let error = with(&talk, &hear, SameSymbols::Refuse).unwrap_err();
    assert_eq!(error.id(), "symbols.same");
    let text = error.to_string();
    assert!(text.contains("`test` and `hear` both define `_ZN4core4areaERK5shape` and 2 more"), "{text}");
    assert!(text.contains("CORE_SIZE is 2 and 3"), "{text}");
    assert!(error.hint().unwrap().contains("same_symbols"));

    let outcome = with(&talk, &hear, SameSymbols::Prefix).unwrap();
    assert_eq!(
        answers(&talk, &outcome),
        "2221 3331\n",
        "each has its own functions, inline ones and variables"
    );
    let table: serde_json::Value =
        serde_json::from_str(&talk.host.read_text(&talk.path("build/with/hear/symbols.json")).unwrap())
            .unwrap();
    assert_eq!(table["core_version"], "hear_core_version");
    assert_eq!(table["hear_answer"], serde_json::Value::Null, "symbols of only one project keep their names");
    let again = with(&talk, &hear, SameSymbols::Prefix).unwrap();
    assert_eq!(again.manifest, outcome.manifest);

    let outcome = with(&talk, &hear, SameSymbols::Dynamic).unwrap();
    assert!(talk.host.is_file(&talk.path("build/runtime/libhear-apart.so")));
    assert_eq!(answers(&talk, &outcome), "2221 3331\n");
}

#[test]
fn other_project_must_be_built_first() {
    let Some((talk, _)) = built("talk", 2) else { return };
    let Some(hear) = project(&[]) else { return };
    let error = with(&talk, &hear, SameSymbols::Prefix).unwrap_err();
    assert_eq!(error.id(), "symbols.other-not-built");
    assert!(error.hint().unwrap().contains("gpubuild build --project"));
}
