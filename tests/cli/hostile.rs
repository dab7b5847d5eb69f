//! A full disk, and folders without read or write permission.
#![expect(clippy::disallowed_methods, reason = "tests prepare their own files")]

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Sandbox, is_on_path, skip};

/// Whether these tests may mount file systems and switch users.
fn is_root(project: &Sandbox) -> bool {
    let id = project.start(&["id", "-u"]);
    if id.stdout.trim() != "0" {
        skip("root", "not root");
        return false;
    }
    true
}

#[test]
fn full_disk_is_reported_and_leaves_valid_state() {
    let Some(project) = Sandbox::with_library() else { return };
    if !is_root(&project) {
        return;
    }
    if !project.start(&["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]).is_success() {
        skip("root", "this machine does not allow mounting");
        return;
    }
    // The mount namespace removes the disk with the shell. The filler file is outside the build folder, so that the
    // build gets further with each larger size of free space.
    let script = r#"set -e; mkdir disk; mount -t tmpfs -o size=4m none disk; cp -r vendor gpubuild.toml disk; cd disk
        for room in 4 20 60 120 300; do
            head -c 4194304 /dev/zero > filler 2> ../ignored || true
            truncate -s "-${room}k" filler
            code=0; "$0" build 2> ../log || code=$?
            echo "== $room: $code"; cat ../log
            if [ "$code" != 0 ] || [ "$room" -lt 100 ]; then
                [ "$code" = 1 ]; grep -qF '[disk.full]' ../log; grep -q 'hint: free some space' ../log
                code=0; "$0" link || code=$?; [ "$code" = 2 ]
            fi
            rm filler; "$0" build; "$0" link; "$0" clean
        done"#;
    let ran = project.start(&["unshare", "-m", "sh", "-c", script, env!("CARGO_BIN_EXE_gpubuild")]);
    assert_eq!(ran.succeeds().stdout.matches("/libadder.a -lm").count(), 5, "{ran:#?}");
}

#[test]
fn inaccessible_folders_are_reported() {
    let Some(project) = Sandbox::with_library() else { return };
    if !is_root(&project) {
        return;
    }
    if !is_on_path("setpriv") {
        skip("root", "no setpriv");
        return;
    }
    // A copy of the command that every user can run.
    std::fs::copy(env!("CARGO_BIN_EXE_gpubuild"), project.path("gpubuild")).unwrap();
    project.set_mode(".", 0o755);
    let build = |arguments: &[&str]| {
        let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "./gpubuild"];
        project.start(&[nobody.as_slice(), arguments].concat())
    };
    build(&["build"]).fails(1, "file.denied").says(&[".gpubuild", "hint: check its owner and mode"]);
    project.write(".gpubuild/x", "");
    project.set_mode(".gpubuild", 0o777);
    project.write("vendor/secret/kernel.c", "");
    project.set_mode("vendor/secret", 0o700);
    if build(&["plan", "--json"]).json()["fetch"] != serde_json::json!([]) {
        skip("root", "only root can access CMake and Ninja");
        return;
    }
    build(&["build"]).fails(1, "file.denied").says(&["vendor/secret"]);
    project.set_mode("vendor", 0o700);
    let ran = build(&["build"]);
    assert!(matches!(ran.exit, Some(1 | 2)), "{ran:#?}");
    ran.says(&["vendor", "hint:"]);
    project.set_mode("gpubuild.toml", 0o600);
    build(&["build"]).fails(2, "project.unreadable").says(&["gpubuild.toml", "ermission denied"]);
    for (name, mode) in [("gpubuild.toml", 0o644), ("vendor", 0o755), ("vendor/secret", 0o755)] {
        project.set_mode(name, mode);
    }
    // The tools of this machine may be accessible only to root, so root builds.
    build(&["plan"]).succeeds();
    project.run(&["build"]).succeeds();
}

impl Sandbox {
    fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
}
