//! Commits of git repositories, from local ones.
#![expect(clippy::disallowed_methods, reason = "tests start git")]

use std::process::Command;

use crate::requirements::skip;
use crate::support::{Project, library};

/// Runs git in a folder of the project. Returns its output.
fn git(project: &Project, folder: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]);
    command.args(arguments).current_dir(project.path(folder)).env("HOME", project.path("home"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Commits a library to a new repository. Returns the hash.
fn commit(project: &Project, folder: &str, value: u32) -> String {
    for (name, text) in library(folder, value) {
        project.write(&name, text);
    }
    git(project, folder, &["init", "--quiet", "--initial-branch=main"]);
    git(project, folder, &["add", "."]);
    git(project, folder, &["commit", "--quiet", "-m", "one"]);
    git(project, folder, &["rev-parse", "HEAD"])
}

pub(crate) fn has_git() -> bool {
    let found = Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip("git", "no git");
    }
    found
}

#[test]
fn commit_is_fetched_without_gits_own_files() {
    if !has_git() {
        return;
    }
    let project = Project::new("\".\"");
    let first = commit(&project, "repo", 1);
    let second = commit(&project, "repo", 2);
    git(&project, "repo", &["tag", "-a", "v1", "-m", "v1"]);
    let tag = git(&project, "repo", &["rev-parse", "v1"]);
    let url = format!("file://{}", project.path("repo").display());
    let source = |rev: &str| format!("{{ git = \"{url}\", rev = \"{rev}\" }}");
    for (rev, text) in [(&first, "x + 1"), (&second, "x + 2")] {
        project.set_source(&source(rev));
        // A variable of a hook must not redirect git into another repository.
        let output = project.command(&["fetch", "--json"]).env("GIT_DIR", "/nowhere").output().unwrap();
        let report = crate::support::Finished::from(output).succeeds().json();
        let folder = report["projects"][0]["folder"].as_str().unwrap().to_owned();
        let name = folder.strip_prefix(project.path("").to_str().unwrap()).unwrap();
        assert!(project.read(&format!("{name}/adder.c")).contains(text));
        assert_eq!(project.names(name), [".gpubuild-source.json", "CMakeLists.txt", "adder.c"]);
    }
    assert!(project.read("app/gpubuild.lock").contains(&format!("rev = \"{second}\"")));
    project.run(&["fetch", "--offline", "--locked"]).succeeds();
    for rev in [&"0".repeat(40), &tag] {
        project.set_source(&source(rev));
        project.run(&["fetch"]).fails(1, "source.rev-missing").says(rev);
    }
    project.remove("cache");
    project.set_source(&source(&first).replace("/repo", "/other"));
    project.run(&["fetch"]).fails(1, "source.git-failed").says("/other");
    let output = project.command(&["fetch"]).env("PATH", "/nowhere").output().unwrap();
    crate::support::Finished::from(output).fails(1, "source.git-missing");
    assert!(project.names("cache/sources").is_empty());
}

/// A file behind such a link would be published with the project that vendors the sources.
#[cfg(unix)]
#[test]
fn vendored_repository_has_no_files_from_outside() {
    if !has_git() {
        return;
    }
    let project = Project::new("\".\"");
    project.write("secret/key.c", "secret");
    project.write("repo/cycle/x.h", "");
    for (name, target) in [
        ("file.c", project.path("secret/key.c").to_str().unwrap()),
        ("folder", project.path("secret").to_str().unwrap()),
        ("inside.c", "adder.c"),
        ("cycle/same", "."),
        ("cycle/again", "."),
    ] {
        std::os::unix::fs::symlink(target, project.path("repo").join(name)).unwrap();
    }
    let rev = commit(&project, "repo", 1);
    project
        .set_source(&format!("{{ git = \"file://{}\", rev = \"{rev}\" }}", project.path("repo").display()));
    project.run(&["fetch", "--vendor", "third"]).succeeds();
    let copy = format!("app/third/{}", project.names("app/third")[0]);
    let expected = [".gpubuild-source.json", "CMakeLists.txt", "adder.c", "cycle", "inside.c"];
    assert_eq!(project.names(&copy), expected);
    assert_eq!(project.names(&format!("{copy}/cycle")), ["again", "same", "x.h"]);
}

#[test]
fn submodules_are_fetched_on_request() {
    if !has_git() {
        return;
    }
    let project = Project::new("\".\"");
    commit(&project, "inner", 3);
    project.write("repo/README", "outer\n");
    git(&project, "repo", &["init", "--quiet", "--initial-branch=main"]);
    git(&project, "repo", &["submodule", "--quiet", "add", "../inner", "native"]);
    git(&project, "repo", &["add", "."]);
    git(&project, "repo", &["commit", "--quiet", "-m", "outer"]);
    let rev = git(&project, "repo", &["rev-parse", "HEAD"]);
    let url = format!("file://{}", project.path("repo").display());
    let fetch = || {
        let mut command = project.command(&["fetch"]);
        // Git allows submodules in local folders only with this setting.
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "protocol.file.allow");
        crate::support::Finished::from(command.env("GIT_CONFIG_VALUE_0", "always").output().unwrap())
    };
    project.set_source(&format!("{{ git = \"{url}\", rev = \"{rev}\", path = \"native/x\" }}"));
    fetch().fails(2, "source.path-missing");
    project
        .set_source(&format!("{{ git = \"{url}\", rev = \"{rev}\", submodules = true, path = \"native\" }}"));
    fetch().succeeds();
    project.run(&["plan", "--backends", "cpu"]).succeeds();
    let folders = project.names("cache/sources");
    let with: Vec<&String> = folders.iter().filter(|name| name.ends_with("-s")).collect();
    assert_eq!(with.len(), 1, "{folders:?}");
    let native = project.names(&format!("cache/sources/{}/native", with[0]));
    assert_eq!(native, ["CMakeLists.txt", "adder.c"]);
}

#[test]
fn git_ends_at_its_limit() {
    if !has_git() {
        return;
    }
    let project = Project::new("\".\"");
    // A server that accepts the connection and is silent.
    project.write("home/ssh", "#!/bin/sh\nexec sleep 3600\n");
    let path = project.path("home/ssh");
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    project.set_source(&format!("{{ git = \"ssh://git@localhost/x\", rev = \"{}\" }}", "1".repeat(40)));
    let fetch = |limit: &str| {
        let mut command = project.command(&["fetch"]);
        let output = command.env("GIT_SSH", &path).env("GPUBUILD_GIT_TIMEOUT", limit).output().unwrap();
        crate::support::Finished::from(output)
    };
    fetch("1").fails(1, "source.git-slow").says("did not finish within 1 s");
    for wrong in ["0", "1e9", "-1", "86401"] {
        fetch(wrong).fails(2, "net.setting-invalid").says("GPUBUILD_GIT_TIMEOUT must be seconds");
    }
    assert!(project.names("cache/sources").is_empty());
}

#[test]
fn commit_is_fetched_over_ssh() {
    if !has_git() {
        return;
    }
    let project = Project::new("\".\"");
    let rev = commit(&project, "repo", 1);
    // Runs the command for the server on this machine.
    let ssh =
        "#!/bin/sh\nfor command; do :; done\necho \"$*\" >> \"$HOME/connections\"\nexec sh -c \"$command\"\n";
    project.write("home/ssh", ssh);
    let path = format!("{}:{}", project.path("home").display(), std::env::var("PATH").unwrap());
    let mut mode = std::fs::metadata(project.path("home/ssh")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(project.path("home/ssh"), mode).unwrap();
    project.set_source(&format!(
        "{{ git = \"ssh://host{}\", rev = \"{rev}\" }}",
        project.path("repo").display()
    ));
    let output = project.command(&["fetch"]).env("PATH", path).output().unwrap();
    crate::support::Finished::from(output).succeeds();
    assert!(project.read("home/connections").contains("git-upload-pack"));
    assert_eq!(project.names("cache/sources").len(), 1);
}
