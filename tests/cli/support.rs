//! Runs the command in its own folders, with only the environment variables that it needs.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) use crate::requirements::{requires, skip};

/// The source of `add` in [`Sandbox::with_library`].
pub(crate) const ADDER: &str = "#include <math.h>\ndouble add(double x) { return cbrt(x) + 1.0; }\n";

/// A temporary folder with a project.
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
    /// Creates an empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates a project with one C file for a profile.
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

    /// Creates a CMake project with one C file whose library `adder` links libm. Prints why and returns `None` if
    /// CMake, Ninja or a C compiler is missing; panics if `GPUBUILD_REQUIRE` names `cmake`.
    pub(crate) fn with_library() -> Option<Self> {
        for tool in ["cmake", "ninja"] {
            if !is_on_path(tool) {
                skip("cmake", &format!("no {tool}"));
                return None;
            }
        }
        Self::with_c_library()
    }

    /// Like [`Sandbox::with_library`], but CMake and Ninja may be missing.
    pub(crate) fn with_c_library() -> Option<Self> {
        if !is_on_path("cc") {
            skip("cmake", "no cc");
            return None;
        }
        let sandbox = Self::new();
        sandbox.write(
            "vendor/CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder STATIC adder.c)\n\
             target_link_libraries(adder PUBLIC m)\n",
        );
        sandbox.write("vendor/adder.c", ADDER);
        sandbox.write(
            "gpubuild.toml",
            "schema = 1\n[project]\nname = \"adder\"\nsource = \"vendor\"\ntargets = [\"adder\"]\n",
        );
        Some(sandbox)
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    pub(crate) fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }

    /// All files except those below a folder, sorted.
    pub(crate) fn files_outside(&self, folder: &str) -> Vec<PathBuf> {
        let skipped = self.path(folder);
        let entries = walkdir::WalkDir::new(self.folder.path()).sort_by_file_name();
        let entries = entries.into_iter().filter_entry(move |entry| entry.path() != skipped);
        entries.map(|entry| entry.unwrap().into_path()).collect()
    }

    /// Runs another program in the folder.
    pub(crate) fn start(&self, argv: &[&str]) -> RunResult {
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).current_dir(self.folder.path());
        command.env("GPUBUILD_CACHE", self.path("cache")).env_remove("GPUBUILD_BACKENDS");
        command.env("GPUBUILD_STORE", "off");
        RunResult::from(command.output().unwrap_or_else(|error| panic!("{argv:?}: {error}")))
    }

    /// Sends a signal to a process that this test started.
    #[cfg(unix)]
    pub(crate) fn send(&self, signal: &str, process: u32) {
        self.start(&["sh", "-c", &format!("kill -s {signal} {process}")]).succeeds();
    }

    /// Runs with a PATH that has only these programs. Prints why and returns `None` without symlinks.
    pub(crate) fn run_with_only(&self, programs: &[&str], arguments: &[&str]) -> Option<RunResult> {
        Some(RunResult::from(self.command_with_only(programs)?.args(arguments).output().unwrap()))
    }

    /// The command with a PATH that has only these programs. Prints why and returns `None` without symlinks.
    pub(crate) fn command_with_only(&self, programs: &[&str]) -> Option<Command> {
        let folder = self.path("only");
        std::fs::create_dir_all(&folder).unwrap();
        for program in programs {
            let path = std::env::var_os("PATH")?;
            let found = std::env::split_paths(&path).map(|at| at.join(program)).find(|at| at.is_file());
            #[cfg(unix)]
            if let Some(found) = found.filter(|_| !folder.join(program).is_symlink()) {
                std::os::unix::fs::symlink(found, folder.join(program)).unwrap();
            }
            #[cfg(not(unix))]
            if found.is_some() {
                skip("cmake", "no symbolic links");
                return None;
            }
        }
        let mut command = self.command();
        command.env("PATH", &folder);
        Some(command)
    }

    /// The command without arguments, in this folder and with its own cache.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.current_dir(self.folder.path()).env_clear().env("GPUBUILD_CACHE", self.path("cache"));
        command.env("XDG_CONFIG_HOME", self.path("config"));
        // The store is off by default; tests of the store enable it.
        command.env("GPUBUILD_STORE", "off");
        // Rust is not always in the home folder, for example in container images.
        for kept in ["PATH", "HOME", "RUSTUP_HOME", "CARGO_HOME", "SystemRoot", "TEMP", "TMP", "USERPROFILE"]
        {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command
    }

    /// Runs with the settings of uv and pip on this machine, for tests that download.
    #[cfg(target_os = "linux")]
    pub(crate) fn run_online(&self, arguments: &[&str]) -> RunResult {
        let is_theirs = |name: &str| ["UV_", "PIP_", "SSL_CERT"].iter().any(|start| name.starts_with(start));
        let theirs = std::env::vars().filter(|(name, _)| is_theirs(name));
        RunResult::from(self.command().envs(theirs).args(arguments).output().unwrap())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunResult {
        RunResult::from(self.command().args(arguments).output().unwrap())
    }
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
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self:#?}"))
    }

    pub(crate) fn is_success(&self) -> bool {
        self.exit == Some(0)
    }

    /// Checks that the command succeeds.
    #[track_caller]
    pub(crate) fn succeeds(&self) -> &Self {
        assert_eq!(self.exit, Some(0), "{self:#?}");
        self
    }

    /// The lines on standard output, each a JSON document.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Checks the exit code and the error id, and that standard output is empty.
    #[track_caller]
    pub(crate) fn fails(&self, exit: i32, id: &str) -> &Self {
        assert_eq!(self.exit, Some(exit), "{self:#?}");
        assert!(self.stderr.contains(&format!("[{id}]")), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
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

/// Whether a program is in a folder of PATH.
pub(crate) fn is_on_path(program: &str) -> bool {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(&name).is_file()))
}
