//! Patched sources, alternative target names, and shim headers.

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::exec::{BuildError, BuildEvent, TreeState};
use gpubuild_host::{ReadFiles, WriteFiles};
use gpubuild_plan::plan::Shim;
use gpubuild_plan::project::profile::WantedOption;
use gpubuild_plan::project::{PlannedPatch, SourceCopy};

use crate::support::{Project, plan, project};

const SMALL: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_library(s STATIC s.c)\nadd_library(now STATIC n.c)\n",
    ),
    ("s.c", "int s(void)\n{\n    return 1;\n}\n"),
    ("n.c", "int n(void) { return 3; }\n"),
    ("data/run.sh", "#!/bin/sh\n"),
];

const PATCH: &str =
    "--- a/s.c\n+++ b/s.c\n@@ -1,4 +1,4 @@\n int s(void)\n {\n-    return 1;\n+    return 2;\n }\n";

fn copy(project: &Project, optional: bool) -> SourceCopy {
    SourceCopy {
        from: project.path("src"),
        to: project.path("build/source"),
        patches: vec![PlannedPatch { path: project.path("src.patch"), optional }],
    }
}

fn build(project: &Project, optional: bool) -> Result<TreeState, BuildError> {
    let mut tree = project.tree(&[Backend::Cpu], &["s"], &[]);
    let copy = copy(project, optional);
    tree.source = copy.to.clone();
    let mut plan = plan(vec![tree]);
    plan.copy = Some(copy);
    project.events.lock().unwrap().clear();
    project.build_plan(&plan).map(|outcome| outcome.state)
}

fn notes(project: &Project) -> Vec<String> {
    let events = project.events.lock().unwrap();
    let note =
        |event: &BuildEvent| if let BuildEvent::Note { text } = event { Some(text.clone()) } else { None };
    events.iter().filter_map(note).collect()
}

#[test]
fn patched_copy_follows_unmodified_sources() {
    let Some(project) = project(SMALL) else { return };
    project.host.write(&project.path("src.patch"), PATCH.as_bytes()).unwrap();
    project.host.set_executable(&project.path("src/data/run.sh")).unwrap();
    assert_eq!(build(&project, false), Ok(TreeState::Built));
    let read = |name: &str| project.host.read_text(&project.path(name)).unwrap();
    assert!(read("build/source/s.c").contains("return 2") && read("src/s.c").contains("return 1"));
    project.output(&[project.path("build/source/data/run.sh").as_str()]);
    assert_eq!(build(&project, false), Ok(TreeState::Unchanged));

    // A manual change in the copy; a changed, a new and a deleted file in the sources.
    project.host.write(&project.path("build/source/s.c"), b"broken").unwrap();
    assert_eq!(build(&project, false), Ok(TreeState::Built));
    project.write("s.c", "int t;\nint s(void)\n{\n    return 1;\n}\n");
    project.write("more/new.c", "int u;\n");
    project.host.remove(&project.path("src/data/run.sh")).unwrap();
    assert_eq!(build(&project, false), Ok(TreeState::Built));
    assert_eq!(read("build/source/s.c"), "int t;\nint s(void)\n{\n    return 2;\n}\n");
    assert_eq!(read("build/source/more/new.c"), "int u;\n");
    assert!(!project.host.exists(&project.path("build/source/data/run.sh")));

    // The project has adopted the change of the patch.
    project.write("s.c", "int s(void)\n{\n    return 2;\n}\n");
    assert_eq!(build(&project, false), Ok(TreeState::Built));
    assert!(notes(&project)[0].contains("already contain the changes of"), "{:?}", notes(&project));
}

#[test]
fn mismatched_patch_fails_unless_optional() {
    let Some(project) = project(SMALL) else { return };
    project.host.write(&project.path("src.patch"), PATCH.as_bytes()).unwrap();
    project.write("s.c", "int s(void)\n{\n    return 3;\n}\n");
    let error = build(&project, false).unwrap_err();
    assert_eq!(error.id(), "project.patch-failed");
    let text = error.to_string();
    assert!(text.contains("src.patch") && text.contains("hunk 1 (line 1) does not match `s.c`"), "{text}");
    assert!(!project.host.exists(&project.path("build/source")), "nothing partial is left");
    assert_eq!(build(&project, true), Ok(TreeState::Built));
    assert!(notes(&project)[0].contains("is skipped"), "{:?}", notes(&project));
    project.host.remove(&project.path("src.patch")).unwrap();
    assert_eq!(build(&project, true).unwrap_err().id(), "file.failed");
}

#[test]
fn targets_may_be_alternatives_or_optional() {
    let Some(project) = project(SMALL) else { return };
    let mut tree = project.tree(&[Backend::Cpu], &["s"], &[("S_GONE", "ON")]);
    tree.choices = vec![WantedOption::new("then | now"), WantedOption::new("never?")];
    tree.may_be_unknown.insert("S_GONE".to_owned());
    let outcome = project.build(vec![tree.clone()]).unwrap();
    let built: Vec<&str> = outcome.manifest.trees[0].files.iter().map(|file| file.target.as_str()).collect();
    assert_eq!(built, ["now", "s"]);
    tree.choices = vec![WantedOption::new("then | never")];
    let error = project.build(vec![tree.clone()]).unwrap_err().to_string();
    assert!(error.contains("none of the targets `then;never`") && error.contains("now"), "{error}");
    tree.choices.clear();
    tree.may_be_unknown.clear();
    let error = project.build(vec![tree]).unwrap_err();
    assert_eq!(error.id(), "project.option-unused");
}

#[test]
fn shim_header_precedes_the_header_it_includes() {
    let Some(project) = project(SMALL) else { return };
    project.write("lib/real.h", "#define REAL 1\n");
    project.write("s.c", "#include <real.h>\nint s(void) { return REAL + MORE; }\n");
    project.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(s C)\nadd_subdirectory(below)\n",
    );
    project.write(
        "below/CMakeLists.txt",
        "add_library(s STATIC ../s.c)\ntarget_include_directories(s SYSTEM PRIVATE ../lib)\n",
    );
    let mut tree = project.tree(&[Backend::Cpu], &["s"], &[]);
    assert_eq!(project.build(vec![tree.clone()]).unwrap_err().id(), "build.compile-failed");
    tree.shims =
        vec![Shim { header: "real.h".into(), text: "#include_next <real.h>\n#define MORE 1\n".into() }];
    project.build(vec![tree]).unwrap();
}
