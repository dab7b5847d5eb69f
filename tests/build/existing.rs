//! Builds in a folder that an earlier build has used. Whatever they miss, they never get into the store: another clone, and the same one
//! after its build folder was removed, have what a build from scratch gives.

use gpubuild_core::Backend;
use gpubuild_exec::exec::TreeState;
use gpubuild_host::{ReadFiles, WriteFiles};

use crate::support::{Project, project, store_in};

/// A change of a project whose library contains one of the texts `TOK_one` and `TOK_two`.
struct Case {
    /// Follows `project(demo C)`.
    list: &'static str,
    files: &'static [(&'static str, &'static str)],
    change: fn(&Project),
    /// Whether a build in the same folder has to notice the change.
    is_noticed: bool,
}

const SOURCE: &str = "#include <token.h>\nconst char *token = TOKEN;\n";

fn tokens(project: &Project) -> Vec<String> {
    let bytes = project.host.read(&project.path("build/cpu/libdemo.a")).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut found: Vec<String> = text
        .match_indices("TOK_")
        .map(|(at, _)| text[at + 4..].chars().take_while(char::is_ascii_lowercase).collect())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn build(project: &Project) -> TreeState {
    project.build(vec![project.tree(&[Backend::Cpu], &["demo"], &[])]).unwrap().state
}

/// Writes a file beside the source folder, with an old time of modification.
fn write_beside(project: &Project, name: &str, text: &str, time: &str) {
    let path = project.path(name);
    project.host.write(&path, text.as_bytes()).unwrap();
    project.output(&["touch", "-d", time, path.as_str()]);
}

fn check(case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let (Some(mut one), Some(mut two)) = (project(&[]), project(&[])) else { return };
    for project in [&mut one, &mut two] {
        project.store = Some(store_in(&folder, &project.host));
        project.write(
            "CMakeLists.txt",
            &format!("cmake_minimum_required(VERSION 3.16)\nproject(demo C)\n{}", case.list),
        );
        project.write("demo.c", SOURCE);
        write_beside(project, "beside/token.h", "#define TOKEN \"TOK_one\"\n", "2020-01-01");
        for (name, text) in case.files {
            project.write(name, text);
        }
    }
    assert_eq!(build(&one), TreeState::Built);
    assert_eq!(tokens(&one), ["one"]);
    for project in [&one, &two] {
        (case.change)(project);
    }
    let state = build(&one);
    if case.is_noticed {
        assert_eq!((state, tokens(&one)), (TreeState::Built, vec!["two".to_owned()]), "in the same folder");
    }
    build(&two);
    assert_eq!(tokens(&two), ["two"], "in another clone");
    one.host.remove(&one.path("build")).unwrap();
    build(&one);
    assert_eq!(tokens(&one), ["two"], "from scratch");
    assert_eq!(build(&one), TreeState::Unchanged);
}

#[test]
fn default_of_an_option_changes() {
    let list = "option(FAST \"\" OFF)\nadd_library(demo STATIC demo.c)\ntarget_include_directories(demo PRIVATE .)\n\
                if(FAST)\ntarget_compile_definitions(demo PRIVATE FAST)\nendif()\n";
    check(&Case {
        list,
        files: &[(
            "token.h",
            "#ifdef FAST\n#define TOKEN \"TOK_two\"\n#else\n#define TOKEN \"TOK_one\"\n#endif\n",
        )],
        change: |project| {
            let text = read(project, "CMakeLists.txt");
            project.write("CMakeLists.txt", &text.replace("\"\" OFF", "\"\" ON"));
        },
        is_noticed: true,
    });
}

#[test]
fn older_header_replaces_one_beside_the_source_folder() {
    check(&Case {
        list: "add_library(demo STATIC demo.c)\ntarget_include_directories(demo PRIVATE ../beside)\n",
        files: &[],
        change: |project| {
            write_beside(project, "beside/token.h", "#define TOKEN \"TOK_two\"\n", "2021-01-01");
        },
        is_noticed: true,
    });
}

#[test]
fn header_is_found_in_an_earlier_folder() {
    check(&Case {
        list: "find_path(FOUND token.h PATHS ${CMAKE_SOURCE_DIR}/../first ${CMAKE_SOURCE_DIR}/../beside NO_DEFAULT_PATH)\n\
               add_library(demo STATIC demo.c)\ntarget_include_directories(demo PRIVATE ${FOUND})\n",
        files: &[("other.h", "")],
        change: |project| {
            write_beside(project, "first/token.h", "#define TOKEN \"TOK_two\"\n", "2020-01-01");
            // Something in the source folder changes as well.
            project.write("CMakeLists.txt", &format!("{}\n", read(project, "CMakeLists.txt")));
        },
        is_noticed: true,
    });
}

#[test]
fn script_reads_a_variable_beside_the_source_folder() {
    check(&Case {
        list: "include(../beside/token.cmake OPTIONAL)\nfile( READ token.txt TOKEN )\nadd_library(demo STATIC demo.c)\n\
               target_include_directories(demo PRIVATE .)\ntarget_compile_definitions(demo PRIVATE TOKEN=\"${TOKEN}\")\n",
        files: &[("token.h", ""), ("token.txt", "TOK_one")],
        change: |project| project.write("token.txt", "TOK_two"),
        is_noticed: true,
    });
}

#[test]
fn undeclared_input_of_a_generator_changes() {
    check(&Case {
        list: "add_custom_command(OUTPUT token.h COMMAND sh ${CMAKE_SOURCE_DIR}/make.sh > token.h DEPENDS make.sh WORKING_DIRECTORY ${CMAKE_BINARY_DIR})\n\
               add_library(demo STATIC demo.c token.h)\ntarget_include_directories(demo PRIVATE ${CMAKE_BINARY_DIR})\n",
        files: &[
            ("make.sh", "cat \"$(dirname \"$0\")/token.txt\"\n"),
            ("token.txt", "#define TOKEN \"TOK_one\"\n"),
        ],
        change: |project| project.write("token.txt", "#define TOKEN \"TOK_two\"\n"),
        is_noticed: false,
    });
}

#[test]
fn definition_with_an_unusual_ending_comes_first() {
    check(&Case {
        list: "add_library(demo STATIC demo.c)\ntarget_include_directories(demo PRIVATE . one two)\n",
        files: &[("token.h", "#include <token.def>\n"), ("two/token.def", "#define TOKEN \"TOK_one\"\n")],
        change: |project| project.write("one/token.def", "#define TOKEN \"TOK_two\"\n"),
        is_noticed: false,
    });
}

#[test]
fn compiler_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut one) = project(&[(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(demo C)\nadd_library(demo STATIC demo.c)\n",
    )]) else {
        return;
    };
    one.store = Some(store_in(&folder, &one.host));
    one.write("demo.c", "const char *token = TOKEN;\n");
    let compiler = one.path("compiler");
    let set = |token: &str, time: &str| {
        let text = format!("#!/bin/sh\nexec cc -DTOKEN='\"TOK_{token}\"' \"$@\"\n");
        one.host.write(&compiler, text.as_bytes()).unwrap();
        one.host.set_executable(&compiler).unwrap();
        one.output(&["touch", "-d", time, compiler.as_str()]);
    };
    let build = || {
        let cache = [("CMAKE_C_COMPILER", compiler.as_str())];
        one.build(vec![one.tree(&[Backend::Cpu], &["demo"], &cache)]).unwrap().state
    };
    set("one", "2020-01-01");
    assert_eq!((build(), tokens(&one)), (TreeState::Built, vec!["one".to_owned()]));
    set("two", "2021-01-01");
    assert_eq!((build(), tokens(&one)), (TreeState::Built, vec!["two".to_owned()]));
    assert_eq!(build(), TreeState::Unchanged);
}

fn read(project: &Project, name: &str) -> String {
    project.host.read_text(&project.path("src").join(name)).unwrap()
}
