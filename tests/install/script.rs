//! `packaging/install.sh` with a local server: what it installs, and that it refuses what it cannot verify.
#![cfg(target_arch = "x86_64")]
#![expect(clippy::disallowed_methods, reason = "tests start the script and write their own files")]

use std::path::Path;
use std::process::Command;

use gpubuild_exec::store::sha256;
use serde_json::json;

use crate::release::{Release, key_pair, signed};
use crate::requirements::skip;
use crate::server::{Reply, Server, files};
use crate::support::{RunResult, Sandbox, tree};

const ARCHIVE: &str = "gpubuild-x86_64-unknown-linux-gnu.tar.gz";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/install.sh");

/// The files of a release, as a server has them.
struct Publication {
    sandbox: Sandbox,
    key: String,
    files: Vec<(String, Vec<u8>)>,
}

impl Publication {
    /// `None` if a program that the script needs is missing.
    fn new() -> Option<Self> {
        let missing = ["curl", "openssl", "tar", "gzip"].into_iter().find(|name| !is_on_path(name));
        if let Some(name) = missing {
            skip("openssl", &format!("no {name}"));
            return None;
        }
        let (sandbox, pair) = (Sandbox::new(), key_pair());
        // The first copy is a script, because the program itself takes long to compress.
        sandbox.write_program(
            "first/bin/gpubuild",
            &format!("exec {} \"$@\"\n", env!("CARGO_BIN_EXE_gpubuild")),
        );
        let archive = sandbox.at(ARCHIVE);
        let packed = Command::new("tar").args(["-czf", &archive, "-C", &sandbox.at("first"), "bin"]).status();
        assert!(packed.unwrap().success());
        let archive = std::fs::read(archive).unwrap();
        let sums = format!("{}  {ARCHIVE}\n{}  other.tar.gz\n", sha256(&archive), sha256(b""));
        Release::plain("1.0.0", 5)
            .write_changed(&sandbox, "release", |manifest| manifest["name"] = json!("gpubuild"));
        let manifest = sandbox.read("release/manifest.json");
        sandbox.write("release/manifest.json.minisig", signed(&pair, &manifest));
        let mut files: Vec<(String, Vec<u8>)> = tree(&sandbox.path("release"))
            .into_iter()
            .map(|(name, content)| (format!("release/{name}"), content))
            .collect();
        files.push(("SHA256SUMS.minisig".to_owned(), signed(&pair, &sums).into_bytes()));
        files.push(("SHA256SUMS".to_owned(), sums.into_bytes()));
        files.push((ARCHIVE.to_owned(), archive));
        Some(Self { key: pair.pk.to_base64(), sandbox, files })
    }

    fn file(&mut self, name: &str) -> &mut Vec<u8> {
        &mut self.files.iter_mut().find(|(known, _)| known == name).unwrap().1
    }

    /// Starts the script with a server that has these files.
    fn install(&self) -> RunResult {
        self.install_from(&Server::start(files(self.files.clone())), &[])
    }

    fn install_from(&self, server: &Server, env: &[(&str, &str)]) -> RunResult {
        let command = self.sandbox.command();
        let known = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let output = Command::new("sh")
            .arg(SCRIPT)
            .env_clear()
            .envs(known)
            .env("GPUBUILD_FILES", server.url(""))
            .env("GPUBUILD_RELEASE", server.url("release"))
            .env("GPUBUILD_KEY", &self.key)
            .envs(env.iter().copied())
            .output();
        RunResult::from(output.unwrap())
    }

    /// Checks that the script failed with this text and wrote nothing.
    #[track_caller]
    fn refused(&self, result: &RunResult, text: &str) {
        assert_eq!(result.exit, Some(1), "{result:#?}");
        result.says(&[text, "hint:"]);
        assert!(!self.sandbox.path("home").exists(), "{:?}", self.sandbox.tree("home"));
    }
}

fn is_on_path(name: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(name).is_file())
}

#[test]
fn script_installs_the_release_and_links_it() {
    let Some(publication) = Publication::new() else { return };
    let result = publication.install();
    assert_eq!(result.exit, Some(0), "{result:#?}");
    result.says(&["hint: add", "gpubuild 1.0.0"]);
    let link = publication.sandbox.path("home/.local/bin/gpubuild");
    let program = publication.sandbox.path("home/.local/share/gpubuild/gpubuild/current/bin/tool");
    assert_eq!(std::fs::read_link(&link).unwrap(), program);
    assert_eq!(Command::new(&link).output().unwrap().stdout, b"1.0.0\n");
    // The script can be started again, for a newer release.
    let again = publication.install();
    assert_eq!(again.exit, Some(0), "{again:#?}");
}

#[test]
fn changed_files_are_refused() {
    let Some(mut publication) = Publication::new() else { return };
    let archive = publication.file(ARCHIVE).clone();
    publication.file(ARCHIVE)[20] ^= 1;
    publication
        .refused(&publication.install(), "the sha256 of gpubuild-x86_64-unknown-linux-gnu.tar.gz is wrong");
    // Sums that fit the changed archive do not fit the signature.
    let changed = sha256(publication.file(ARCHIVE));
    let sums = String::from_utf8(publication.file("SHA256SUMS").clone()).unwrap();
    *publication.file("SHA256SUMS") = sums.replace(&sha256(&archive), &changed).into_bytes();
    publication.refused(&publication.install(), "the signature of SHA256SUMS is not valid");
    *publication.file("SHA256SUMS") = sums.clone().into_bytes();
    *publication.file(ARCHIVE) = archive;
    *publication.file("SHA256SUMS.minisig") = signed(&key_pair(), &sums).into_bytes();
    publication.refused(&publication.install(), "the signature of SHA256SUMS is not valid");
    *publication.file("SHA256SUMS.minisig") = b"untrusted comment: none\n".to_vec();
    publication.refused(&publication.install(), "the signature of SHA256SUMS is not valid");
}

#[test]
fn platforms_without_a_program_and_missing_files_are_refused() {
    let Some(mut publication) = Publication::new() else { return };
    publication.sandbox.write_program("other/uname", "[ \"$1\" = -s ] && echo Plan9 || echo mips\n");
    let path = format!("{}:{}", publication.sandbox.at("other"), std::env::var("PATH").unwrap());
    let server = Server::start(files(publication.files.clone()));
    let result = publication.install_from(&server, &[("PATH", &path)]);
    publication.refused(&result, "the release has no gpubuild-mips-Plan9.tar.gz");
    let result = publication.install_from(&server, &[("GPUBUILD_KEY", "@KEY@")]);
    publication.refused(&result, "this copy of the script has no key");
    publication.files.retain(|(name, _)| name != "SHA256SUMS.minisig");
    let result = publication.install();
    publication.refused(&result, "SHA256SUMS.minisig");
    result.says(&["failed to download", "404"]);
}

#[test]
fn cut_downloads_are_refused() {
    let Some(publication) = Publication::new() else { return };
    for name in [ARCHIVE, "SHA256SUMS"] {
        let serve = files(publication.files.clone());
        let server = Server::start(move |request| {
            let reply: Reply = serve(request);
            if request.path.ends_with(name) { reply.cut(40) } else { reply }
        });
        let result = publication.install_from(&server, &[]);
        publication.refused(&result, &format!("failed to download {}{name}", server.url("")));
        result.says(&["bytes remaining"]);
    }
}

#[test]
fn script_that_was_cut_does_nothing() {
    let Some(publication) = Publication::new() else { return };
    let text = std::fs::read_to_string(SCRIPT).unwrap();
    for length in (0..text.len() - "main\n".len()).step_by(97) {
        publication.sandbox.write("cut.sh", &text[..length]);
        let output = Command::new("sh")
            .arg(publication.sandbox.path("cut.sh"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", publication.sandbox.path("home"))
            .output();
        assert!(output.is_ok() && !publication.sandbox.path("home").exists(), "{length}");
    }
}

#[test]
fn files_of_the_user_are_not_replaced() {
    let Some(publication) = Publication::new() else { return };
    publication.sandbox.write("home/.local/bin/gpubuild", "of the user");
    let result = publication.install();
    assert_eq!(result.exit, Some(1), "{result:#?}");
    result.says(&["exists and is not a link"]);
    assert_eq!(publication.sandbox.read("home/.local/bin/gpubuild"), "of the user");
    assert!(!publication.sandbox.path("home/.local/share").exists());
}

/// Runs a step of action.yml as a runner does. Returns its output and the files through which steps pass values.
fn step(publication: &Publication, server: &Server, name: &str, inputs: &[(&str, &str)]) -> RunResult {
    let at = |name: &str| publication.sandbox.at(name);
    let command = publication.sandbox.command();
    let known = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    for file in ["output", "env", "path"] {
        publication.sandbox.write(&format!("runner/{file}"), "");
    }
    let output = Command::new("bash")
        .arg(Path::new(SCRIPT).with_file_name("action.sh"))
        .arg(name)
        .current_dir(publication.sandbox.path("runner"))
        .env_clear()
        .envs(known)
        .env("RUNNER_TEMP", at("runner"))
        .env("GITHUB_OUTPUT", at("runner/output"))
        .env("GITHUB_ENV", at("runner/env"))
        .env("GITHUB_PATH", at("runner/path"))
        .env("GPUBUILD_KEY", &publication.key)
        .env("FILES", server.url(""))
        .env("RELEASE", server.url("release"))
        .envs(inputs.iter().copied())
        .output();
    RunResult::from(output.unwrap())
}

#[test]
fn steps_of_the_action_install_gpubuild_and_check_backends() {
    let Some(publication) = Publication::new() else { return };
    let server = Server::start(files(publication.files.clone()));
    let result = step(&publication, &server, "install", &[("VERSION", "latest")]);
    assert_eq!(result.exit, Some(0), "{result:#?}");
    let read = |file: &str| publication.sandbox.read(&format!("runner/{file}"));
    // The installed program of this release prints its version only.
    assert_eq!(
        read("output"),
        format!("version=1.0.0\ncache={}\n", publication.sandbox.at("runner/gpubuild-cache"))
    );
    assert_eq!(read("path").trim(), publication.sandbox.at("runner/gpubuild-bin"));
    assert_eq!(read("env"), format!("GPUBUILD_CACHE={}\n", publication.sandbox.at("runner/gpubuild-cache")));

    let link = publication.sandbox.path("runner/gpubuild-bin/gpubuild");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gpubuild"), &link).unwrap();
    let prepared = step(&publication, &server, "prepare", &[("BACKENDS", "cpu"), ("CUDA", "")]);
    assert!(prepared.exit == Some(0) && prepared.stdout.contains("cpu"), "{prepared:#?}");
    let unknown = step(&publication, &server, "prepare", &[("BACKENDS", "gpu"), ("CUDA", "")]);
    assert_eq!(unknown.exit, Some(2), "{unknown:#?}");
    let unknown = step(&publication, &server, "prepare", &[("BACKENDS", ""), ("CUDA", "13.0.77.0")]);
    assert_eq!(unknown.exit, Some(2), "{unknown:#?}");
    let invalid = step(&publication, &server, "install", &[("VERSION", "main")]);
    assert_eq!(invalid.exit, Some(2), "{invalid:#?}");
}

/// `action.yml` runs these steps with these variables, and nothing else but the cache.
#[test]
fn action_runs_the_tested_steps() {
    let action = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml")).unwrap();
    let runs: Vec<&str> = action.lines().filter_map(|line| line.trim().strip_prefix("run: ")).collect();
    assert_eq!(
        runs,
        ["install", "prepare"].map(|step| format!("bash \"$ACTION/packaging/action.sh\" {step}"))
    );
    for name in ["VERSION", "FILES", "RELEASE", "BACKENDS", "CUDA"] {
        let input = format!("{name}: ${{{{ inputs.{} }}}}", name.to_lowercase());
        assert!(action.contains(&input), "{input}");
    }
    assert_eq!(action.matches("uses:").count(), 1, "the cache");
}

#[test]
fn scripts_are_short() {
    for name in ["install.sh", "install.ps1"] {
        let path = Path::new(SCRIPT).with_file_name(name);
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        assert!(lines <= 60, "{name} has {lines} lines");
    }
}
