//! Which changes trigger a rebuild.

use gpubuild_core::Backend;
use gpubuild_exec::exec::{BuildError, BuildEvent, TreeState};
use gpubuild_host::{Clock, HostInfo, ReadFiles, WriteFiles};

use crate::support::{Project, project};

const SMALL: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(s C)\noption(S_FAST \"\" OFF)\nif(S_FAST)\n  add_compile_definitions(FAST=1)\nendif()\nadd_library(s STATIC s.c)\n",
    ),
    ("s.c", "#include \"s.h\"\nint s(void) { return S; }\n"),
    ("s.h", "#define S 1\n"),
];

fn build(project: &Project, fast: &str) -> (TreeState, u64, bool) {
    project.events.lock().unwrap().clear();
    let before = project.host.counts().processes;
    let outcome = project.build(vec![project.tree(&[Backend::Cpu], &["s"], &[("S_FAST", fast)])]).unwrap();
    let configured =
        project.events.lock().unwrap().iter().any(|event| matches!(event, BuildEvent::Configured { .. }));
    (outcome.state, project.host.counts().processes - before, configured)
}

#[test]
fn unchanged_build_starts_no_process() {
    let Some(project) = project(SMALL) else { return };
    let (state, _, configured) = build(&project, "OFF");
    assert_eq!((state, configured), (TreeState::Built, true));
    assert_eq!(build(&project, "OFF"), (TreeState::Unchanged, 0, false));

    project.write("s.h", "#define S 2 \n");
    let (state, _, configured) = build(&project, "OFF");
    assert_eq!(
        (state, configured),
        (TreeState::Built, false),
        "a changed header recompiles without reconfiguring"
    );
    assert_eq!(build(&project, "OFF"), (TreeState::Unchanged, 0, false));

    let (state, _, configured) = build(&project, "ON");
    assert_eq!((state, configured), (TreeState::Built, true), "a changed option reconfigures");

    project.write("new.c", "int other;\n");
    let (state, _, configured) = build(&project, "ON");
    assert_eq!((state, configured), (TreeState::Built, true), "a new file may match a glob and reconfigures");

    let library = project.path("build/cpu/libs.a");
    project.host.remove(&library).unwrap();
    assert_eq!(build(&project, "ON").0, TreeState::Built, "deleted build outputs are rebuilt");
    assert!(project.host.is_file(&library));
    assert_eq!(build(&project, "ON"), (TreeState::Unchanged, 0, false));
}

#[test]
fn changed_generator_recreates_the_tree() {
    let Some(project) = project(SMALL) else { return };
    if gpubuild_host::find_program(&project.host, "make").is_empty() {
        crate::requirements::skip("make", "no make");
        return;
    }
    assert_eq!(build(&project, "OFF").0, TreeState::Built);
    let mut tree = project.tree(&[Backend::Cpu], &["s"], &[("S_FAST", "OFF")]);
    tree.generator = "Unix Makefiles".into();
    let outcome = project.build(vec![tree]).unwrap();
    assert_eq!(outcome.manifest.trees[0].generator, "Unix Makefiles");
    // Switching back works too: a generator that appears on PATH does no harm.
    assert_eq!(build(&project, "OFF").0, TreeState::Built);
    assert_eq!(build(&project, "OFF"), (TreeState::Unchanged, 0, false));
}

#[test]
fn corrupt_stamp_triggers_a_rebuild() {
    let Some(project) = project(SMALL) else { return };
    build(&project, "OFF");
    for text in ["", "{", "{\"schema\":999}", "[]"] {
        project.host.write(&project.path("build/cpu/gpubuild/stamp.json"), text.as_bytes()).unwrap();
        project.host.write(&project.path("build/cpu/gpubuild/configured.json"), text.as_bytes()).unwrap();
        assert_eq!(build(&project, "OFF").0, TreeState::Built, "{text}");
        assert_eq!(build(&project, "OFF").1, 0, "{text}");
    }
}

#[test]
fn next_build_completes_an_interrupted_one() {
    let Some(project) = project(&[
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.16)\nproject(i C)\nadd_custom_command(OUTPUT slow.h COMMAND ${CMAKE_COMMAND} -E touch started COMMAND ${CMAKE_COMMAND} -E sleep ${SECONDS} COMMAND ${CMAKE_COMMAND} -E touch slow.h VERBATIM)\nadd_library(i STATIC i.c slow.h)\n",
        ),
        ("i.c", "int i(void) { return 1; }\n"),
    ]) else {
        return;
    };
    let tree = |seconds: &str| project.tree(&[Backend::Cpu], &["i"], &[("SECONDS", seconds)]);
    let started = project.path("build/cpu/started");
    let interrupt = project.host.interrupt_handle();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Interrupts only after the slow step has started.
            while !project.host.is_file(&started) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            interrupt.trigger(gpubuild_host::interrupt::SIGINT);
        });
        assert_eq!(project.build(vec![tree("60")]).unwrap_err(), BuildError::Interrupted);
    });
    assert!(project.host.elapsed().as_secs() < 50, "the child is killed instead of waited for");
    // The next build runs in another process; here a new host takes its place.
    let next = Project { host: gpubuild_host::RealHost::new(), ..project };
    let outcome = next.build(vec![next.tree(&[Backend::Cpu], &["i"], &[("SECONDS", "0")])]).unwrap();
    assert_eq!(outcome.manifest.trees[0].files.len(), 1);
}

#[test]
fn concurrent_build_waits_for_the_first() {
    let Some(project) = project(SMALL) else { return };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| build(&project, "OFF").0);
        let second = scope.spawn(|| build(&project, "OFF").0);
        let states = [first.join().unwrap(), second.join().unwrap()];
        assert!(states.contains(&TreeState::Built) && states.contains(&TreeState::Unchanged), "{states:?}");
    });
}
