//! Runs the command in its own folder.
#![expect(clippy::disallowed_methods, reason = "tests start the program and read its files")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder that replaces the user's home, configuration and cache.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// Exit code and output of a finished command.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<i32>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path as text.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Writes an executable script.
    pub(crate) fn write_program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.write(name, format!("#!/bin/sh\n{script}"));
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }

    pub(crate) fn remove_folder(&self, name: &str) {
        std::fs::remove_dir_all(self.path(name)).unwrap_or_default();
    }

    /// All files below a folder with their contents, and symlinks with their targets.
    pub(crate) fn tree(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        tree(&self.path(name))
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.path("home")).env("GPUBUILD_CACHE", self.path("cache"));
        command.env("XDG_RUNTIME_DIR", self.path("run"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunResult {
        self.run_with(&[], arguments)
    }

    pub(crate) fn run_with(&self, env: &[(&str, &str)], arguments: &[&str]) -> RunResult {
        RunResult::from(self.command().envs(env.iter().copied()).args(arguments).output().unwrap())
    }

    /// Runs `install --json` from the folder `release` into the folder `to`, for a host without a GPU.
    pub(crate) fn install(&self, more: &[&str]) -> RunResult {
        let host = recorded("debian-12-bare");
        let mut arguments = vec!["install", "--json"];
        for usual in [["--to", "to"], ["--host", &host], ["--manifest", "release"]] {
            if !more.contains(&usual[0]) {
                arguments.extend(usual);
            }
        }
        arguments.extend(more);
        self.run(&arguments)
    }

    /// The output of the program installed in `to`.
    pub(crate) fn installed(&self) -> String {
        let program = self.path("to/current/bin/tool");
        let output = Command::new(program).output();
        output.map(|output| String::from_utf8(output.stdout).unwrap()).unwrap_or_default()
    }
}

pub(crate) fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(folder).min_depth(1).sort_by_file_name() {
        let Ok(entry) = entry else { continue };
        let name = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        if entry.path_is_symlink() {
            found.push((
                name,
                std::fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes(),
            ));
        } else if entry.file_type().is_file() {
            found.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

impl From<Output> for RunResult {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            exit: output.status.code(),
        }
    }
}

impl RunResult {
    /// The only JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:#?}"))
    }

    /// Checks that the command succeeded and returns its document.
    #[track_caller]
    pub(crate) fn done(&self) -> Value {
        assert_eq!(self.exit, Some(0), "{self:#?}");
        self.json()
    }

    /// Checks the exit code, and the error id in the document and on standard error.
    #[track_caller]
    pub(crate) fn refused(&self, exit: i32, id: &str) -> &Self {
        assert_eq!(self.exit, Some(exit), "{id}: {self:#?}");
        assert_eq!(self.json()["error"]["id"], id, "{self:#?}");
        assert!(self.stderr.contains(&format!("[{id}]")), "{self:#?}");
        self
    }

    /// Checks that standard error contains all texts.
    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` is missing in {self:#?}");
        }
        self
    }
}

/// The path of a recorded host of this repository.
pub(crate) fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(format!("{name}.toml"));
    path.to_str().unwrap().to_owned()
}
