//! Older releases are refused, even if one of the two memories of the newest serial is lost or damaged.
#![expect(clippy::disallowed_methods, reason = "tests damage files of the program")]

use std::fs;

use crate::release::{Release, key_pair};
use crate::support::{RunResult, Sandbox, recorded};

const RECORD: &str = "cache/releases/tool.json";
const STATE: &str = "to/state.json";

/// A folder in which the signed release 8 is installed, and in which release 7 is offered.
struct OlderOffer {
    sandbox: Sandbox,
    key: String,
}

impl OlderOffer {
    fn new() -> Self {
        let (sandbox, pair) = (Sandbox::new(), key_pair());
        let key = pair.pk.to_base64();
        Release::plain("8.0.0", 8).write_signed(&sandbox, "new", &pair);
        Release::plain("7.0.0", 7).write_signed(&sandbox, "old", &pair);
        sandbox.install(&["--manifest", "new", "--key", &key]).done();
        assert!(sandbox.path(RECORD).is_file() && sandbox.path(STATE).is_file());
        Self { sandbox, key }
    }

    /// Offers release 7.
    fn install(&self, more: &[&str]) -> RunResult {
        self.sandbox.install(&[&["--manifest", "old", "--key", &self.key], more].concat())
    }

    /// Checks that release 7 is refused with this id, and that release 8 is still installed.
    #[track_caller]
    fn refused(&self, exit: i32, id: &str) {
        self.install(&[]).refused(exit, id);
        assert_eq!(self.sandbox.installed(), "8.0.0\n");
    }
}

#[test]
fn an_older_release_is_refused_by_each_memory_alone_and_installed_on_request() {
    let offer = OlderOffer::new();
    let sandbox = &offer.sandbox;
    offer.refused(1, "manifest.older");
    // The installation alone.
    sandbox.remove_folder("cache");
    offer.refused(1, "manifest.older");
    // An unsigned release is not an exception.
    sandbox.install(&["--manifest", "old"]).refused(1, "manifest.older");
    // The names of the versions' folders, if the state is lost too.
    let state = sandbox.read(STATE);
    sandbox.remove(STATE);
    offer.refused(1, "manifest.older");
    sandbox.write(STATE, state);
    let ran = offer.install(&["--allow-older"]);
    ran.done();
    ran.says(&["its serial is 7, which is older than the serial 8", "[manifest.older]", "--allow-older"]);
    assert_eq!(sandbox.installed(), "7.0.0\n");
    // Permission for one call is not permission for the next one.
    offer.install(&[]).refused(1, "manifest.older");
}

#[test]
fn the_record_alone_refuses_an_older_release() {
    let offer = OlderOffer::new();
    offer.sandbox.remove_folder("to");
    offer.install(&[]).refused(1, "manifest.older");
    let host = recorded("debian-12-bare");
    let resolve = |more: &[&str]| {
        let arguments = ["resolve", "--json", "--manifest", "old", "--key", &offer.key, "--host", &host];
        offer.sandbox.run(&[&arguments, more].concat())
    };
    resolve(&[]).refused(1, "manifest.older");
    let ran = resolve(&["--allow-older"]);
    ran.done();
    ran.says(&["[manifest.older]", "--allow-older"]);
    resolve(&[]).refused(1, "manifest.older");
}

#[test]
fn an_older_release_on_request_does_not_make_the_newest_one_forgotten() {
    let offer = OlderOffer::new();
    let sandbox = &offer.sandbox;
    // Both memories are lost, and the folders of the versions are left.
    sandbox.remove_folder("cache");
    sandbox.remove(STATE);
    let ran = offer.install(&["--allow-older"]);
    ran.done();
    ran.says(&["serial 8", "[manifest.older]"]);
    assert_eq!(sandbox.installed(), "7.0.0\n");
    offer.install(&[]).refused(1, "manifest.older");
    let record = sandbox.read(RECORD);
    // The installation alone, and the record alone.
    sandbox.remove_folder("cache");
    offer.install(&[]).refused(1, "manifest.older");
    sandbox.write(RECORD, record);
    sandbox.remove_folder("to");
    offer.install(&[]).refused(1, "manifest.older");
    // A new folder learns the serial of the record.
    offer.install(&["--allow-older"]).done();
    sandbox.remove_folder("cache");
    offer.install(&[]).refused(1, "manifest.older");
    // The newest release is accepted again, although its content was not recorded.
    offer.install(&["--allow-older"]).done();
    sandbox.install(&["--manifest", "new", "--key", &offer.key]).done();
    assert_eq!(sandbox.installed(), "8.0.0\n");
}

#[test]
fn resolve_knows_the_installation_in_the_data_folder() {
    let offer = OlderOffer::new();
    let host = recorded("debian-12-bare");
    let run = |more: &[&str]| {
        offer.sandbox.run(&[&["--json", "--key", &offer.key, "--host", &host], more].concat())
    };
    let of = |command: &str, folder: &str| {
        let arguments = [command, "--json", "--manifest", folder, "--key", &offer.key, "--host", &host];
        offer.sandbox.run(&arguments)
    };
    of("install", "new").done();
    offer.sandbox.remove_folder("cache");
    of("resolve", "old").refused(1, "manifest.older");
    offer.sandbox.write("home/.local/share/gpubuild/tool/state.json", "{");
    of("resolve", "old").refused(2, "install.state-damaged");
    let listed = run(&["install", "--list"]);
    assert_ne!(listed.exit, Some(0), "{listed:#?}");
}

#[test]
fn a_damaged_record_is_an_error_until_it_is_replaced_on_request() {
    let offer = OlderOffer::new();
    let sandbox = &offer.sandbox;
    let content = sandbox.read(RECORD);
    let damages = [
        String::new(),
        content[..content.len() / 2].to_owned(),
        content.replace("\"serial\":8", "\"serial\":7"),
        content.replace("\"serial\":8", "\"serial\":0"),
        "null".to_owned(),
    ];
    for damaged in damages {
        sandbox.write(RECORD, &damaged);
        offer.refused(2, "manifest.record-damaged");
    }
    let ran = sandbox.install(&["--manifest", "new", "--key", &offer.key, "--allow-older"]);
    ran.done();
    ran.says(&["[manifest.record-damaged]", "--allow-older"]);
    assert_eq!(sandbox.read(RECORD), content);
    offer.refused(1, "manifest.older");
}

/// Every state file of an installation, deleted, truncated at some positions, and with each of some bytes changed. Whatever is
/// damaged, release 7 is never installed.
#[test]
fn no_damage_to_one_state_file_allows_an_older_release() {
    let offer = OlderOffer::new();
    let sandbox = &offer.sandbox;
    let backup = |name: &str| fs::read(sandbox.path(name)).unwrap();
    for name in [RECORD, STATE, "to/gpubuild-install.json", "to/.lock"] {
        let content = backup(name);
        let mut damages: Vec<Option<Vec<u8>>> = vec![None];
        damages.extend(
            [0, content.len() / 2, content.len().saturating_sub(1)].map(|end| Some(content[..end].to_vec())),
        );
        for at in (0..content.len()).step_by(content.len() / 12 + 1) {
            let mut changed = content.clone();
            changed[at] ^= 1;
            damages.push(Some(changed));
        }
        for damaged in damages {
            match &damaged {
                Some(bytes) => fs::write(sandbox.path(name), bytes).unwrap(),
                None => fs::remove_file(sandbox.path(name)).unwrap(),
            }
            let ran = offer.install(&[]);
            assert!(matches!(ran.exit, Some(1 | 2)), "{name} {damaged:?}: {ran:#?}");
            assert_eq!(sandbox.installed(), "8.0.0\n", "{name} {damaged:?}");
            fs::write(sandbox.path(name), &content).unwrap();
        }
    }
    // The link to the current version.
    sandbox.remove("to/current");
    offer.install(&[]).refused(1, "manifest.older");
}

#[test]
fn a_changed_digit_of_the_installed_serial_is_recognised() {
    let offer = OlderOffer::new();
    let sandbox = &offer.sandbox;
    let state = sandbox.read(STATE);
    sandbox.write(STATE, state.replace("\"serial\":8", "\"serial\":6"));
    sandbox.remove_folder("cache");
    offer.refused(2, "install.state-damaged");
    for command in [["install", "--rollback"], ["install", "--list"]] {
        sandbox.run(&[&command[..], &["--to", "to", "--json"]].concat()).refused(2, "install.state-damaged");
    }
    // A state that an older gpubuild wrote has no checksum.
    let mut value: serde_json::Value = serde_json::from_str(&state).unwrap();
    let object = value.as_object_mut().unwrap();
    assert!(object.remove("checksum").is_some() && object.remove("newest").is_some());
    sandbox.write(STATE, value.to_string());
    offer.refused(1, "manifest.older");
}
