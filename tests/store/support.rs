//! Clones of one project on machines that share a store.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::requirements::skip;

/// A clone of the project, with an own local store.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    remote: String,
    variables: Vec<(String, String)>,
}

/// The output of a command that has succeeded or failed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn new(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { success: output.status.success(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert!(self.success, "{self:?}");
        self
    }

    /// Checks that standard error contains a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no `{text}` in {self:?}");
        self
    }

    /// Whether the tree was compiled, and not restored.
    pub(crate) fn compiled(&self) -> bool {
        self.stderr.contains("] configured in")
    }

    /// The number of warnings with an id of the shared store.
    pub(crate) fn warnings(&self) -> usize {
        let has_id = |line: &str| line.contains("[remote.") || line.contains("[net.tls]");
        self.stderr.lines().filter(|line| line.contains("warning") && has_id(line)).count()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Long enough for a server that answers, on any machine.
const PATIENT: &str = "timeout = \"100s\"\nbudget = \"600s\"";

/// For servers that do not answer.
const IMPATIENT: &str = "timeout = \"3s\"\nbudget = \"60s\"";

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The path of an installed server; otherwise the test is skipped.
pub(crate) fn installed(program: &str, requirement: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    if found.is_none() {
        skip(requirement, &format!("no {program}"));
    }
    found
}

impl Machine {
    /// A clone whose shared store has this URL. `None` without the tools of a build.
    pub(crate) fn new(remote: &str) -> Option<Self> {
        for tool in ["cmake", "ninja", "cc"] {
            if !is_on_path(tool) {
                skip("cmake", &format!("no {tool}"));
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder, remote: remote.to_owned(), variables: Vec::new() };
        machine.write(
            "vendor/CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.16)\nproject(adder C)\nadd_library(adder STATIC adder.c more.c)\n\
             add_library(twice SHARED twice.c)\n",
        );
        machine.write("vendor/adder.c", "double add(double x) { return x + 1.0; }\n");
        machine.write("vendor/more.c", "int more(void) { return 7; }\n");
        machine.write("vendor/twice.c", "int twice(int x) { return 2 * x; }\n");
        machine.write(
            "gpubuild.toml",
            &format!(
                "schema = 1\n[project]\nname = \"adder\"\nsource = \"vendor\"\ntargets = [\"adder\", \"twice\"]\n[cache]\n{PATIENT}\n"
            ),
        );
        Some(machine)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn writing(self) -> Self {
        self.with("GPUBUILD_REMOTE_WRITE", "1")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Adds lines to `[cache]` of the project file.
    pub(crate) fn setting(&self, lines: &str) {
        let path = self.path("gpubuild.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{text}{lines}\n")).unwrap();
    }

    /// Waits only seconds for the server.
    pub(crate) fn impatient(&self) {
        let path = self.path("gpubuild.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replace(PATIENT, IMPATIENT)).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.args(arguments).current_dir(self.folder.path());
        for name in ["GPUBUILD_BACKENDS", "GPUBUILD_OFFLINE", "CARGO_NET_OFFLINE", "GPUBUILD_STORE"] {
            command.env_remove(name);
        }
        command.env("GPUBUILD_CACHE", self.path("cache")).env("GPUBUILD_REMOTE", &self.remote);
        command.env("HOME", self.path("home"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::new(&self.command(arguments).output().unwrap())
    }

    pub(crate) fn build(&self) -> Ran {
        self.run(&["build", "--explain"]).succeeds()
    }

    /// The size of the files of the only entry in the local store.
    pub(crate) fn entry_bytes(&self) -> u64 {
        let files = walkdir::WalkDir::new(self.path("cache/store/v1/trees")).into_iter().flatten();
        let files = files.filter(|file| file.path().parent().is_some_and(|parent| parent.ends_with("files")));
        files.map(|file| file.metadata().unwrap().len()).sum()
    }

    /// Builds with a file system of this size for the entries of the local store. The last line of standard output starts with `left:`
    /// and lists the entries afterwards. `None` if no file system can be mounted.
    pub(crate) fn build_with_small_store(&self, size: u64) -> Option<Ran> {
        if !is_on_path("unshare") {
            skip("mount", "no unshare");
            return None;
        }
        let trees = self.path("cache/store/v1/trees");
        std::fs::create_dir_all(&trees).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size} none '{trees}' 2>/dev/null || exit 99\n\
             '{program}' build --explain || exit 1\necho left: $(ls -A '{trees}' | grep -v '[.]lock$')",
            trees = trees.display(),
            program = env!("CARGO_BIN_EXE_gpubuild"),
        );
        let mut start = Command::new("unshare");
        start.args(["--mount", "--map-root-user", "sh", "-c", &script]).current_dir(self.folder.path());
        for (name, value) in self.command(&[]).get_envs() {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        let output = start.output().unwrap();
        if output.status.code() == Some(99) || String::from_utf8_lossy(&output.stderr).contains("unshare") {
            skip("mount", "no file system can be mounted");
            return None;
        }
        Some(Ran::new(&output))
    }

    /// Removes the build folder and the local store.
    pub(crate) fn forget(&self) {
        for name in [".gpubuild", "target", "cache/store"] {
            let _ = std::fs::remove_dir_all(self.path(name));
        }
    }

    /// The built libraries with their content.
    pub(crate) fn libraries(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in walkdir::WalkDir::new(self.folder.path()).sort_by_file_name() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_ours = !entry.path().starts_with(self.path("cache"));
            if is_ours && matches!(name.as_str(), "libadder.a" | "libtwice.so") {
                found.push((name, std::fs::read(entry.path()).unwrap()));
            }
        }
        found
    }

    /// The complete entries and the leftovers of interrupted transfers in the local store.
    pub(crate) fn entries(&self) -> (usize, usize) {
        let names = |folder: &Path| -> Vec<String> {
            let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
            all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let names = names(&self.path("cache/store/v1/trees"));
        let leftovers = names.iter().filter(|name| name.starts_with('.')).count();
        (names.len() - leftovers, leftovers)
    }
}
