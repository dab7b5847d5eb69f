//! Files of a build that are not regular files, programs that print very much, and folders that CMake cannot handle.
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

/// Files that CMake, Ninja and a compiler open themselves, from `.gpubuild/adder` or from the sources.
const OPENED_BY_TOOLS: [&str; 6] = [
    ".gpubuild/adder/cpu/CMakeCache.txt",
    ".gpubuild/adder/cpu/CMakeFiles/rules.ninja",
    ".gpubuild/adder/cpu/.ninja_deps",
    ".gpubuild/adder/cpu/.cmake/api/v1/query/extra",
    "vendor/more/CMakeLists.txt",
    "vendor/generated.h.in",
];

#[test]
fn pipes_and_devices_that_a_tool_would_open_are_refused() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    let source = project.read("vendor/adder.c");
    for (index, file) in OPENED_BY_TOOLS.iter().enumerate() {
        // A link in the build folder is refused in any case.
        let last = if file.starts_with("vendor/") { Fault::Endless } else { Fault::Socket };
        for fault in [Fault::Pipe, last] {
            // Without a change, no program would run.
            project.write("vendor/adder.c", &format!("{source}/* {index} {fault:?} */\n"));
            let is_kept = project.exists(file);
            if is_kept {
                std::fs::rename(project.path(file), project.path("kept")).unwrap();
            }
            assert!(fault.create(&project.path(file)));
            let ran = run(&project, &["build"]);
            ran.fails(2, "build.not-regular").says(&[file, "hint: remove it"]);
            project.remove(file);
            if is_kept {
                std::fs::rename(project.path("kept"), project.path(file)).unwrap();
            }
        }
    }
    // A socket of another program in the sources, which no tool opens.
    assert!(Fault::Socket.create(&project.path("vendor/.s.PGSQL.5432")));
    project.run(&["build"]).succeeds();
}

#[test]
fn cmake_that_prints_very_much_is_not_stopped_and_its_log_is_cut() {
    let Some(project) = Sandbox::with_library() else { return };
    let line = "x".repeat(4000);
    let path = std::env::var("PATH").unwrap();
    project.write(
        "bin/cmake",
        &format!(
            "#!/bin/sh\nPATH='{path}'\ncase $1 in --version|--build|-E) ;; *) yes {line} | head -c 300000000;; esac\nexec cmake \"$@\"\n"
        ),
    );
    std::fs::set_permissions(project.path("bin/cmake"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", project.path("bin").display());
    RunResult::from(project.command().env("PATH", path).args(["build", "-q"]).output().unwrap()).succeeds();
    project.run(&["link"]).succeeds();
    let mut logs = project.files_outside("none").into_iter().filter(|path| path.ends_with("build.log"));
    let log = std::fs::read_to_string(logs.next_back().unwrap()).unwrap();
    assert!(log.contains("[gpubuild omitted ") && log.contains("-- Configuring done"));
    assert!(log.len() < 9 << 20, "{} bytes", log.len());
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
