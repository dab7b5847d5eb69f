//! A project file of another user is refused, as git refuses repositories of other users.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests change owners of their own files")]

use std::os::unix::fs::{MetadataExt as _, chown};

use crate::support::{RunResult, Sandbox, skip};

/// An id that no user of a test machine has.
const OTHER: u32 = 54_321;

/// A project that belongs to another user. Prints why and returns `None` unless the test runs as root.
fn foreign_project() -> Option<Sandbox> {
    let sandbox = Sandbox::with_project("gk");
    let folder = sandbox.path("");
    if std::fs::metadata(&folder).unwrap().uid() != 0 || chown(&folder, Some(OTHER), Some(OTHER)).is_err() {
        skip("root", "only root can give files to another user");
        return None;
    }
    chown(sandbox.path("gpubuild.toml"), Some(OTHER), Some(OTHER)).unwrap();
    Some(sandbox)
}

fn run(sandbox: &Sandbox, env: &[(&str, &str)], arguments: &[&str]) -> RunResult {
    RunResult::from(sandbox.command().envs(env.iter().copied()).args(arguments).output().unwrap())
}

#[test]
fn every_command_that_reads_a_project_refuses_one_of_another_user() {
    let Some(sandbox) = foreign_project() else { return };
    let files = sandbox.files_outside("cache");
    for command in [
        &["plan"][..],
        &["build"],
        &["build", "--dry-run"],
        &["run"],
        &["test"],
        &["bench"],
        &["link"],
        &["clean"],
        &["audit"],
        &["export", "out"],
        &["pack", "--out", "out"],
        &["venv"],
        &["ci", "matrix"],
        &["cache", "prune", "--all"],
        &["doctor"],
        &["resolve", "--python", "--install"],
    ] {
        let ran = run(&sandbox, &[], command);
        let folder = sandbox.path("");
        let folder = folder.to_str().unwrap().trim_end_matches('/');
        ran.fails(2, "project.other-owner").says(&[
            &format!("{folder}/gpubuild.toml"),
            &format!("user {OTHER}"),
            &format!("export GPUBUILD_SAFE_DIRECTORY={folder}"),
        ]);
    }
    assert_eq!(sandbox.files_outside("cache"), files);
}

#[test]
fn a_project_of_another_user_is_used_if_its_folder_is_allowed() {
    let Some(sandbox) = foreign_project() else { return };
    let folder = sandbox.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let is_used = |env: &[(&str, &str)]| run(&sandbox, env, &["clean"]).is_success();
    assert!(!is_used(&[]));
    let caller = OTHER.to_string();
    for env in [
        ("GPUBUILD_SAFE_DIRECTORY", folder.as_str()),
        ("GPUBUILD_SAFE_DIRECTORY", "*"),
        ("SUDO_UID", &caller),
        ("GITHUB_WORKSPACE", &folder),
    ] {
        assert!(is_used(&[env]), "{env:?}");
    }
    assert!(!is_used(&[("CI", "true")]));
    sandbox.write("config/gpubuild/config.toml", &format!("safe_directories = [\"{folder}\"]\n"));
    assert!(is_used(&[]));
    sandbox.write("config/gpubuild/config.toml", "safe_directories = [\"/other\"]\n");
    assert!(!is_used(&[]));
}

#[test]
fn a_project_file_of_another_user_in_a_shared_folder_is_refused() {
    let Some(sandbox) = foreign_project() else { return };
    chown(sandbox.path(""), Some(0), Some(0)).unwrap();
    std::fs::create_dir_all(sandbox.path("mine/deep")).unwrap();
    run(&sandbox, &[], &["plan", "--project", "mine/deep"]).fails(2, "project.other-owner");
    chown(sandbox.path("gpubuild.toml"), Some(0), Some(0)).unwrap();
    run(&sandbox, &[], &["clean", "--project", "mine/deep"]).succeeds();
}
