//! Compilers that are killed when too many run at once.

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_host::{HostPath, ReadFiles, WriteFiles, find_program};

use crate::requirements::{requires, skip};
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

/// The project with a fake compiler that runs `death` if more than `limit` instances compile units at the same time.
/// Each instance waits one second for the others.
fn with_compiler(limit: u32, death: &str) -> Option<(Project, String)> {
    let project = project(UNITS)?;
    let (script, slots) = (project.path("fake-cc"), project.path("slots"));
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in\n*unit*.c)\n  mkdir -p '{slots}'\n  touch '{slots}'/$$\n  tries=10\n  \
         until count=$(ls '{slots}' | wc -l); [ \"$count\" -gt {limit} ] || [ $tries -eq 0 ]; do\n    \
         sleep 0.1; tries=$((tries - 1))\n  done\n  sleep 0.3\n  rm -f '{slots}'/$$\n  \
         if [ \"$count\" -gt {limit} ]; then {death}; fi\n  ;;\nesac\nexec cc \"$@\"\n"
    );
    project.host.write(&script, text.as_bytes()).unwrap();
    project.host.set_executable(&script).unwrap();
    let script = script.to_string();
    Some((project, script))
}

const KILLED_MESSAGE: &str = "echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1";

fn job_reductions(project: &Project) -> Vec<(u32, u32)> {
    let events = project.events.lock().unwrap();
    let of = |event: &BuildEvent| match event {
        BuildEvent::Narrowed { before, jobs, .. } => Some((*before, *jobs)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[cfg(unix)]
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn killed_compiler_reduces_parallelism() {
    for (limit, death, expected) in [
        (2, KILLED_MESSAGE, [(4, 2)].as_slice()),
        (1, KILLED_MESSAGE, [(4, 2), (2, 1)].as_slice()),
        (1, "kill -9 $$", [(4, 2), (2, 1)].as_slice()),
        (9, KILLED_MESSAGE, [].as_slice()),
    ] {
        let Some((project, compiler)) = with_compiler(limit, death) else { return };
        let mut tree = project.tree(&[Backend::Cpu], &["t-core"], &[("CMAKE_C_COMPILER", &compiler)]);
        tree.jobs.total = 4;
        let outcome = project.build(vec![tree]).unwrap();
        assert_eq!(
            (outcome.state, job_reductions(&project).as_slice()),
            (TreeState::Built, expected),
            "{limit} {death}"
        );
    }
}

#[cfg(unix)]
#[test]
fn compiler_killed_while_running_alone_is_out_of_memory() {
    let Some((project, compiler)) = with_compiler(0, KILLED_MESSAGE) else { return };
    let mut tree = project.tree(&[Backend::Cpu], &["t-core"], &[("CMAKE_C_COMPILER", &compiler)]);
    tree.jobs.total = 4;
    let error = project.build(vec![tree]).unwrap_err();
    assert_eq!(error.id(), "build.out-of-memory", "{error}");
    assert!(error.to_string().contains("Killed signal terminated program cc1"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("one compiler at a time")), "{error:?}");
    assert_eq!(job_reductions(&project), [(4, 2), (2, 1)]);
}

#[cfg(unix)]
#[test]
fn compile_error_is_not_retried() {
    let Some((project, compiler)) = with_compiler(9, KILLED_MESSAGE) else { return };
    project.write("unit3.c", "int unit3(void) { return nope; }\n");
    let mut tree = project.tree(&[Backend::Cpu], &["t-core"], &[("CMAKE_C_COMPILER", &compiler)]);
    tree.jobs.total = 4;
    assert_eq!(project.build(vec![tree]).unwrap_err().id(), "build.compile-failed");
    assert_eq!(job_reductions(&project), []);
}

/// A compiler that logs how many instances are running.
const COUNTING: &str = "#!/bin/sh\ncase \"$*\" in\n*unit*.c)\n  touch \"$SLOTS/$TREE-$$\"\n  sleep 0.4\n  \
     echo \"$TREE $(ls \"$SLOTS\" | grep -c \"^$TREE-\") $(ls \"$SLOTS\" | wc -l)\" >> \"$NOTES\"\n  \
     rm \"$SLOTS/$TREE-$$\"\n  ;;\nesac\nexec cc \"$@\"\n";

/// Ninja with jobserver support, fetched if necessary. Prints why and returns `None` if unavailable.
fn new_ninja(project: &Project) -> Option<HostPath> {
    let is_new = |path: &HostPath| {
        let version = project.output(&[path.as_str(), "--version"]);
        let mut numbers = version.trim().split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        (numbers.next(), numbers.next()) >= (Some(1), Some(13))
    };
    let found = find_program(&project.host, "ninja").into_iter().find(is_new);
    if found.is_some() || !requires("network") {
        if found.is_none() {
            skip("network", "no Ninja from 1.13 on, and GPUBUILD_REQUIRE does not name network");
        }
        return found;
    }
    let folder = project.path("ninja").to_string();
    project.output(&["python3", "-m", "venv", &folder]);
    let pip = project.path("ninja/bin/pip");
    project.output(&[pip.as_str(), "install", "-q", "--no-deps", "ninja>=1.13"]);
    Some(project.path("ninja/bin/ninja"))
}

#[cfg(target_os = "linux")]
#[test]
fn trees_share_the_job_limit_through_the_jobserver() {
    let Some(mut project) = project(UNITS) else { return };
    let Some(ninja) = new_ninja(&project) else { return };
    project.tools.ninja = Some(ninja);
    let units: Vec<String> = (0..50).map(|index| format!("unit{index}.c")).collect();
    for (index, unit) in units.iter().enumerate() {
        project.write(unit, &format!("int unit{index}(void) {{ return 1; }}\n"));
    }
    project.write("short_unit.c", "int short_unit(void) { return 1; }\n");
    let list = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(m C)\nadd_library(short STATIC short_unit.c)\nadd_library(long STATIC {})\n",
        units.join(" ")
    );
    project.write("CMakeLists.txt", &list);
    let (slots, notes) = (project.path("slots"), project.path("notes"));
    project.host.create_dir_all(&slots).unwrap();
    let trees = ["short", "long"].map(|name| {
        let compiler = project.path(&format!("cc-{name}"));
        let set = format!("TREE={name}; SLOTS='{slots}'; NOTES='{notes}'\n");
        let text = COUNTING.replacen("#!/bin/sh\n", &format!("#!/bin/sh\n{set}"), 1);
        project.host.write(&compiler, text.as_bytes()).unwrap();
        project.host.set_executable(&compiler).unwrap();
        let mut tree = project.tree(&[Backend::Cpu], &[name], &[("CMAKE_C_COMPILER", compiler.as_str())]);
        (tree.id, tree.build) = (name.to_owned(), project.path("build").join(name));
        tree.jobs.total = 4;
        tree
    });
    assert_eq!(project.build(trees.to_vec()).unwrap().state, TreeState::Built);
    let notes = project.host.read_text(&notes).unwrap();
    let rows: Vec<Vec<&str>> = notes.lines().map(|line| line.split(' ').collect()).collect();
    let most = |column: usize, tree: &str| {
        let rows = rows.iter().filter(|row| tree.is_empty() || row[0] == tree);
        rows.map(|row| row[column].parse::<u32>().unwrap()).max().unwrap()
    };
    assert_eq!(rows.len(), 51, "{notes}");
    assert_eq!(most(1, "long"), 4, "a tree gets half of the jobs: {notes}");
    assert_eq!(most(2, ""), 4, "{notes}");
    let events = project.events.lock().unwrap();
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, BuildEvent::Line { text, .. } if text.contains("Jobserver")))
    );
    assert!(!project.host.exists(&project.path("build/.jobs")), "the jobserver pipe is removed");
}
