//! `gpubuild clean`: what it removes, its locks, and the symlinks that it rejects.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::fs;
use std::process::{Child, Stdio};

use crate::support::{RunResult, Sandbox};

#[cfg(target_os = "linux")]
use crate::support::{is_on_path, skip};

#[test]
fn clean_removes_only_build_outputs() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["clean"]).succeeds().says(&["nothing to remove"]);
    project.run(&["build"]).succeeds();
    project.write(".gpubuild/another/kept", "");
    let before = project.files_outside(".gpubuild/adder");
    project.run(&["clean"]).succeeds().says(&["removed", "adder"]);
    assert!(!project.exists(".gpubuild/adder"));
    assert_eq!(project.files_outside(".gpubuild/adder"), before);
    project.run(&["link"]).fails(2, "manifest.missing");
    project.run(&["clean"]).succeeds();
    project.run(&["build"]).succeeds();
    project.run(&["link"]).succeeds();
}

#[cfg(target_os = "linux")]
#[test]
fn clean_reports_a_build_folder_in_use() {
    let Some(project) = Sandbox::with_library() else { return };
    if !is_on_path("flock") {
        skip("flock", "no flock");
        return;
    }
    project.run(&["build"]).succeeds();
    let clean = [env!("CARGO_BIN_EXE_gpubuild"), "clean"];
    let held = ["flock", ".gpubuild/.adder.lock"];
    project.start(&[held, clean].concat()).fails(1, "build.running").says(&["adder", "in use"]);
    project.run(&["link"]).succeeds();
    project.start(&clean).succeeds();
    assert!(!project.exists(".gpubuild/adder"));
}

#[test]
fn next_clean_completes_an_interrupted_one() {
    let Some(project) = Sandbox::with_library() else { return };
    project.run(&["build"]).succeeds();
    fs::rename(project.path(".gpubuild/adder"), project.path(".gpubuild/.adder.removed")).unwrap();
    project.run(&["clean"]).succeeds();
    assert!(!project.exists(".gpubuild/.adder.removed"));
}

/// Number of object files in the archive of `Sandbox::with_library` and `with_parts`.
const PARTS: usize = 12;

/// The project with more sources, so that an archive that two builds write at once is visibly incomplete.
fn with_parts() -> Option<Sandbox> {
    let project = Sandbox::with_library()?;
    let names: Vec<String> = (0..PARTS).map(|part| format!("part{part}.c")).collect();
    for (part, name) in names.iter().enumerate() {
        project.write(&format!("vendor/{name}"), &format!("int part{part}(void) {{ return {part}; }}\n"));
    }
    let list = project.read("vendor/CMakeLists.txt");
    project.write(
        "vendor/CMakeLists.txt",
        &format!("{list}target_sources(adder PRIVATE {})\n", names.join(" ")),
    );
    Some(project)
}

fn start(project: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = project.command();
    command.args(arguments).env("GPUBUILD_STORE", "on").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn concurrent_build_clean_and_prune_leave_a_complete_library() {
    const ROUNDS: usize = 60;
    let Some(project) = with_parts() else { return };
    let library = project.path(".gpubuild/adder/cpu/libadder.a");
    let mut complete = 0;
    for round in 0..ROUNDS {
        // Every third round compiles.
        if round % 3 == 0 {
            project.write("vendor/part0.c", &format!("int part0(void) {{ return {round}; }}\n"));
        }
        let children = [&["build"][..], &["clean"], &["build"], &["cache", "prune", "--all"]]
            .map(|call| start(&project, call));
        let [one, clean, two, prune] =
            children.map(|child| RunResult::from(child.wait_with_output().unwrap()));
        for build in [&one, &two] {
            assert!(build.is_success(), "round {round}: {build:#?}");
        }
        assert!(prune.is_success(), "round {round}: {prune:#?}");
        if !clean.is_success() {
            clean.fails(1, "build.running");
        }
        if let Ok(bytes) = fs::read(&library) {
            let members = String::from_utf8_lossy(&bytes).matches(".c.o/").count();
            assert_eq!(members, PARTS + 1, "round {round}: {one:#?} {two:#?}");
            project.run(&["link"]).succeeds();
            complete += 1;
        }
    }
    assert!(complete > 0, "no round ended with a build");
    project.run(&["build"]).succeeds();
    project.run(&["link"]).succeeds();
}

/// Cargo keeps the program twice, as hard links, and compares the content of neither.
#[cfg(unix)]
#[test]
fn damaged_program_is_relinked() {
    let Some(project) = Sandbox::with_library() else { return };
    let table = project.read("gpubuild.toml") + "[binary]\npackage = \"app\"\nprofile = \"dev\"\n";
    project.write("gpubuild.toml", &table);
    project.write(
        "app/Cargo.toml",
        "[package]\nname = \"my-app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    project.write("app/src/main.rs", "fn main() {\n    println!(\"complete\");\n}\n");
    project.run(&["build"]).succeeds();
    let program = project.path("app/target/debug/my-app");
    let good = fs::read(&program).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bad in [&good[..0], &good[..good.len() / 2], &flipped] {
        // Writes in place, so that both links are damaged.
        fs::write(&program, bad).unwrap();
        project.run(&["build"]).succeeds();
        assert_eq!(fs::read(&program).unwrap().len(), good.len());
        assert_eq!(project.run(&["run"]).succeeds().stdout, "complete\n");
    }
}

#[cfg(unix)]
mod links {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    /// Every file and folder below a folder, with the contents of files.
    fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
        entries.map(|entry| (entry.path().to_owned(), fs::read(entry.path()).unwrap_or_default())).collect()
    }

    /// Every path that a build writes, relative to the output folder with and without a Cargo package.
    const LEVELS: [&str; 13] = [
        "",
        "/adder",
        "/adder/cpu",
        "/adder/cpu/gpubuild",
        "/adder/cpu/gpubuild/shims",
        "/adder/cpu/.cmake",
        "/adder/cpu/.cmake/api/v1",
        "/adder/cpu/CMakeFiles",
        "/adder/runtime",
        "/adder/runtime/inner",
        "/adder/source",
        "/adder/with/other",
        "/.adder.lock",
    ];

    #[test]
    fn symlinks_in_the_output_path_are_rejected() {
        let Some(project) = Sandbox::with_library() else { return };
        for base in [".gpubuild", "target/gpubuild"] {
            if base.starts_with("target") {
                project.write("Cargo.toml", "");
            }
            for level in LEVELS {
                let outside = tempfile::tempdir().unwrap();
                for file in ["notes.txt", "adder/cpu/mine.c", "cpu/mine.c", "v1/query/mine"] {
                    let path = outside.path().join(file);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, "mine").unwrap();
                }
                let before = snapshot(outside.path());
                let link = project.path(&format!("{base}{level}"));
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(outside.path(), &link).unwrap();
                for call in [&["build"][..], &["clean"], &["build", "--backends", "cpu"]] {
                    let ran = project.run(call);
                    ran.fails(1, "file.link-refused").says(&["hint:", link.to_str().unwrap()]);
                    assert_eq!(snapshot(outside.path()), before, "{base}{level}: {call:?}");
                }
                fs::remove_file(&link).unwrap();
                // The first level is the link itself, so there may be nothing to remove.
                let _ = fs::remove_dir_all(project.path(base));
            }
            project.run(&["build"]).succeeds();
            project.run(&["clean"]).succeeds();
        }
    }

    /// The name can come from a repository, and the hint is a command to copy.
    #[test]
    fn hint_about_a_link_quotes_its_path() {
        let project = Sandbox::with_project("cmake");
        let link = project.path(".gpubuild/demo/cpu/.cmake/api/$(touch ran)");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("/tmp", &link).unwrap();
        project.run(&["clean"]).fails(1, "file.link-refused").says(&[&format!("`rm '{}'`", link.display())]);
    }

    #[test]
    fn cargo_target_folder_may_be_a_symlink() {
        let Some(project) = Sandbox::with_library() else { return };
        let disk = tempfile::tempdir().unwrap();
        project.write("Cargo.toml", "");
        symlink(disk.path(), project.path("target")).unwrap();
        project.run(&["build"]).succeeds();
        project.run(&["link"]).succeeds();
        project.run(&["clean"]).succeeds();
        assert!(!disk.path().join("gpubuild/adder").exists());
    }
}
