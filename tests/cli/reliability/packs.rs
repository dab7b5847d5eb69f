//! Kills of `gpubuild pack`.
#![expect(clippy::disallowed_methods, reason = "a test removes its own files")]

use std::path::PathBuf;

use super::common::{Victim, cases, temporary_names};
use crate::pack::{EPOCH, files, pack, program, project};

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_packs_leave_the_old_or_new_release() {
    let Some(project) = project() else { return };
    pack(&project, &["--out", "one", "--label", "first"]).succeeds();
    program(&project, 46);
    pack(&project, &["--out", "two", "--label", "second"]).succeeds();
    let command = |from: &str| {
        let mut command = project.command();
        command.env("SOURCE_DATE_EPOCH", EPOCH).env("TMPDIR", project.path("tmp"));
        command.args(["pack", "--out", "release", "--from", from]);
        command
    };
    project.write("tmp/.keep", "");
    let run = |from: &str| assert!(command(from).output().unwrap().status.success());
    run("one");
    let old = files(&project.path("release"));
    // The release is written in a folder beside it.
    let folders = vec![project.path("")];
    let mut victim = Victim::new(31, folders.clone(), &mut command("two"));
    let new = files(&project.path("release"));
    assert_ne!(old, new);
    let mut attempts = 0;
    while victim.needs_more(cases(60), attempts) {
        attempts += 1;
        std::fs::remove_dir_all(project.path("release")).unwrap();
        run("one");
        victim.kill(&mut command("two"));
        let now = files(&project.path("release"));
        assert!(now == old || now == new, "attempt {attempts}: neither the old release nor the new one");
        run("two");
        assert_eq!(files(&project.path("release")), new, "attempt {attempts}");
        let left = temporary_names(&[project.path("release"), project.path("tmp")]);
        assert_eq!(left, Vec::<PathBuf>::new(), "attempt {attempts}");
        let names = std::fs::read_dir(project.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("gpubuild-")).collect();
        assert!(left.is_empty(), "attempt {attempts}: {left:?}");
    }
}
