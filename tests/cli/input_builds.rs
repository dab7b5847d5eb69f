//! Files of a build that are not regular files, programs that do not stop printing, and folders that CMake cannot handle.
#![expect(clippy::disallowed_methods, reason = "tests prepare their own files")]

use std::os::unix::fs::PermissionsExt as _;

use crate::input_files::{Fault, run};
use crate::support::{RunResult, Sandbox};

/// The files that gpubuild itself reads in a build folder, below `.gpubuild/adder`.
fn own_files(project: &Sandbox) -> Vec<String> {
    let root = project.path(".");
    let files = walkdir::WalkDir::new(project.path(".gpubuild")).into_iter().map(|entry| entry.unwrap());
    let files = files.filter(|entry| entry.file_type().is_file()).filter(|entry| {
        let path = entry.path().to_str().unwrap();
        let is_own = [".json", ".a", ".log"].iter().any(|end| path.ends_with(end));
        // CMake reads and writes its own files, and would wait.
        is_own && !path.contains("/CMakeFiles/")
    });
    files.map(|entry| entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn replaced_files_of_a_build_are_reported_or_written_again() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    let files = own_files(&project);
    assert!(files.iter().any(|file| file.ends_with("manifest.json")), "{files:?}");
    assert!(files.iter().any(|file| file.contains("/reply/")), "{files:?}");
    for file in &files {
        for fault in [Fault::Pipe, Fault::Endless] {
            std::fs::rename(project.path(file), project.path("kept")).unwrap();
            assert!(fault.create(&project.path(file)));
            let ran = run(&project, &["link"]);
            assert!(matches!(ran.exit, Some(0..=2)), "{fault:?} for {file}: {ran:#?}");
            if file.ends_with("manifest.json") {
                ran.fails(2, "manifest.unreadable").says(&["manifest.json"]);
            }
            project.remove(file);
            std::fs::rename(project.path("kept"), project.path(file)).unwrap();
        }
    }
    for fault in [Fault::Pipe, Fault::Endless] {
        // The names of CMake's replies change with every build.
        for file in own_files(&project) {
            project.remove(&file);
            assert!(fault.create(&project.path(&file)));
        }
        let ran = run(&project, &["build"]);
        assert!(matches!(ran.exit, Some(0..=2)), "{fault:?}: {ran:#?}");
        std::fs::remove_dir_all(project.path(".gpubuild")).unwrap();
        project.run(&["build"]).succeeds();
    }
}

#[test]
fn cmake_that_never_stops_printing_is_stopped() {
    let Some(project) = Sandbox::with_library() else { return };
    let line = "x".repeat(4000);
    project.write(
        "bin/cmake",
        &format!("#!/bin/sh\ncase $1 in --version) echo cmake version 3.30.0;; *) exec yes {line};; esac\n"),
    );
    std::fs::set_permissions(project.path("bin/cmake"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let ran = RunResult::from(project.command().env("PATH", path).arg("build").output().unwrap());
    ran.fails(1, "build.program-failed")
        .says(&["bin/cmake` was stopped because it printed more than 256 MiB"]);
    let mut logs = project.files_outside("none").into_iter().filter(|path| path.ends_with("build.log"));
    let log = std::fs::read_to_string(logs.next_back().unwrap()).unwrap();
    assert!(log.contains("[gpubuild omitted ") && log.len() < 9 << 20, "{} bytes", log.len());
}

#[test]
fn folders_that_cmake_cannot_handle_are_refused() {
    let Some(project) = Sandbox::with_library() else { return };
    for name in ["a;b", "a\"b", "a|b", "a\\b", "a$<1:x>b", "a${X}b", "a\nb"] {
        let file = |file: &str| format!("{name}/{file}");
        for copied in ["gpubuild.toml", "vendor/CMakeLists.txt", "vendor/adder.c"] {
            project.write(&file(copied), &project.read(copied));
        }
        let before = project.files_outside("none");
        let ran = project.run(&["build", "--project", name]);
        ran.fails(2, "plan.folder-unsupported").says(&["source folder", "hint: move or rename the folder"]);
        assert_eq!(project.files_outside("none"), before, "{name:?}");
    }
    for name in ["a b", "a$b", "a'b", "a#b", "é"] {
        for copied in ["gpubuild.toml", "vendor/CMakeLists.txt", "vendor/adder.c"] {
            project.write(&format!("{name}/{copied}"), &project.read(copied));
        }
        project.run(&["build", "--project", name]).succeeds();
    }
}
