//! Folders that gpubuild did not create are rejected and not changed, and symlinks are not followed.
#![expect(clippy::disallowed_methods, reason = "tests make and read files")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use walkdir::WalkDir;

use crate::release::Release;
use crate::support::Sandbox;

/// The file that marks a folder as an installation.
pub(crate) const MARKER: &str = "gpubuild-install.json";
/// The content of the marker.
const CONTENT: &str = "{\"schema\":\"gpubuild.install-folder/1\"}\n";
/// A name in the format of a version folder.
const VERSION: &str = "0.9.0-1-cpu-3fa1b2c4";

/// A folder with `to`, the installation folder, and `outside`, the target of symlinks.
struct TestFolder<'a>(&'a Path);

impl TestFolder<'_> {
    fn file(&self, name: &str, content: &str) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn folder(&self, name: &str) -> &Self {
        fs::create_dir_all(self.0.join(name)).unwrap();
        self
    }

    fn link(&self, name: &str, target: &str) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    fn marker(&self) -> &Self {
        self.file(&format!("to/{MARKER}"), CONTENT)
    }

    fn state(&self, change: impl FnOnce(&mut Value)) -> &Self {
        self.file("to/state.json", &state(change))
    }

    /// User files under every name that gpubuild uses.
    fn outside(&self) -> &Self {
        self.file(&format!("outside/{VERSION}/thesis.txt"), "years of work")
            .file("outside/.gpubuild-abc123/thesis.txt", "years of work")
            .file("outside/.gpubuild-def456", "years of work")
            .file("outside/photos/1.jpg", "a photo")
    }
}

/// A valid `state.json` with one version, after a change.
fn state(change: impl FnOnce(&mut Value)) -> String {
    let version = json!({
        "folder": VERSION, "version": "0.9.0", "serial": 1, "label": "cpu", "backend": "cpu",
        "program": "bin/tool", "proof": "checked",
    });
    let mut state = json!({
        "schema": "gpubuild.installed/1", "name": "tool", "now": {"current": version, "previous": null},
        "before": {"current": null, "previous": null},
    });
    change(&mut state);
    state.to_string()
}

/// The folder and everything below it: names, kinds, modes, modification times, contents and link targets.
fn snapshot(folder: &Path) -> Vec<String> {
    let describe = |entry: walkdir::Result<walkdir::DirEntry>| {
        let entry = entry.unwrap();
        let (path, metadata) = (entry.path(), entry.path().symlink_metadata().unwrap());
        let content = if metadata.is_symlink() {
            fs::read_link(path).unwrap().to_str().unwrap().to_owned()
        } else if metadata.is_file() {
            fs::read_to_string(path).unwrap()
        } else {
            String::new()
        };
        let (mode, time) = (metadata.permissions().mode(), metadata.modified().unwrap());
        format!("{} {mode:o} {time:?} {content:?}", path.display())
    };
    WalkDir::new(folder).sort_by_file_name().into_iter().map(describe).collect()
}

/// Installs into a folder and rolls back: both are rejected, and nothing in the folder changes.
fn refused(sandbox: &Sandbox, case: &str, to: &str, id: &str) {
    let folder = sandbox.path("place");
    let before = snapshot(&folder);
    let to = format!("{}/{to}", folder.display());
    let ran = [
        sandbox.install(&["--to", &to, "--no-start"]),
        sandbox.run(&["install", "--rollback", "--json", "--to", &to]),
    ];
    for one in &ran {
        assert_eq!(one.exit, Some(2), "{case}: {one:#?}");
        assert_eq!(one.json()["error"]["id"], id, "{case}: {one:#?}");
        one.says(&[&format!("[{id}]"), "hint: with `--to`, specify "]);
    }
    assert_eq!(snapshot(&folder), before, "{case}");
}

type Case = (&'static str, fn(&TestFolder<'_>));

/// Creates every case and checks that its folder `to` is rejected.
fn all_refused(cases: &[Case], id: &str) {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    for (case, make) in cases {
        sandbox.remove_folder("place");
        make(&TestFolder(&sandbox.path("place")));
        refused(&sandbox, case, "to", id);
    }
}

#[test]
fn folder_without_marker_or_state_is_rejected() {
    let cases: &[Case] = &[
        ("user files in `versions`", |folder| {
            folder.file("to/versions/one.txt", "1").file("to/versions/drafts/two.txt", "2");
        }),
        ("a user folder with the name of a version", |folder| {
            folder.file(&format!("to/versions/{VERSION}/thesis.txt"), "years of work");
        }),
        ("an empty `versions`", |folder| {
            folder.folder("to/versions");
        }),
        ("a folder with the prefix of temporary names", |folder| {
            folder.file("to/.gpubuild-notes/one.txt", "1");
        }),
        ("a file with a temporary name", |folder| {
            folder.file("to/.gpubuild-abc123", "1");
        }),
        ("a folder with a temporary name", |folder| {
            folder.file("to/.gpubuild-abc123/x", "1");
        }),
        ("a link with a temporary name", |folder| {
            folder.outside().link("to/.gpubuild-abc123", "../outside");
        }),
        ("a lock", |folder| {
            folder.file("to/.lock", "");
        }),
        ("a lock and a user file", |folder| {
            folder.file("to/.lock", "").file("to/thesis.txt", "1");
        }),
        ("a lock and `versions`", |folder| {
            folder.file("to/.lock", "").folder("to/versions");
        }),
        ("`current` as a link", |folder| {
            folder.outside().link("to/current", "../outside");
        }),
        ("`current` as a dangling link", |folder| {
            folder.link("to/current", "versions/x");
        }),
        ("`current` as a file", |folder| {
            folder.file("to/current", "1");
        }),
        ("`.next` as a file", |folder| {
            folder.file("to/.next", "1");
        }),
        ("`.next` as a folder", |folder| {
            folder.file("to/.next/cache/page", "1");
        }),
        ("`.next` as a link", |folder| {
            folder.outside().link("to/.next", "../outside");
        }),
        ("`versions` as a link", |folder| {
            folder.outside().link("to/versions", "../outside");
        }),
        ("a git checkout", |folder| {
            folder.file("to/.git/HEAD", "ref: refs/heads/main\n").file("to/.gitignore", "target\n");
        }),
        ("a home folder", |folder| {
            folder.file("to/.bashrc", "alias ll='ls -l'").file("to/.ssh/id", "secret").folder("to/Documents");
        }),
        ("an empty subfolder", |folder| {
            folder.folder("to/empty");
        }),
        ("a file instead of a folder", |folder| {
            folder.file("to", "1");
        }),
        ("an empty file instead of a folder", |folder| {
            folder.file("to", "");
        }),
        ("another tool's marker", |folder| {
            folder.file("to/CACHEDIR.TAG", "Signature: 8a477f59");
        }),
    ];
    all_refused(cases, "install.not-ours");
}

#[test]
fn folder_with_invalid_state_or_marker_is_rejected() {
    let cases: &[Case] = &[
        ("another program's state", |folder| {
            folder.file("to/state.json", "{\"version\": 4, \"resources\": []}").folder("to/versions/data");
        }),
        ("a state that is cut off", |folder| {
            let state = state(|_| {});
            folder
                .file("to/state.json", &state[..state.len() / 2])
                .folder("to/versions")
                .file("to/.lock", "");
        }),
        ("an empty state", |folder| {
            folder.file("to/state.json", "");
        }),
        ("another schema", |folder| {
            folder.state(|state| state["schema"] = json!("gpubuild.installed/2"));
        }),
        ("a version in the parent folder", |folder| {
            folder.outside().state(|state| state["now"]["current"]["folder"] = json!("../../outside"));
        }),
        ("`..` in front of the name of a version", |folder| {
            folder
                .outside()
                .state(|state| state["before"]["previous"] = state["now"]["current"].clone())
                .state(|state| state["now"]["current"]["folder"] = json!(format!("../../outside/{VERSION}")));
        }),
        ("an absolute folder", |folder| {
            folder.state(|state| state["now"]["current"]["folder"] = json!(format!("/tmp/{VERSION}")));
        }),
        ("a nested folder", |folder| {
            folder.state(|state| state["now"]["current"]["folder"] = json!(format!("photos/{VERSION}")));
        }),
        ("a folder that is not a version", |folder| {
            folder.state(|state| state["now"]["current"]["folder"] = json!("photos"));
        }),
        ("a folder without a name", |folder| {
            folder.state(|state| state["now"]["current"]["folder"] = json!(""));
        }),
        ("a program outside", |folder| {
            folder.state(|state| state["now"]["current"]["program"] = json!("../../../outside/run"));
        }),
        ("an absolute program", |folder| {
            folder.state(|state| state["now"]["current"]["program"] = json!("/bin/true"));
        }),
        ("the state as a folder", |folder| {
            folder.file("to/state.json/x", "1");
        }),
        ("the marker as a folder", |folder| {
            folder.folder(&format!("to/{MARKER}"));
        }),
        ("a marker with other content", |folder| {
            folder.file(&format!("to/{MARKER}"), "{\"schema\":\"mine\"}").file("to/.gpubuild-abc123", "1");
        }),
        ("a marker with more content", |folder| {
            folder.file(&format!("to/{MARKER}"), &format!("{CONTENT}{CONTENT}")).folder("to/versions");
        }),
        ("a marker of another schema", |folder| {
            folder.file(&format!("to/{MARKER}"), "{\"schema\":\"gpubuild.install-folder/2\"}\n");
        }),
        ("a valid state beside a marker with other content", |folder| {
            folder.state(|_| {}).file(&format!("to/{MARKER}"), "notes");
        }),
    ];
    all_refused(cases, "install.not-ours");
}

#[test]
fn marked_folder_with_conflicting_user_file_is_rejected() {
    let cases: &[Case] = &[
        ("the state as a folder", |folder| {
            folder.marker().folder("to/state.json");
        }),
        ("the lock as a folder", |folder| {
            folder.marker().folder("to/.lock");
        }),
        ("`versions` as a file", |folder| {
            folder.marker().file("to/versions", "1");
        }),
        ("`current` as a folder", |folder| {
            folder.marker().file("to/current/thesis.txt", "1");
        }),
        ("`current` as a file", |folder| {
            folder.marker().file("to/current", "years of work");
        }),
        ("`.next` as a folder", |folder| {
            folder.marker().file("to/.next/thesis.txt", "1");
        }),
        ("`.next` as a file", |folder| {
            folder.state(|_| {}).file("to/.next", "years of work");
        }),
    ];
    all_refused(cases, "install.not-ours");
}

#[test]
fn symlinks_in_place_of_files_and_folders_are_rejected() {
    let cases: &[Case] = &[
        ("a link to a folder with files", |folder| {
            folder.outside().link("to", "outside");
        }),
        ("a link to an empty folder", |folder| {
            folder.folder("empty").link("to", "empty");
        }),
        ("a dangling link", |folder| {
            folder.link("to", "absent");
        }),
        ("a link to a file", |folder| {
            folder.file("file", "1").link("to", "file");
        }),
        ("a link to an installation", |folder| {
            folder.file(&format!("outside/{MARKER}"), CONTENT).link("to", "outside");
        }),
        ("a link to a link", |folder| {
            folder.outside().link("one", "outside").link("to", "one");
        }),
        ("`versions` in a marked folder", |folder| {
            folder.outside().marker().link("to/versions", "../outside");
        }),
        ("`versions` in a folder with a state", |folder| {
            folder.outside().state(|_| {}).link("to/versions", "../outside");
        }),
        ("a dangling `versions`", |folder| {
            folder.marker().link("to/versions", "../absent");
        }),
        ("a version's folder", |folder| {
            folder.outside().marker().link(&format!("to/versions/{VERSION}"), "../../outside");
        }),
        ("a version's folder that the state names", |folder| {
            let link = format!("to/versions/{VERSION}");
            folder.outside().state(|_| {}).link(&link, &format!("../../outside/{VERSION}"));
        }),
        ("a version's folder to a file", |folder| {
            folder.outside().marker().link(&format!("to/versions/{VERSION}"), "../../outside/photos/1.jpg");
        }),
        ("the marker", |folder| {
            folder.file("outside/marker", CONTENT).link(&format!("to/{MARKER}"), "../outside/marker");
        }),
        ("a dangling marker", |folder| {
            folder.link(&format!("to/{MARKER}"), "../absent");
        }),
        ("the state", |folder| {
            folder.file("outside/state", &state(|_| {})).link("to/state.json", "../outside/state");
        }),
        ("the state in a marked folder", |folder| {
            folder.marker().file("outside/state", &state(|_| {})).link("to/state.json", "../outside/state");
        }),
        ("the lock", |folder| {
            folder.outside().marker().link("to/.lock", "../outside/photos/1.jpg");
        }),
        ("a dangling lock", |folder| {
            folder.outside().marker().link("to/.lock", "../outside/new");
        }),
    ];
    all_refused(cases, "install.link");
}

#[test]
fn read_only_folder_is_rejected() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    TestFolder(&sandbox.path("place")).file("to/thesis.txt", "years of work");
    let mode =
        |mode| fs::set_permissions(sandbox.path("place/to"), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    refused(&sandbox, "a read-only folder", "to", "install.not-ours");
    // Otherwise the folder cannot be removed.
    mode(0o755);
}

#[test]
fn trailing_separator_does_not_hide_a_symlink() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    TestFolder(&sandbox.path("place")).folder("empty").link("to", "empty");
    for to in ["to/", "to//", "to/.", "to/./", "./to/"] {
        refused(&sandbox, to, to, "install.link");
    }
}

/// The folder of the version to install is a symlink, with its program.
#[test]
fn installed_version_replaced_by_a_symlink_is_rejected() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    let to = sandbox.at("place/to");
    sandbox.install(&["--to", &to]).done();
    let current = fs::read_link(sandbox.path("place/to/current")).unwrap();
    let folder = Path::new(&to).join(&current);
    fs::rename(&folder, sandbox.path("place/outside")).unwrap();
    symlink(sandbox.path("place/outside"), &folder).unwrap();
    refused(&sandbox, "the same version", "to", "install.link");
    Release::plain("2.0.0", 2).write(&sandbox, "release");
    refused(&sandbox, "another version", "to", "install.link");
}

#[test]
fn only_files_created_by_gpubuild_are_removed() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("place");
    let folder = TestFolder(&folder);
    folder.outside().marker();
    let outside = snapshot(&sandbox.path("place/outside"));
    let kept = [
        "thesis.txt",
        ".gpubuild-notes/one.txt",
        ".gpubuild-abc123/one.txt",
        ".gpubuild-abc1234",
        "versions/thesis.txt",
        "versions/photos/1.jpg",
        "versions/2024-05-holiday-20240501/1.jpg",
        "versions/.gpubuild-def456",
        "versions/.gpubuild-notes/one.txt",
        "versions/.gpubuild-gone-photos/1.jpg",
    ];
    for name in kept {
        folder.file(&format!("to/{name}"), name);
    }
    let links = [".gpubuild-link12", "versions/.gpubuild-link12", "versions/link"];
    for name in links {
        folder.link(&format!("to/{name}"), &sandbox.at("place/outside"));
    }
    let removed = [
        ".gpubuild-Ab3xY9",
        "versions/.gpubuild-Ab3xY9/bin/tool",
        &format!("versions/{VERSION}/bin/tool"),
        &format!("versions/.gpubuild-gone-{VERSION}/bin/tool"),
    ];
    for name in removed {
        folder.file(&format!("to/{name}"), "");
    }
    folder.link("to/.next", &sandbox.at("place/outside"));
    for (version, serial) in [("1.0.0", 1), ("2.0.0", 2), ("3.0.0", 3)] {
        Release::plain(version, serial).write(&sandbox, "release");
        sandbox.install(&["--to", "place/to"]).done();
    }
    for name in kept {
        assert_eq!(sandbox.read(&format!("place/to/{name}")), name);
    }
    for name in links {
        assert!(sandbox.path(&format!("place/to/{name}")).is_symlink(), "{name}");
    }
    for name in removed.iter().chain(&[".next"]) {
        assert!(sandbox.path(&format!("place/to/{name}")).symlink_metadata().is_err(), "{name}");
    }
    assert_eq!(snapshot(&sandbox.path("place/outside")), outside);
}

#[test]
fn partial_marker_is_accepted_and_completed() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    for length in [0, 1, CONTENT.len() / 2, CONTENT.len() - 1] {
        sandbox.remove_folder("to");
        sandbox.write(&format!("to/{MARKER}"), &CONTENT[..length]);
        sandbox.install(&[]).done();
        assert_eq!(sandbox.read(&format!("to/{MARKER}")), CONTENT, "{length} bytes");
        assert_eq!(sandbox.installed(), "1.0.0\n");
    }
}

#[test]
fn installation_without_a_marker_gets_one() {
    let sandbox = Sandbox::new();
    for (version, serial) in [("1.0.0", 1), ("2.0.0", 2)] {
        Release::plain(version, serial).write(&sandbox, "release");
        sandbox.install(&[]).done();
    }
    assert_eq!(sandbox.read(&format!("to/{MARKER}")), CONTENT);
    sandbox.remove(&format!("to/{MARKER}"));
    sandbox.run(&["install", "--rollback", "--to", "to", "--json"]).done();
    assert_eq!(sandbox.installed(), "1.0.0\n");
    Release::plain("3.0.0", 3).write(&sandbox, "release");
    assert_eq!(sandbox.install(&[]).done()["previous"]["version"], "1.0.0");
    assert_eq!(sandbox.read(&format!("to/{MARKER}")), CONTENT);
}

#[test]
fn empty_folder_and_symlinked_parent_are_accepted() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    let folder = sandbox.path("place");
    TestFolder(&folder).folder("disk/empty").link("home", "disk");
    for to in ["place/home/empty", "place/home/new", "place/home/new"] {
        sandbox.install(&["--to", to]).done();
        assert_eq!(sandbox.read(&format!("{to}/{MARKER}")), CONTENT);
    }
}

#[test]
fn concurrent_first_installations_all_succeed() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    for round in 0..6 {
        let to = format!("to{round}");
        std::thread::scope(|scope| {
            let install = || drop(sandbox.install(&["--to", &to]).done());
            let all: Vec<_> = (0..4).map(|_| scope.spawn(install)).collect();
            for one in all {
                one.join().unwrap();
            }
        });
        assert_eq!(sandbox.read(&format!("{to}/{MARKER}")), CONTENT);
    }
}
