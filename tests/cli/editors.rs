//! `gpubuild export` for editors: compile commands that clangd reads, presets that open the same build.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox, is_on_path, skip};

const MAIN: &str =
    "#include <level.h>\nconst char *title(void) { return TITLE; }\nint level(void) { return ADD_LEVEL; }\n";

/// A project with a generated header, a quoted definition, a source whose name has a space, and a C++ source.
fn project() -> Option<Sandbox> {
    let sandbox = Sandbox::with_library()?;
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(adder C CXX)\n\
         add_library(adder STATIC adder.c \"my title.c\" more.cpp)\n\
         file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/made/level.h CONTENT \"#define ADD_LEVEL LEVEL\\n\")\n\
         target_include_directories(adder SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/made)\n\
         target_compile_definitions(adder PRIVATE LEVEL=7 \"TITLE=\\\"a b\\\"\")\n\
         set_target_properties(adder PROPERTIES CXX_STANDARD 17)\n\
         target_link_libraries(adder PUBLIC m)\n",
    );
    sandbox.write("vendor/my title.c", MAIN);
    sandbox.write("vendor/more.cpp", "inline constexpr int more = LEVEL;\nint get() { return more; }\n");
    Some(sandbox)
}

fn commands(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&sandbox.read("compile_commands.json")).unwrap()
}

#[test]
fn clangd_parses_all_sources() {
    let Some(sandbox) = project() else { return };
    sandbox.run(&["export", "--compile-commands", "a.json"]).fails(2, "manifest.missing");
    sandbox.run(&["build"]).succeeds();
    let ran = sandbox.run(&["export", "--compile-commands", "compile_commands.json"]);
    assert!(ran.succeeds().stdout.ends_with("compile_commands.json (3 sources)\n"), "{ran:?}");
    assert!(!sandbox.exists("vendor/compile_commands.json") && !sandbox.exists("lib"));
    sandbox.run(&["export", "--compile-commands", "compile_commands.json"]).succeeds();
    let of_project = sandbox.read("gpubuild.toml");
    sandbox.run(&["export", "--compile-commands", "gpubuild.toml"]).fails(2, "file.not-ours");
    assert_eq!(sandbox.read("gpubuild.toml"), of_project);
    let all = commands(&sandbox);
    let names: Vec<&str> =
        all.iter().filter_map(|one| one["file"].as_str()?.rsplit_once('/').map(|(_, name)| name)).collect();
    assert_eq!(names, ["adder.c", "more.cpp", "my title.c"]);
    let words = all[2]["arguments"].as_array().unwrap();
    assert!(words.contains(&json!("-DTITLE=\"a b\"")) && words.contains(&json!("-isystem")), "{words:?}");
    assert_eq!((&words[words.len() - 2], &words[words.len() - 1]), (&json!("-c"), &all[2]["file"]));
    let Some(clangd) = ["clangd", "clangd-14"].into_iter().find(|name| is_on_path(name)) else {
        skip("clangd", "no clangd");
        return;
    };
    for name in names {
        let source = sandbox.path("vendor").join(name);
        let check = format!("--check={}", source.display());
        let folder = format!("--compile-commands-dir={}", sandbox.path("").display());
        let ran = sandbox.start(&[clangd, &folder, &check]);
        assert!(ran.succeeds().stderr.contains("All checks completed, 0 errors"), "{ran:?}");
    }
}

#[test]
fn sources_of_custom_commands_are_listed() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\n\
         add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/extra.o DEPENDS extra.c COMMAND ${CMAKE_C_COMPILER} -O1 \
         \"-DTITLE=a b\" -c ${CMAKE_SOURCE_DIR}/extra.c -o ${CMAKE_BINARY_DIR}/extra.o VERBATIM)\n\
         add_library(adder STATIC adder.c ${CMAKE_BINARY_DIR}/extra.o)\n",
    );
    sandbox.write("vendor/extra.c", "int extra(void) { return 1; }\n");
    sandbox.run(&["build"]).succeeds();
    let ran = sandbox.run(&["export", "--compile-commands", "compile_commands.json"]);
    assert!(ran.succeeds().stdout.ends_with("compile_commands.json (2 sources)\n"), "{ran:?}");
    let all = commands(&sandbox);
    let words: Vec<&str> = all[1]["arguments"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(words.contains(&"-O1") && words.contains(&"-DTITLE=a b") && !words.contains(&"-o"), "{words:?}");
    assert!(words.last().is_some_and(|word| word.ends_with("vendor/extra.c")), "{words:?}");
}

#[test]
fn restored_tree_has_the_same_commands_without_flags_of_the_environment() {
    let Some(sandbox) = project() else { return };
    let run = |arguments: &[&str]| {
        let mut command = sandbox.command();
        command.env("GPUBUILD_STORE", sandbox.path("store")).env("CFLAGS", "-DPRIVATE=1");
        RunResult::from(command.args(arguments).output().unwrap())
    };
    let export = ["export", "--compile-commands", "compile_commands.json", "--json"];
    run(&["build", "--explain"]).succeeds().says(&["[cpu] stored "]);
    let document = run(&export).succeeds().json();
    assert_eq!(
        (&document["compile_commands"]["sources"], document.get("prefix")),
        (&json!(3), None),
        "{document}"
    );
    let mut built = commands(&sandbox);
    run(&["clean"]).succeeds();
    run(&["build", "--explain"]).succeeds().says(&["[cpu] hit: key"]);
    run(&export).succeeds();
    let restored = commands(&sandbox);
    assert!(built[0]["arguments"].as_array().unwrap().contains(&json!("-DPRIVATE=1")), "{built:?}");
    for command in &mut built {
        command["arguments"].as_array_mut().unwrap().retain(|word| *word != "-DPRIVATE=1");
    }
    assert_eq!(built, restored);
    sandbox.remove(".gpubuild/adder/cpu/gpubuild/editor.json");
    run(&export[..3]).fails(1, "export.sources-unknown").says(&["gpubuild build --no-store"]);
}

/// The entries of CMake's cache, without their types and comments, which depend on the way in which an entry was set.
fn cache(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let text = sandbox.read(".gpubuild/adder/cpu/CMakeCache.txt");
    let entries = text.lines().filter(|line| !line.starts_with(['#', '/'])).filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let (name, _) = name.rsplit_once(':')?;
        Some((name.to_owned(), value.to_owned()))
    });
    entries.collect()
}

#[test]
fn preset_opens_the_same_build() {
    let Some(sandbox) = project() else { return };
    let text = sandbox.read("gpubuild.toml");
    sandbox.write(
        "gpubuild.toml",
        &format!("{text}options = {{ CMAKE_C_FLAGS = \"-DMONEY='$env{{HOME}}'\" }}\n"),
    );
    sandbox.run(&["build"]).succeeds();
    let before = cache(&sandbox);
    let file = "vendor/CMakeUserPresets.json";
    let ran = sandbox.run(&["export", "--presets", file]);
    assert!(ran.succeeds().stdout.ends_with("vendor/CMakeUserPresets.json\n  gpubuild-cpu\n"), "{ran:?}");
    sandbox.run(&["build"]).succeeds().says(&["up to date:"]);
    let from_source = |words: &str| sandbox.start(&["sh", "-c", &format!("cd vendor && cmake {words}")]);
    from_source("--preset gpubuild-cpu").succeeds();
    assert_eq!(cache(&sandbox), before);
    let built = from_source("--build --preset gpubuild-cpu");
    assert!(built.succeeds().stdout.contains("no work to do"), "{built:?}");
    sandbox.run(&["build"]).succeeds().says(&["up to date:"]);
    sandbox.write("vendor/adder.c", "double add(double x) { return x + 2.0; }\n");
    let built = from_source("--build --preset gpubuild-cpu");
    assert!(built.succeeds().stdout.contains("adder.c.o"), "{built:?}");
    sandbox.run(&["build"]).succeeds();
    sandbox.run(&["build"]).succeeds().says(&["up to date:"]);
    // Another export replaces its own file.
    sandbox.run(&["export", "--presets", file, "--json"]).succeeds();
}

#[test]
fn presets_of_others_stay_and_include_those_of_gpubuild() {
    let Some(sandbox) = project() else { return };
    sandbox.run(&["build"]).succeeds();
    let mine = "{ \"version\": 4, \"include\": [\"gpubuild-presets.json\"] }\n";
    sandbox.write("vendor/CMakeUserPresets.json", mine);
    let export = |file: &str| sandbox.run(&["export", "--presets", file]);
    export("vendor/CMakeUserPresets.json").fails(2, "file.not-ours").says(&["hint: ", "`include`"]);
    assert_eq!(sandbox.read("vendor/CMakeUserPresets.json"), mine);
    export("CMakeUserPresets.json").fails(2, "export.not-the-source").says(&["vendor/CMakeUserPresets.json"]);
    export("vendor/gpubuild-presets.json").succeeds();
    let listed = sandbox.start(&["sh", "-c", "cd vendor && cmake --list-presets"]);
    assert!(listed.succeeds().stdout.contains("gpubuild-cpu"), "{listed:?}");
    sandbox.write("vendor/folder.json/x", "");
    export("vendor/folder.json").fails(1, "export.failed");
    let ran = sandbox.run(&["export"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
}
