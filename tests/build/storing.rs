//! Results in the build store: when they are restored, when not, and failures.

use gpubuild_core::Backend;
use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_exec::store::entry::{ENTRY, StoreEntry};
use gpubuild_exec::store::maintain::{self, StoreLimits};
use gpubuild_host::{HostInfo, HostPath, ReadFiles, RunPrograms, WriteFiles};
use gpubuild_plan::project::CacheAccess;

use crate::support::{Project, project, store_in};

const SMALL: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(s C)\noption(S_FAST \"\" OFF)\nif(S_FAST)\n  add_compile_definitions(FAST=1)\nendif()\nconfigure_file(gen.h.in gen/gen.h)\nadd_library(s STATIC s.c)\ntarget_include_directories(s PUBLIC ${CMAKE_BINARY_DIR}/gen)\n",
    ),
    ("gen.h.in", "#define GEN 1\n"),
    (
        "s.c",
        "#include \"s.h\"\n#include <gen.h>\nconst char *file(void) { return __FILE__; }\nint s(void) { return S + GEN; }\n",
    ),
    ("s.h", "#define S 1\n"),
];

/// A project with these files and a shared store.
fn sharing(files: &[(&str, &str)], folder: &tempfile::TempDir) -> Option<Project> {
    let mut project = project(files)?;
    project.store = Some(store_in(folder, &project.host));
    Some(project)
}

fn build(project: &Project, fast: &str) -> (TreeState, u64) {
    project.events.lock().unwrap().clear();
    let before = project.host.counts().processes;
    let outcome = project.build(vec![project.tree(&[Backend::Cpu], &["s"], &[("S_FAST", fast)])]).unwrap();
    (outcome.state, project.host.counts().processes - before)
}

fn entries(project: &Project) -> Vec<HostPath> {
    let items = maintain::items(&project.host, project.store.as_ref().unwrap());
    items.into_iter().filter(|item| item.kind == "trees").map(|item| item.folder).collect()
}

/// Links a program with the library and returns its output.
fn answer(project: &Project) -> String {
    let main = project.path("main.c");
    let text = "#include <stdio.h>\nint s(void); const char *file(void);\nint main(void) { printf(\"%d %s\", s(), file()); }\n";
    project.host.write(&main, text.as_bytes()).unwrap();
    let (program, library) = (project.path("main"), project.path("build/cpu/libs.a"));
    project.output(&["cc", "-o", program.as_str(), main.as_str(), library.as_str()]);
    project.output(&[program.as_str()])
}

fn differs(project: &Project) -> Vec<String> {
    let events = project.events.lock().unwrap();
    let parts = events.iter().find_map(|event| match event {
        BuildEvent::NotStored { different, .. } => {
            Some(different.iter().map(|part| part.part.clone()).collect())
        }
        _ => None,
    });
    parts.unwrap_or_default()
}

#[test]
fn second_checkout_restores_the_first_ones_result() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(one), Some(two)) = (sharing(SMALL, &folder), sharing(SMALL, &folder)) else { return };
    assert_eq!(build(&one, "OFF").0, TreeState::Built);
    assert_eq!(build(&two, "OFF"), (TreeState::Taken, 0), "{:?}", two.events);
    assert_eq!(answer(&two), "2 ./s.c");
    assert!(two.host.is_file(&two.path("build/cpu/gen/gen.h")), "generated headers are part of the result");
    assert_eq!(build(&two, "OFF"), (TreeState::Unchanged, 0));
    let manifest = two.host.read_text(&two.path("build/manifest.json")).unwrap();
    assert!(!manifest.contains(one.path("").as_str().trim_end_matches('/')), "{manifest}");
    // A deleted build folder is restored.
    one.host.remove(&one.path("build")).unwrap();
    assert_eq!(build(&one, "OFF"), (TreeState::Taken, 0));
}

#[test]
fn store_miss_names_the_changed_input() {
    let folder = tempfile::tempdir().unwrap();
    let Some(project) = sharing(SMALL, &folder) else { return };
    build(&project, "OFF");
    assert_eq!((build(&project, "ON").0, differs(&project)), (TreeState::Built, vec!["options".to_owned()]));
    assert_eq!(build(&project, "OFF").0, TreeState::Taken, "the earlier result is still stored");
    project.write("s.h", "#define S 5\n");
    assert_eq!((build(&project, "OFF").0, differs(&project)), (TreeState::Built, vec!["sources".to_owned()]));
    assert_eq!(answer(&project), "6 ./s.c");
    project.host.remove(&project.path("build")).unwrap();
    assert_eq!(build(&project, "OFF").0, TreeState::Built, "an earlier build used the folder");
    project.write("new.c", "");
    assert_eq!((build(&project, "OFF").0, differs(&project)), (TreeState::Built, vec!["sources".to_owned()]));
    project.host.remove(&project.path("src/new.c")).unwrap();
    assert_eq!(build(&project, "OFF").0, TreeState::Taken);
    assert_eq!(answer(&project), "6 ./s.c");
}

#[test]
fn incremental_build_after_restore_is_correct() {
    let folder = tempfile::tempdir().unwrap();
    let Some(project) = sharing(SMALL, &folder) else { return };
    let header = project.path("src/s.h");
    let old = project.output(&["date", "-R", "-r", header.as_str()]);
    let set = |value: u32, project: &Project| {
        project.write("s.h", &format!("#define S {value}\n"));
        // Restores the old time stamp, as some checkouts do: Ninja sees no change.
        project.output(&["touch", "-d", old.trim(), header.as_str()]);
    };
    for (value, expected) in [(1, "2 ./s.c"), (2, "3 ./s.c"), (1, "2 ./s.c"), (3, "4 ./s.c"), (2, "3 ./s.c")]
    {
        set(value, &project);
        build(&project, "OFF");
        assert_eq!(answer(&project), expected, "{value}");
    }
    // The folder works without the store too.
    let project = Project { store: None, ..project };
    for (value, expected) in [(1, "2 ./s.c"), (4, "5 ./s.c"), (3, "4 ./s.c")] {
        set(value, &project);
        assert_eq!(build(&project, "OFF").0, TreeState::Built);
        assert_eq!(answer(&project), expected, "{value}");
    }
}

#[test]
fn sources_are_read_once_for_all_trees_of_a_project() {
    const FILES: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let Some(project) = sharing(SMALL, &folder) else { return };
    for index in 0..FILES {
        project.write(&format!("more/f{index}.txt"), &index.to_string());
    }
    // Recently written files may change without a new time stamp, so they are read again.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let read = |name: &str, fast: &str| {
        let before = project.host.counts().files;
        let mut tree = project.tree(&[Backend::Cpu], &["s"], &[("S_FAST", fast)]);
        (tree.id, tree.build) = (name.to_owned(), project.path("build").join(name));
        assert_eq!(project.build(vec![tree]).unwrap().state, TreeState::Built);
        usize::try_from(project.host.counts().files - before).unwrap()
    };
    let (first, second) = (read("one", "OFF"), read("two", "ON"));
    assert!(first >= FILES && second + FILES / 2 < first, "{first} {second}");
    // Only changed files are read again; pruning removes the notes of deleted projects.
    project.write("more/f7.txt", "other");
    let third = read("three", "OFF");
    assert!(third + FILES / 2 < first, "{first} {third}");
    let store = project.store.as_ref().unwrap();
    let notes = || project.host.list(&store.root.join("sources")).unwrap().len();
    assert_eq!(notes(), 1);
    let all = StoreLimits { all: true, ..StoreLimits::default() };
    maintain::prune(&project.host, store, all).unwrap();
    assert_eq!(notes(), 0);
}

#[test]
fn external_headers_are_compared_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let list = "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_library(s STATIC s.c)\ntarget_include_directories(s PRIVATE ${ELSEWHERE})\n";
    let files = [("CMakeLists.txt", list), ("s.c", "#include <far.h>\nint s(void) { return FAR; }\n")];
    let (Some(one), Some(two)) = (sharing(&files, &folder), sharing(&files, &folder)) else { return };
    let far = one.host.path(elsewhere.path().to_str().unwrap()).join("far.h");
    one.host.write(&far, b"#define FAR 1\n").unwrap();
    let external = far.parent().unwrap().to_string();
    let build = |project: &Project| {
        project.events.lock().unwrap().clear();
        let tree = project.tree(&[Backend::Cpu], &["s"], &[("ELSEWHERE", &external)]);
        project.build(vec![tree]).unwrap().state
    };
    assert_eq!(build(&one), TreeState::Built);
    one.host.write(&far, b"#define FAR 1\n").unwrap();
    assert_eq!(build(&two), TreeState::Taken, "rewritten with the same content");
    one.host.write(&far, b"#define FAR 2\n").unwrap();
    assert_eq!(build(&two), TreeState::Built);
    let events = two.events.lock().unwrap();
    let reported = events
        .iter()
        .any(|event| matches!(event, BuildEvent::NotStored { why, .. } if why.contains("far.h")));
    assert!(reported, "{events:?}");
}

#[test]
fn result_with_an_absolute_path_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    let list = "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_library(s STATIC s.c)\ntarget_compile_definitions(s PRIVATE HERE=\"${CMAKE_SOURCE_DIR}\")\n";
    let files = [("CMakeLists.txt", list), ("s.c", "const char *s(void) { return HERE; }\n")];
    let (Some(one), Some(two)) = (sharing(&files, &folder), sharing(&files, &folder)) else { return };
    let build =
        |project: &Project| project.build(vec![project.tree(&[Backend::Cpu], &["s"], &[])]).unwrap().state;
    assert_eq!((build(&one), build(&two)), (TreeState::Built, TreeState::Built));
    for project in [&one, &two] {
        project.host.remove(&project.path("build")).unwrap();
        assert_eq!(build(project), TreeState::Taken);
        let library = project.host.read(&project.path("build/cpu/libs.a")).unwrap();
        let here = project.path("src").to_string();
        assert!(String::from_utf8_lossy(&library).contains(&here), "{here}");
    }
}

#[test]
fn damaged_entry_is_rebuilt_and_newer_version_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(one), Some(two)) = (sharing(SMALL, &folder), sharing(SMALL, &folder)) else { return };
    build(&one, "OFF");
    let entry = entries(&one).remove(0);
    let files = one.host.list(&entry.join("files")).unwrap();
    let library = files.iter().find(|name| name.ends_with("libs.a")).unwrap();
    let path = entry.join("files").join(library);
    let good = one.host.read(&path).unwrap();
    for bad in [&good[..good.len() - 1], b"", &vec![0; good.len()]] {
        one.host.write(&path, bad).unwrap();
        two.host.remove(&two.path("build")).unwrap();
        assert_eq!(build(&two, "OFF").0, TreeState::Built);
        assert_eq!(answer(&two), "2 ./s.c");
        two.host.remove(&two.path("build")).unwrap();
        assert_eq!(build(&two, "OFF").0, TreeState::Taken, "the damaged entry is replaced");
    }
    for text in ["", "{", "{\"schema\":1}", "[]"] {
        one.host.write(&entry.join(ENTRY), text.as_bytes()).unwrap();
        two.host.remove(&two.path("build")).unwrap();
        assert_eq!(build(&two, "OFF").0, TreeState::Built, "{text}");
    }
    let later = br#"{"schema":99,"what":"ever"}"#;
    one.host.write(&entry.join(ENTRY), later).unwrap();
    let v9 = one.store.as_ref().unwrap().root.parent().unwrap().join("v9/trees/x/entry.json");
    one.host.write(&v9, later).unwrap();
    two.host.remove(&two.path("build")).unwrap();
    assert_eq!(build(&two, "OFF").0, TreeState::Built);
    let all = StoreLimits { all: true, ..StoreLimits::default() };
    let pruned = maintain::prune(&one.host, one.store.as_ref().unwrap(), all).unwrap();
    assert!(pruned.removed.iter().all(|item| item.kind == "objects"), "{pruned:?}");
    assert_eq!(one.host.read(&entry.join(ENTRY)).unwrap(), later);
    assert!(one.host.is_file(&v9));
}

#[test]
fn concurrent_identical_builds_share_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let slow = "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_custom_command(OUTPUT slow.h COMMAND ${CMAKE_COMMAND} -E sleep 2 COMMAND ${CMAKE_COMMAND} -E touch slow.h VERBATIM)\nadd_library(s STATIC s.c slow.h)\n";
    let files = [("CMakeLists.txt", slow), ("s.c", "int s(void) { return 1; }\n")];
    let (Some(one), Some(two)) = (sharing(&files, &folder), sharing(&files, &folder)) else { return };
    let build =
        |project: &Project| project.build(vec![project.tree(&[Backend::Cpu], &["s"], &[])]).unwrap().state;
    let states = std::thread::scope(|scope| {
        let first = scope.spawn(|| build(&one));
        let second = scope.spawn(|| build(&two));
        [first.join().unwrap(), second.join().unwrap()]
    });
    assert!(states.contains(&TreeState::Built) && states.contains(&TreeState::Taken), "{states:?}");
    let waited = |project: &Project| {
        project.events.lock().unwrap().iter().any(|event| matches!(event, BuildEvent::WaitingForStore { .. }))
    };
    assert!(waited(&one) != waited(&two), "exactly one build waits and reports it");
}

#[test]
fn read_only_store_is_used_and_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(one), Some(mut two)) = (sharing(SMALL, &folder), sharing(SMALL, &folder)) else { return };
    build(&one, "OFF");
    two.store.as_mut().unwrap().access = CacheAccess::Readonly;
    assert_eq!(build(&two, "OFF").0, TreeState::Taken);
    assert_eq!(build(&two, "ON").0, TreeState::Built);
    assert_eq!(entries(&one).len(), 1, "nothing is stored");
    // A file at the store's path blocks even root.
    let broken = tempfile::tempdir().unwrap();
    one.host.write(&one.host.path(broken.path().to_str().unwrap()).join("v1"), b"in the way").unwrap();
    let Some(three) = sharing(SMALL, &broken) else { return };
    assert_eq!(build(&three, "OFF").0, TreeState::Built);
    assert_eq!(answer(&three), "2 ./s.c");
    let events = three.events.lock().unwrap();
    let reported: Vec<&BuildEvent> =
        events.iter().filter(|event| matches!(event, BuildEvent::StoreUnused { .. })).collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
}

#[test]
fn sources_changed_during_a_build_are_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let list = "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_library(s STATIC s.c)\nif(NOT EXISTS ${CMAKE_BINARY_DIR}/started)\nadd_custom_command(TARGET s PRE_LINK COMMAND ${CMAKE_COMMAND} -E touch started COMMAND ${CMAKE_COMMAND} -E sleep 1)\nendif()\n";
    let before = "const char *file(void) { return \"\"; }\nint s(void) { return 1; }\n";
    let files = [("CMakeLists.txt", list), ("s.c", before)];
    let Some(project) = sharing(&files, &folder) else { return };
    let build = || {
        project.events.lock().unwrap().clear();
        project.build(vec![project.tree(&[Backend::Cpu], &["s"], &[])]).unwrap().state
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !project.host.is_file(&project.path("build/cpu/started")) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            // The object file exists already, and the source keeps an old time stamp.
            project.write("s.c", &before.replace("return 1", "return 7"));
            project.output(&["touch", "-d", "2020-01-01", project.path("src/s.c").as_str()]);
        });
        assert_eq!(build(), TreeState::Built);
    });
    let changed = |project: &Project| {
        project.events.lock().unwrap().iter().any(|event| matches!(event, BuildEvent::SourcesChanged { .. }))
    };
    assert!(changed(&project));
    assert!(entries(&project).is_empty());
    assert_eq!(answer(&project).trim(), "1");
    assert_eq!(build(), TreeState::Built);
    assert!(!changed(&project));
    assert_eq!(answer(&project).trim(), "7", "the next build picks up the change");
    assert!(entries(&project).is_empty(), "an earlier build used the folder");
    project.host.remove(&project.path("build")).unwrap();
    assert_eq!(build(), TreeState::Built);
    assert_eq!(entries(&project).len(), 1);
}

#[test]
fn touched_files_with_equal_content_do_not_rebuild() {
    let folder = tempfile::tempdir().unwrap();
    let Some(project) = sharing(SMALL, &folder) else { return };
    build(&project, "OFF");
    project.output(&["touch", project.path("src/s.c").as_str(), project.path("src/s.h").as_str()]);
    assert_eq!(build(&project, "OFF"), (TreeState::Unchanged, 0));
    assert_eq!(build(&project, "OFF"), (TreeState::Unchanged, 0));
}

#[test]
fn prune_keeps_recent_and_locked_entries() {
    let folder = tempfile::tempdir().unwrap();
    let Some(project) = sharing(SMALL, &folder) else { return };
    let store = project.store.clone().unwrap();
    build(&project, "OFF");
    let first = entries(&project).remove(0);
    project.host.remove(&project.path("build")).unwrap();
    build(&project, "ON");
    let second = entries(&project).into_iter().find(|path| *path != first).unwrap();
    project.host.remove(&store.root.join("objects")).unwrap();
    for (path, when) in [(&first, "2020-01-01"), (&second, "2020-01-02")] {
        project.output(&["touch", "-d", when, path.join("used").as_str()]);
    }
    let one = StoreEntry::read(&project.host, &second).unwrap().bytes;
    let pruned =
        maintain::prune(&project.host, &store, StoreLimits { size: Some(one), ..StoreLimits::default() })
            .unwrap();
    assert_eq!(pruned.removed.len(), 1);
    assert_eq!(entries(&project), std::slice::from_ref(&second));
    let key = second.file_name().unwrap().split('-').next().unwrap();
    let old = StoreLimits { age: Some(3600), ..StoreLimits::default() };
    let held =
        project.host.lock(&store.root.join(&format!("locks/{key}.lock")), gpubuild_host::Wait::No).unwrap();
    assert!(held.is_some());
    let pruned = maintain::prune(&project.host, &store, old).unwrap();
    assert_eq!((pruned.removed.len(), pruned.in_use.len()), (0, 1));
    drop(held);
    // A time stamp in the future, as after setting the clock back, counts as new.
    project.output(&["touch", "-d", "2090-01-01", second.join("used").as_str()]);
    assert!(maintain::prune(&project.host, &store, old).unwrap().removed.is_empty());
    project.output(&["touch", "-d", "2020-01-01", second.join("used").as_str()]);
    assert_eq!(maintain::prune(&project.host, &store, old).unwrap().removed.len(), 1);
    project.host.remove(&project.path("build")).unwrap();
    assert_eq!(build(&project, "OFF").0, TreeState::Built);
}

/// Two libraries in two languages; the switch affects only the registry.
const BASE: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(base C CXX)\noption(S_MORE \"\" OFF)\nadd_subdirectory(base)\nadd_library(s STATIC s.c)\ntarget_link_libraries(s PUBLIC base)\nif(S_MORE)\n  target_compile_definitions(s PRIVATE MORE=10)\n  add_library(more-vulkan STATIC more.c)\n  target_link_libraries(s PUBLIC more-vulkan)\nendif()\n",
    ),
    (
        "base/CMakeLists.txt",
        "configure_file(config.h.in ${CMAKE_CURRENT_BINARY_DIR}/config.h)\nadd_library(base STATIC one.cpp two.c base.h)\ntarget_include_directories(base PUBLIC . ${CMAKE_CURRENT_BINARY_DIR})\n",
    ),
    ("base/config.h.in", "#define CONFIGURED 1\n"),
    ("base/base.h", "#define BASE 2\n"),
    (
        "base/one.cpp",
        "#include <string>\n#include <config.h>\nextern \"C\" int one(void) { return CONFIGURED + (int) std::string(\"abc\").size(); }\n",
    ),
    ("base/two.c", "#include \"base.h\"\nint two(void) { return BASE; }\n"),
    (
        "s.c",
        "#ifndef MORE\n#define MORE 0\n#endif\nint one(void); int two(void);\nconst char *file(void) { return __FILE__; }\nint s(void) { return one() + two() + MORE; }\n",
    ),
    ("more.c", "int more(void) { return 3; }\n"),
];

/// Object files that Ninja compiled, by name.
fn compiled(project: &Project, tree: &str) -> Vec<String> {
    let log = project.host.read_text(&project.path(&format!("build/{tree}/gpubuild/build.log"))).unwrap();
    let lines = log.lines().filter(|line| line.contains("Building C"));
    let mut names: Vec<String> = lines.filter_map(|line| Some(line.rsplit_once('/')?.1.to_owned())).collect();
    names.sort();
    names
}

fn link(project: &Project, tree: &str, libraries: &[&str]) -> i32 {
    project.host.write(&project.path("main.c"), b"int s(void);\nint main(void) { return s(); }\n").unwrap();
    let paths: Vec<String> = std::iter::once(project.path("main.c").to_string())
        .chain(libraries.iter().map(|name| project.path(&format!("build/{tree}/{name}")).to_string()))
        .collect();
    let program = project.path("main").to_string();
    let mut argv = vec!["c++", "-x", "c", paths[0].as_str(), "-x", "none", "-o", program.as_str()];
    argv.extend(paths[1..].iter().map(String::as_str));
    project.output(&argv);
    let command = gpubuild_host::Command::new(program, std::time::Duration::from_secs(60));
    project.host.run(&command).unwrap().exit.unwrap()
}

#[test]
fn base_libraries_are_reused_between_trees_and_projects() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(one), Some(two)) = (sharing(BASE, &folder), sharing(BASE, &folder)) else { return };
    let cpu = |project: &Project| project.tree(&[Backend::Cpu], &["s"], &[("S_MORE", "OFF")]);
    let both = |project: &Project| {
        project.tree(&[Backend::Cpu, Backend::Vulkan], &["s", "more-vulkan"], &[("S_MORE", "ON")])
    };
    let first = one.build(vec![cpu(&one)]).unwrap();
    assert_eq!(compiled(&one, "cpu"), ["one.cpp.o", "s.c.o", "two.c.o"]);
    // Another tree of the same project recompiles only what the switch affects.
    let second = one.build(vec![both(&one)]).unwrap();
    assert_eq!(second.state, TreeState::Built);
    assert_eq!(compiled(&one, "cpu-vulkan"), ["more.c.o", "s.c.o"], "{:?}", one.events);
    assert_eq!(link(&one, "cpu-vulkan", &["libs.a", "base/libbase.a"]), 16);
    // The link line still names the C++ runtime, and the compile flags of the base are still reported.
    let links = |outcome: &gpubuild_exec::exec::BuildOutcome| format!("{:?}", outcome.manifest.trees[0].link);
    assert!(links(&second).contains("stdc++") == links(&first).contains("stdc++"), "{}", links(&second));
    // Another project with the same base and other changes.
    two.write("s.c", "int one(void); int two(void);\nint s(void) { return one() * two(); }\n");
    assert_eq!(two.build(vec![cpu(&two)]).unwrap().state, TreeState::Built);
    assert_eq!(compiled(&two, "cpu"), ["s.c.o"], "{:?}", two.events);
    assert_eq!(link(&two, "cpu", &["libs.a", "base/libbase.a"]), 8);
    assert_eq!(two.build(vec![cpu(&two)]).unwrap().state, TreeState::Unchanged);
    // Inputs of the base are still watched, although this tree did not compile it.
    two.write("base/base.h", "#define BASE 3\n");
    assert_eq!(two.build(vec![cpu(&two)]).unwrap().state, TreeState::Built);
    assert_eq!(link(&two, "cpu", &["libs.a", "base/libbase.a"]), 12);
    two.write("base/config.h.in", "#define CONFIGURED 2\n");
    assert_eq!(two.build(vec![cpu(&two)]).unwrap().state, TreeState::Built);
    assert_eq!(link(&two, "cpu", &["libs.a", "base/libbase.a"]), 15);
}

#[test]
fn shadowing_header_is_a_store_miss() {
    let folder = tempfile::tempdir().unwrap();
    let list = "cmake_minimum_required(VERSION 3.16)\nproject(s C)\noption(X \"\" OFF)\nadd_library(s STATIC s.c)\ntarget_include_directories(s PRIVATE first second)\n";
    let files = [
        ("CMakeLists.txt", list),
        ("first/keep.h", ""),
        ("second/deep/v.h", "#define V 1\n"),
        ("s.c", "#include <deep/v.h>\nint s(void) { return V; }\n"),
    ];
    let (Some(one), Some(two)) = (sharing(&files, &folder), sharing(&files, &folder)) else { return };
    let build =
        |project: &Project| project.build(vec![project.tree(&[Backend::Cpu], &["s"], &[])]).unwrap().state;
    build(&one);
    two.write("README.md", "another tree, the same objects");
    assert_eq!(build(&two), TreeState::Built);
    assert!(compiled(&two, "cpu").is_empty());
    two.host.remove(&two.path("build")).unwrap();
    two.write("first/deep/v.h", "#define V 2\n");
    assert_eq!(build(&two), TreeState::Built);
    assert_eq!(compiled(&two, "cpu"), ["s.c.o"]);
    assert_eq!(link(&two, "cpu", &["libs.a"]), 2);
}

#[test]
fn variables_of_nvcc_count_only_where_it_may_run() {
    let Some(project) = project(SMALL) else { return };
    let variables = [("CFLAGS", "-g"), ("CUDAFLAGS", "-lineinfo"), ("NVCC_APPEND_FLAGS", "--threads=1")];
    let env = gpubuild_host::Environment::new(gpubuild_host::Os::Linux, variables);
    for (backends, options, count) in [
        (vec![Backend::Cpu], vec![("S_CUDA", "OFF")], 1),
        (vec![Backend::Cpu], vec![("S_CUDA", "ON")], 3),
        // Without such an option, the project may use CUDA.
        (vec![Backend::Cpu], vec![], 3),
        (vec![Backend::Cpu, Backend::Cuda], vec![("S_CUDA", "OFF")], 3),
    ] {
        let tree = project.tree(&backends, &["s"], &options);
        let found = gpubuild_exec::store::variables::tree_variables(&env, &tree);
        assert_eq!(found.len(), count, "{backends:?} {options:?} {found:?}");
    }
}
