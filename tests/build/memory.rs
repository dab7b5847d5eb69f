//! Compilers that die when too many of them run at once.

use gpubuild::Backend;
use gpubuild::exec::{Event, State};
use gpubuild::host::Host;

use crate::support::{Project, project};

const UNITS: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(m C)\n\
         add_library(t-core STATIC unit1.c unit2.c unit3.c unit4.c unit5.c)\n",
    ),
    ("unit1.c", "int unit1(void) { return 1; }\n"),
    ("unit2.c", "int unit2(void) { return 1; }\n"),
    ("unit3.c", "int unit3(void) { return 1; }\n"),
    ("unit4.c", "int unit4(void) { return 1; }\n"),
    ("unit5.c", "int unit5(void) { return 1; }\n"),
];

/// The project with a compiler that dies, with `death` as its last act, if more than `limit` are at work on units.
fn with_compiler(limit: u32, death: &str) -> Option<(Project, String)> {
    let project = project(UNITS)?;
    let (script, slots) = (project.path("fake-cc"), project.path("slots"));
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in\n*unit*.c)\n  mkdir -p '{slots}'\n  touch '{slots}'/$$\n  sleep 0.2\n  \
         count=$(ls '{slots}' | wc -l)\n  sleep 0.1\n  rm -f '{slots}'/$$\n  \
         if [ \"$count\" -gt {limit} ]; then {death}; fi\n  ;;\nesac\nexec cc \"$@\"\n"
    );
    project.host.write(&script, text.as_bytes()).unwrap();
    project.host.set_executable(&script).unwrap();
    let script = script.to_string();
    Some((project, script))
}

const SAYS_SO: &str = "echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1";

fn narrowings(project: &Project) -> Vec<(u32, u32)> {
    let events = project.events.lock().unwrap();
    let of = |event: &Event| match event {
        Event::Narrowed { before, jobs, .. } => Some((*before, *jobs)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[cfg(unix)]
#[test]
fn a_killed_compiler_makes_the_build_narrower_until_it_fits() {
    for (limit, death, expected) in [
        (2, SAYS_SO, [(4, 2)].as_slice()),
        (1, SAYS_SO, [(4, 2), (2, 1)].as_slice()),
        (1, "kill -9 $$", [(4, 2), (2, 1)].as_slice()),
        (9, SAYS_SO, [].as_slice()),
    ] {
        let Some((project, compiler)) = with_compiler(limit, death) else { return };
        let mut tree = project.tree(&[Backend::Cpu], &["t-core"], &[("CMAKE_C_COMPILER", &compiler)]);
        tree.jobs.total = 4;
        let outcome = project.build(vec![tree]).unwrap();
        assert_eq!(
            (outcome.state, narrowings(&project).as_slice()),
            (State::Built, expected),
            "{limit} {death}"
        );
    }
}

#[cfg(unix)]
#[test]
fn one_that_is_killed_alone_is_told_as_such() {
    let Some((project, compiler)) = with_compiler(0, SAYS_SO) else { return };
    let mut tree = project.tree(&[Backend::Cpu], &["t-core"], &[("CMAKE_C_COMPILER", &compiler)]);
    tree.jobs.total = 4;
    let error = project.build(vec![tree]).unwrap_err();
    assert_eq!(error.id(), "build.out-of-memory", "{error}");
    assert!(error.to_string().contains("Killed signal terminated program cc1"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("one compiler at a time")), "{error:?}");
    assert_eq!(narrowings(&project), [(4, 2), (2, 1)]);
}

#[cfg(unix)]
#[test]
fn a_faulty_source_is_not_tried_again() {
    let Some((project, compiler)) = with_compiler(9, SAYS_SO) else { return };
    project.write("unit3.c", "int unit3(void) { return nope; }\n");
    let mut tree = project.tree(&[Backend::Cpu], &["t-core"], &[("CMAKE_C_COMPILER", &compiler)]);
    tree.jobs.total = 4;
    assert_eq!(project.build(vec![tree]).unwrap_err().id(), "build.compile-failed");
    assert_eq!(narrowings(&project), []);
}
