//! `gpubuild self update`: the installed copy of gpubuild replaces itself with a signed release.
#![expect(clippy::disallowed_methods, reason = "tests start the installed program")]

use std::process::Command;

use serde_json::json;

use crate::release::{Release, key_pair, signed};
use crate::support::{RunResult, Sandbox};

const NOTHING: [&str; 0] = [];

/// A home in which a release of gpubuild is installed, whose program is the gpubuild under test.
pub(crate) struct Installed {
    pub(crate) sandbox: Sandbox,
    pub(crate) pair: minisign::KeyPair,
}

/// Writes a release of gpubuild, signed with this key.
fn publish(sandbox: &Sandbox, pair: &minisign::KeyPair, version: &str, serial: u64) {
    let folder = format!("release-{version}");
    Release::plain(version, serial)
        .write_changed(sandbox, &folder, |manifest| manifest["name"] = json!("gpubuild"));
    let manifest = format!("{folder}/manifest.json");
    sandbox.write(&format!("{manifest}.minisig"), signed(pair, &sandbox.read(&manifest)));
}

impl Installed {
    pub(crate) fn new() -> Self {
        let (sandbox, pair) = (Sandbox::new(), key_pair());
        publish(&sandbox, &pair, "1.0.0", 5);
        let key = pair.pk.to_base64();
        sandbox.install(&["--manifest", "release-1.0.0", "--key", &key]).done();
        let program = sandbox.path("to/current/bin/tool");
        std::fs::remove_file(&program).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_gpubuild"), &program).unwrap();
        Self { sandbox, pair }
    }

    /// The installed gpubuild updates itself, started through a link as from a folder of PATH.
    fn update(&self, release: &str, more: &[&str]) -> RunResult {
        self.update_as_text(release, &[more, &["--json"]].concat())
    }

    fn update_as_text(&self, release: &str, more: &[&str]) -> RunResult {
        self.update_with(&[], release, more)
    }

    pub(crate) fn update_with(&self, env: &[(&str, &str)], release: &str, more: &[&str]) -> RunResult {
        let link = self.sandbox.path("gpubuild");
        if !link.exists() {
            std::os::unix::fs::symlink(self.sandbox.path("to/current/bin/tool"), &link).unwrap();
        }
        let base = self.sandbox.command();
        let mut command = Command::new(link);
        command.env_clear().current_dir(self.sandbox.path(""));
        command.envs(base.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // Settings for other releases.
        command.env("GPUBUILD_VARIANT", "cuda13").env("GPUBUILD_BACKEND", "vulkan");
        command.envs(env.iter().copied());
        command.args(["self", "update", "--manifest", release]).args(more);
        RunResult::from(command.output().unwrap())
    }

    pub(crate) fn key(&self) -> String {
        self.pair.pk.to_base64()
    }

    /// The installed and the previous version.
    fn versions(&self) -> (String, String) {
        let list = self.sandbox.run(&["install", "--list", "--to", "to", "--json"]).done();
        let of = |name: &str| list["installed"][0][name]["version"].as_str().unwrap_or("none").to_owned();
        (of("current"), of("previous"))
    }
}

#[test]
fn signed_release_replaces_the_running_program_and_keeps_it() {
    let installed = Installed::new();
    publish(&installed.sandbox, &installed.pair, "1.1.0", 6);
    let result = installed.update("release-1.1.0", &["--key", &installed.key()]);
    assert_eq!(result.done()["version"], "1.1.0", "{result:?}");
    assert_eq!(installed.versions(), ("1.1.0".into(), "1.0.0".into()));
    assert_eq!(installed.sandbox.installed(), "1.1.0\n");
    // The previous version is the program that ran.
    installed.sandbox.run(&["install", "--rollback", "--no-start", "--to", "to", "--json"]).done();
    let again = installed.update_as_text("release-1.1.0", &["--key", &installed.key()]);
    assert_eq!((again.exit, again.stdout.as_str()), (Some(0), "gpubuild 1.1.0 is installed, 1.0.0 before\n"));
}

#[test]
fn release_without_the_right_signature_changes_nothing() {
    let installed = Installed::new();
    let before = installed.sandbox.tree("to");
    publish(&installed.sandbox, &key_pair(), "1.1.0", 6);
    installed.update("release-1.1.0", &["--key", &installed.key()]).refused(1, "manifest.other-key");
    // A local folder needs a key as well.
    installed.update("release-1.1.0", &NOTHING).refused(2, "manifest.no-key");
    installed.sandbox.remove("release-1.1.0/manifest.json.minisig");
    installed.update("release-1.1.0", &["--key", &installed.key()]).refused(1, "manifest.unsigned");
    publish(&installed.sandbox, &installed.pair, "1.2.0", 7);
    let key = installed.key();
    for required in [&["--require-provenance"][..], &["--source-uri", "https://example.org/gpubuild"]] {
        let arguments = [&["--key", key.as_str()], required].concat();
        installed.update("release-1.2.0", &arguments).refused(1, "install.no-provenance");
    }
    publish(&installed.sandbox, &installed.pair, "0.9.0", 4);
    installed.update("release-0.9.0", &["--key", &installed.key()]).refused(1, "manifest.older");
    Release::plain("2.0.0", 9).write_signed(&installed.sandbox, "other", &installed.pair);
    installed.update("other", &["--key", &installed.key()]).refused(1, "manifest.other-name");
    assert!(before == installed.sandbox.tree("to"), "the installation has changed");
}

#[test]
fn variable_with_the_key_of_other_releases_is_not_used() {
    let installed = Installed::new();
    let before = installed.sandbox.tree("to");
    publish(&installed.sandbox, &installed.pair, "1.1.0", 6);
    let key = installed.key();
    let with_variable = || installed.update_with(&[("GPUBUILD_KEY", &key)], "release-1.1.0", &["--json"]);
    with_variable().refused(2, "manifest.no-key").says(&["--key", "GPUBUILD_KEY"]);
    assert!(before == installed.sandbox.tree("to"), "the installation has changed");
    // The variable is no reason to refuse a key that the user has chosen.
    let settings = |name: &str| format!("[releases.{name}]\nkey = \"{key}\"\n");
    installed.sandbox.write("home/.config/gpubuild/config.toml", settings("infer"));
    with_variable().refused(2, "manifest.no-key");
    installed.sandbox.write("home/.config/gpubuild/config.toml", settings("gpubuild"));
    let other = key_pair().pk.to_base64();
    let result = installed.update_with(&[("GPUBUILD_KEY", &other)], "release-1.1.0", &["--json"]);
    assert_eq!(result.done()["version"], "1.1.0", "{result:?}");
}

/// A copy of gpubuild with the record of another installer beside it.
fn update_copy(program: &str, records: &[(&str, &str)]) -> RunResult {
    let sandbox = Sandbox::new();
    for (path, text) in records {
        sandbox.write(path, text);
    }
    let path = sandbox.path(program);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let own = env!("CARGO_BIN_EXE_gpubuild");
    std::fs::hard_link(own, &path).or_else(|_| std::fs::copy(own, &path).map(drop)).unwrap();
    let mut command = Command::new(&path);
    command.args(["self", "update", "--json"]).env("HOME", sandbox.path("home")).env_remove("CARGO_HOME");
    let result = RunResult::from(command.output().unwrap());
    let shown = |text: String| text.replace(&sandbox.at(""), "/");
    RunResult { stdout: shown(result.stdout), stderr: shown(result.stderr), exit: result.exit }
}

#[test]
fn copies_of_other_installers_are_refused_with_their_command() {
    const CARGO: &str = "[v1]\n\"gpubuild 0.1.0 (registry+x)\" = [\"gpubuild\"]\n";
    const INSTALLER: &str = "v/lib/python3.12/site-packages/gpubuild-0.1.0.dist-info/INSTALLER";
    let (venv, python) = ("v/bin/gpubuild", ("v/bin/python3", ""));
    for (program, records, command) in [
        (
            "home/.cargo/bin/gpubuild",
            [("home/.cargo/.crates.toml", CARGO), python],
            "`cargo install gpubuild`",
        ),
        ("r/bin/gpubuild", [("r/.crates.toml", CARGO), python], "`cargo install --root /r gpubuild`"),
        (venv, [(INSTALLER, "pip\n"), python], "`/v/bin/python3 -m pip install --upgrade gpubuild`"),
        (venv, [(INSTALLER, "uv"), python], "`uv pip install --python /v/bin/python3 --upgrade gpubuild`"),
        (venv, [(INSTALLER, "uv"), ("v/uv-receipt.toml", "")], "`uv tool upgrade gpubuild`"),
        (venv, [(INSTALLER, "pip"), ("v/pipx_metadata.json", "")], "`pipx upgrade gpubuild`"),
    ] {
        update_copy(program, &records).refused(2, "self.other-installer").says(&[command]);
    }
}

#[test]
fn copies_without_a_record_are_refused() {
    update_copy("usr/bin/gpubuild", &[]).refused(2, "self.not-installed");
    let other = "[v1]\n\"gpubuild-extra 0.1.0 (registry+x)\" = [\"gpubuild\"]\n";
    update_copy("r/bin/gpubuild", &[("r/.crates.toml", other)]).refused(2, "self.not-installed");
    // The names of folders alone do not make an installation.
    update_copy("o/versions/1/bin/gpubuild", &[]).refused(2, "self.not-installed");
    update_copy("o/versions/1/bin/gpubuild", &[("o/state.json", "{}")]).refused(2, "self.not-installed");
}
