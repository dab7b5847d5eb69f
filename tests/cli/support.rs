//! Starts the command in folders of its own, with nothing of this machine's environment but what it needs.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder with a project in it.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<i32>,
}

impl Sandbox {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder with a project of one C file for the given profile.
    pub(crate) fn with_project(profile: &str) -> Self {
        let sandbox = Self::new();
        sandbox.write("vendor/CMakeLists.txt", "cmake_minimum_required(VERSION 3.24)\nproject(x C)\n");
        sandbox.write(
            "gpubuild.toml",
            &format!(
                "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"{profile}\"\n"
            ),
        );
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// The command, ready to be given arguments: started here, with a cache of its own.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.current_dir(self.folder.path()).env_clear().env("GPUBUILD_CACHE", self.path("cache"));
        for kept in ["PATH", "HOME", "SystemRoot", "TEMP", "TMP", "USERPROFILE"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command().args(arguments).output().unwrap())
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            exit: output.status.code(),
        }
    }
}

impl Ran {
    /// The one document on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:#?}"))
    }

    /// It ended with this code, said this id, and printed no answer.
    #[track_caller]
    pub(crate) fn fails(&self, exit: i32, id: &str) -> &Self {
        assert_eq!(self.exit, Some(exit), "{self:#?}");
        assert!(self.stderr.contains(&format!("[{id}]")), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        self
    }

    /// Standard error has all of these.
    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` is missing in {self:#?}");
        }
        self
    }
}

/// A recorded machine of the repository.
pub(crate) fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(format!("{name}.toml"));
    path.to_str().unwrap().to_owned()
}
