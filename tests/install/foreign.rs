//! Folders that gpubuild did not create are refused and not changed, and links are not followed.
#![expect(clippy::disallowed_methods, reason = "tests make and read files")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use walkdir::WalkDir;

use crate::release::Release;
use crate::support::World;

/// The file that makes a folder an installation.
pub(crate) const MARKER: &str = "gpubuild-install.json";
/// Its content.
const CONTENT: &str = "{\"schema\":\"gpubuild.install-folder/1\"}\n";
/// A name in the form of a version's folder.
const VERSION: &str = "0.9.0-1-cpu-3fa1b2c4";

/// A folder with `to`, which is installed into, and `outside`, which links lead to.
struct Place<'a>(&'a Path);

impl Place<'_> {
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

    /// Files of a user under all names that gpubuild uses for its own.
    fn outside(&self) -> &Self {
        self.file(&format!("outside/{VERSION}/thesis.txt"), "years of work")
            .file("outside/.gpubuild-abc123/thesis.txt", "years of work")
            .file("outside/.gpubuild-def456", "years of work")
            .file("outside/photos/1.jpg", "a photo")
    }
}

/// A valid `state.json` with one version, changed.
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

/// Everything below a folder and the folder itself: names, kinds, modes, modification times, contents and targets.
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

/// Installs into a place and rolls it back: both are refused, and nothing in the place changes.
fn refused(world: &World, case: &str, to: &str, id: &str) {
    let place = world.path("place");
    let before = snapshot(&place);
    let to = format!("{}/{to}", place.display());
    let ran = [
        world.install(&["--to", &to, "--no-start"]),
        world.run(&["install", "--rollback", "--json", "--to", &to]),
    ];
    for one in &ran {
        assert_eq!(one.exit, Some(2), "{case}: {one:#?}");
        assert_eq!(one.json()["error"]["id"], id, "{case}: {one:#?}");
        one.says(&[&format!("[{id}]"), "hint: with `--to`, name "]);
    }
    assert_eq!(snapshot(&place), before, "{case}");
}

type Case = (&'static str, fn(&Place<'_>));

/// Makes every place, and checks that its folder `to` is refused.
fn all_refused(cases: &[Case], id: &str) {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    for (case, make) in cases {
        world.remove_folder("place");
        make(&Place(&world.path("place")));
        refused(&world, case, "to", id);
    }
}

#[test]
fn a_folder_without_a_marker_or_a_state_is_refused() {
    let cases: &[Case] = &[
        ("user files in `versions`", |place| {
            place.file("to/versions/one.txt", "1").file("to/versions/drafts/two.txt", "2");
        }),
        ("a user folder with the name of a version", |place| {
            place.file(&format!("to/versions/{VERSION}/thesis.txt"), "years of work");
        }),
        ("an empty `versions`", |place| {
            place.folder("to/versions");
        }),
        ("a folder with the prefix of temporary names", |place| {
            place.file("to/.gpubuild-notes/one.txt", "1");
        }),
        ("a file with a temporary name", |place| {
            place.file("to/.gpubuild-abc123", "1");
        }),
        ("a folder with a temporary name", |place| {
            place.file("to/.gpubuild-abc123/x", "1");
        }),
        ("a link with a temporary name", |place| {
            place.outside().link("to/.gpubuild-abc123", "../outside");
        }),
        ("a lock", |place| {
            place.file("to/.lock", "");
        }),
        ("a lock and a user file", |place| {
            place.file("to/.lock", "").file("to/thesis.txt", "1");
        }),
        ("a lock and `versions`", |place| {
            place.file("to/.lock", "").folder("to/versions");
        }),
        ("`current` as a link", |place| {
            place.outside().link("to/current", "../outside");
        }),
        ("`current` as a dangling link", |place| {
            place.link("to/current", "versions/x");
        }),
        ("`current` as a file", |place| {
            place.file("to/current", "1");
        }),
        ("`.next` as a file", |place| {
            place.file("to/.next", "1");
        }),
        ("`.next` as a folder", |place| {
            place.file("to/.next/cache/page", "1");
        }),
        ("`.next` as a link", |place| {
            place.outside().link("to/.next", "../outside");
        }),
        ("`versions` as a link", |place| {
            place.outside().link("to/versions", "../outside");
        }),
        ("a git checkout", |place| {
            place.file("to/.git/HEAD", "ref: refs/heads/main\n").file("to/.gitignore", "target\n");
        }),
        ("a home folder", |place| {
            place.file("to/.bashrc", "alias ll='ls -l'").file("to/.ssh/id", "secret").folder("to/Documents");
        }),
        ("an empty subfolder", |place| {
            place.folder("to/empty");
        }),
        ("a file instead of a folder", |place| {
            place.file("to", "1");
        }),
        ("an empty file instead of a folder", |place| {
            place.file("to", "");
        }),
        ("another tool's marker", |place| {
            place.file("to/CACHEDIR.TAG", "Signature: 8a477f59");
        }),
    ];
    all_refused(cases, "install.not-ours");
}

#[test]
fn a_folder_with_an_invalid_state_or_marker_is_refused() {
    let cases: &[Case] = &[
        ("another program's state", |place| {
            place.file("to/state.json", "{\"version\": 4, \"resources\": []}").folder("to/versions/data");
        }),
        ("a state that is cut off", |place| {
            let state = state(|_| {});
            place.file("to/state.json", &state[..state.len() / 2]).folder("to/versions").file("to/.lock", "");
        }),
        ("an empty state", |place| {
            place.file("to/state.json", "");
        }),
        ("another schema", |place| {
            place.state(|state| state["schema"] = json!("gpubuild.installed/2"));
        }),
        ("a version in the parent folder", |place| {
            place.outside().state(|state| state["now"]["current"]["folder"] = json!("../../outside"));
        }),
        ("`..` in front of the name of a version", |place| {
            place
                .outside()
                .state(|state| state["before"]["previous"] = state["now"]["current"].clone())
                .state(|state| state["now"]["current"]["folder"] = json!(format!("../../outside/{VERSION}")));
        }),
        ("an absolute folder", |place| {
            place.state(|state| state["now"]["current"]["folder"] = json!(format!("/tmp/{VERSION}")));
        }),
        ("a nested folder", |place| {
            place.state(|state| state["now"]["current"]["folder"] = json!(format!("photos/{VERSION}")));
        }),
        ("a folder that is not a version", |place| {
            place.state(|state| state["now"]["current"]["folder"] = json!("photos"));
        }),
        ("a folder without a name", |place| {
            place.state(|state| state["now"]["current"]["folder"] = json!(""));
        }),
        ("a program outside", |place| {
            place.state(|state| state["now"]["current"]["program"] = json!("../../../outside/run"));
        }),
        ("an absolute program", |place| {
            place.state(|state| state["now"]["current"]["program"] = json!("/bin/true"));
        }),
        ("the state as a folder", |place| {
            place.file("to/state.json/x", "1");
        }),
        ("the marker as a folder", |place| {
            place.folder(&format!("to/{MARKER}"));
        }),
        ("a marker with other content", |place| {
            place.file(&format!("to/{MARKER}"), "{\"schema\":\"mine\"}").file("to/.gpubuild-abc123", "1");
        }),
        ("a marker with more content", |place| {
            place.file(&format!("to/{MARKER}"), &format!("{CONTENT}{CONTENT}")).folder("to/versions");
        }),
        ("a marker of another schema", |place| {
            place.file(&format!("to/{MARKER}"), "{\"schema\":\"gpubuild.install-folder/2\"}\n");
        }),
        ("a valid state beside a marker with other content", |place| {
            place.state(|_| {}).file(&format!("to/{MARKER}"), "notes");
        }),
    ];
    all_refused(cases, "install.not-ours");
}

#[test]
fn a_marked_folder_in_which_a_user_has_taken_a_name_is_refused() {
    let cases: &[Case] = &[
        ("a broken state", |place| {
            place.marker().file("to/state.json", "{").file(&format!("to/versions/{VERSION}/bin/tool"), "1");
        }),
        ("the state as a folder", |place| {
            place.marker().folder("to/state.json");
        }),
        ("the lock as a folder", |place| {
            place.marker().folder("to/.lock");
        }),
        ("`versions` as a file", |place| {
            place.marker().file("to/versions", "1");
        }),
        ("`current` as a folder", |place| {
            place.marker().file("to/current/thesis.txt", "1");
        }),
        ("`current` as a file", |place| {
            place.marker().file("to/current", "years of work");
        }),
        ("`.next` as a folder", |place| {
            place.marker().file("to/.next/thesis.txt", "1");
        }),
        ("`.next` as a file", |place| {
            place.state(|_| {}).file("to/.next", "years of work");
        }),
    ];
    all_refused(cases, "install.not-ours");
}

#[test]
fn links_instead_of_files_and_folders_are_refused() {
    let cases: &[Case] = &[
        ("a link to a folder with files", |place| {
            place.outside().link("to", "outside");
        }),
        ("a link to an empty folder", |place| {
            place.folder("empty").link("to", "empty");
        }),
        ("a dangling link", |place| {
            place.link("to", "absent");
        }),
        ("a link to a file", |place| {
            place.file("file", "1").link("to", "file");
        }),
        ("a link to an installation", |place| {
            place.file(&format!("outside/{MARKER}"), CONTENT).link("to", "outside");
        }),
        ("a link to a link", |place| {
            place.outside().link("one", "outside").link("to", "one");
        }),
        ("`versions` in a marked folder", |place| {
            place.outside().marker().link("to/versions", "../outside");
        }),
        ("`versions` in a folder with a state", |place| {
            place.outside().state(|_| {}).link("to/versions", "../outside");
        }),
        ("a dangling `versions`", |place| {
            place.marker().link("to/versions", "../absent");
        }),
        ("a version's folder", |place| {
            place.outside().marker().link(&format!("to/versions/{VERSION}"), "../../outside");
        }),
        ("a version's folder that the state names", |place| {
            let link = format!("to/versions/{VERSION}");
            place.outside().state(|_| {}).link(&link, &format!("../../outside/{VERSION}"));
        }),
        ("a version's folder to a file", |place| {
            place.outside().marker().link(&format!("to/versions/{VERSION}"), "../../outside/photos/1.jpg");
        }),
        ("the marker", |place| {
            place.file("outside/marker", CONTENT).link(&format!("to/{MARKER}"), "../outside/marker");
        }),
        ("a dangling marker", |place| {
            place.link(&format!("to/{MARKER}"), "../absent");
        }),
        ("the state", |place| {
            place.file("outside/state", &state(|_| {})).link("to/state.json", "../outside/state");
        }),
        ("the state in a marked folder", |place| {
            place.marker().file("outside/state", &state(|_| {})).link("to/state.json", "../outside/state");
        }),
        ("the lock", |place| {
            place.outside().marker().link("to/.lock", "../outside/photos/1.jpg");
        }),
        ("a dangling lock", |place| {
            place.outside().marker().link("to/.lock", "../outside/new");
        }),
    ];
    all_refused(cases, "install.link");
}

#[test]
fn a_read_only_folder_is_refused() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    Place(&world.path("place")).file("to/thesis.txt", "years of work");
    let mode = |mode| fs::set_permissions(world.path("place/to"), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    refused(&world, "a read-only folder", "to", "install.not-ours");
    // Else the folder can't be removed.
    mode(0o755);
}

#[test]
fn a_trailing_separator_does_not_hide_a_link() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    Place(&world.path("place")).folder("empty").link("to", "empty");
    for to in ["to/", "to//", "to/.", "to/./", "./to/"] {
        refused(&world, to, to, "install.link");
    }
}

/// The version that would be installed is behind a link, with its program.
#[test]
fn an_installed_version_that_became_a_link_is_refused() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    let to = world.at("place/to");
    world.install(&["--to", &to]).done();
    let current = fs::read_link(world.path("place/to/current")).unwrap();
    let folder = Path::new(&to).join(&current);
    fs::rename(&folder, world.path("place/outside")).unwrap();
    symlink(world.path("place/outside"), &folder).unwrap();
    refused(&world, "the same version", "to", "install.link");
    Release::plain("2.0.0", 2).write(&world, "release");
    refused(&world, "another version", "to", "install.link");
}

#[test]
fn only_what_gpubuild_creates_is_removed() {
    let world = World::new();
    let place = world.path("place");
    let place = Place(&place);
    place.outside().marker();
    let outside = snapshot(&world.path("place/outside"));
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
        place.file(&format!("to/{name}"), name);
    }
    let links = [".gpubuild-link12", "versions/.gpubuild-link12", "versions/link"];
    for name in links {
        place.link(&format!("to/{name}"), &world.at("place/outside"));
    }
    let removed = [
        ".gpubuild-Ab3xY9",
        "versions/.gpubuild-Ab3xY9/bin/tool",
        &format!("versions/{VERSION}/bin/tool"),
        &format!("versions/.gpubuild-gone-{VERSION}/bin/tool"),
    ];
    for name in removed {
        place.file(&format!("to/{name}"), "");
    }
    place.link("to/.next", &world.at("place/outside"));
    for (version, serial) in [("1.0.0", 1), ("2.0.0", 2), ("3.0.0", 3)] {
        Release::plain(version, serial).write(&world, "release");
        world.install(&["--to", "place/to"]).done();
    }
    for name in kept {
        assert_eq!(world.read(&format!("place/to/{name}")), name);
    }
    for name in links {
        assert!(world.path(&format!("place/to/{name}")).is_symlink(), "{name}");
    }
    for name in removed.iter().chain(&[".next"]) {
        assert!(world.path(&format!("place/to/{name}")).symlink_metadata().is_err(), "{name}");
    }
    assert_eq!(snapshot(&world.path("place/outside")), outside);
}

#[test]
fn a_marker_that_was_only_begun_is_accepted_and_completed() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    for length in [0, 1, CONTENT.len() / 2, CONTENT.len() - 1] {
        world.remove_folder("to");
        world.write(&format!("to/{MARKER}"), &CONTENT[..length]);
        world.install(&[]).done();
        assert_eq!(world.read(&format!("to/{MARKER}")), CONTENT, "{length} bytes");
        assert_eq!(world.installed(), "1.0.0\n");
    }
}

#[test]
fn an_installation_without_a_marker_gets_one() {
    let world = World::new();
    for (version, serial) in [("1.0.0", 1), ("2.0.0", 2)] {
        Release::plain(version, serial).write(&world, "release");
        world.install(&[]).done();
    }
    assert_eq!(world.read(&format!("to/{MARKER}")), CONTENT);
    world.remove(&format!("to/{MARKER}"));
    world.run(&["install", "--rollback", "--to", "to", "--json"]).done();
    assert_eq!(world.installed(), "1.0.0\n");
    Release::plain("3.0.0", 3).write(&world, "release");
    assert_eq!(world.install(&[]).done()["previous"]["version"], "1.0.0");
    assert_eq!(world.read(&format!("to/{MARKER}")), CONTENT);
}

#[test]
fn an_empty_folder_or_one_behind_a_linked_parent_is_accepted() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    let place = world.path("place");
    Place(&place).folder("disk/empty").link("home", "disk");
    for to in ["place/home/empty", "place/home/new", "place/home/new"] {
        world.install(&["--to", to]).done();
        assert_eq!(world.read(&format!("{to}/{MARKER}")), CONTENT);
    }
}

#[test]
fn concurrent_first_installations_all_succeed() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    for round in 0..6 {
        let to = format!("to{round}");
        std::thread::scope(|scope| {
            let install = || drop(world.install(&["--to", &to]).done());
            let all: Vec<_> = (0..4).map(|_| scope.spawn(install)).collect();
            for one in all {
                one.join().unwrap();
            }
        });
        assert_eq!(world.read(&format!("{to}/{MARKER}")), CONTENT);
    }
}
