//! A folder for projects of `gpubuild new`, and the commands of their READMEs. tests/projects uses it too.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::requirements::skip;

/// A folder in which cargo uses this repository instead of the published crate.
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

/// Exit status and output of a finished command.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Variables of the environment that would affect the build.
const UNSET_VARIABLES: [&str; 11] = [
    "GPUBUILD_BACKENDS",
    "GPUBUILD_MANIFEST",
    "GPUBUILD_BUILT",
    "GPUBUILD_SET",
    "GGML_CUDA",
    "GGML_VULKAN",
    "DOCS_RS",
    "CC",
    "CXX",
    "LLAMA_CPP_SOURCE",
    "WHISPER_CPP_SOURCE",
];

/// The target folder of this build, shared so that gpubuild is compiled once.
pub(crate) fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

impl Workspace {
    /// Prints why and returns `None` if CMake, Ninja, a C++ compiler or one of these programs is missing.
    pub(crate) fn new(further: &[&str]) -> Option<Self> {
        for program in ["cmake", "ninja", "c++"].iter().chain(further) {
            if !is_on_path(program) {
                skip("cmake", &format!("no {program}"));
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let workspace = Self { folder, env: Vec::new() };
        let patch = |part: &str| {
            let folder = format!("{}/crates/{part}", env!("CARGO_MANIFEST_DIR"));
            format!("gpubuild-{part} = {{ path = {} }}\n", toml_text(&folder))
        };
        let patches = format!("[patch.crates-io]\n{}{}", patch("build"), patch("link"));
        workspace.write(".cargo/config.toml", &patches);
        Some(workspace)
    }

    /// Sets a variable for all commands.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs `gpubuild new` with these arguments. The lock file of this repository pins crates that are available
    /// offline.
    pub(crate) fn make(&self, arguments: &[&str]) {
        let folder = arguments[0];
        let made = self.gpubuild(".", &[&["new"], arguments].concat());
        assert!(made.ok, "{made:#?}");
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
        std::fs::copy(lock, self.path(folder).join("Cargo.lock")).unwrap();
    }

    pub(crate) fn gpubuild(&self, folder: &str, arguments: &[&str]) -> RunResult {
        self.start(folder, env!("CARGO_BIN_EXE_gpubuild"), arguments)
    }

    /// Runs a program, isolated from the user's cache and network.
    pub(crate) fn start(&self, folder: &str, program: &str, arguments: &[&str]) -> RunResult {
        let is_gpubuild = program == "gpubuild";
        let mut command = Command::new(if is_gpubuild { env!("CARGO_BIN_EXE_gpubuild") } else { program });
        command.args(arguments).current_dir(self.path(folder));
        for name in UNSET_VARIABLES {
            command.env_remove(name);
        }
        command
            .env("CARGO_TARGET_DIR", target())
            // A command of a README may download sources; a build script must not.
            .env("CARGO_NET_OFFLINE", if is_gpubuild { "false" } else { "true" })
            .env("CARGO_TERM_COLOR", "never")
            // Build dependencies and dependencies are compiled once if both have no debug information.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("RUST_BACKTRACE", "0")
            .env("GPUBUILD_CACHE", self.path("cache"))
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
        let ran = RunResult {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        println!("$ {program} {}", arguments.join(" "));
        ran
    }

    /// Runs every command in the first code block of a README and returns their results.
    pub(crate) fn follow(&self, folder: &str, readme: &str) -> Vec<(String, RunResult)> {
        let text = self.read(&format!("{folder}/{readme}"));
        let (_, block) = text.split_once("```sh\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let commands: Vec<&str> = block.lines().collect();
        assert_eq!(commands.len(), 2, "{text}");
        let run = |line: &str| {
            // Text after `#` is a comment.
            let words: Vec<String> = shlex::Shlex::new(line).collect();
            let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let ran = self.start(folder, &words[0], &arguments);
            assert!(ran.ok, "{line}: {ran:#?}");
            (words.join(" "), ran)
        };
        commands.into_iter().map(run).collect()
    }

    /// Checks that clippy reports no warnings and that the workflow of `gpubuild ci` is valid.
    pub(crate) fn is_in_order(&self, folder: &str) {
        let arguments = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        let linted = self.start(folder, "cargo", &arguments);
        assert!(linted.ok, "{linted:#?}");
        for arguments in [["ci", "init"], ["ci", "verify"]] {
            let ran = self.gpubuild(folder, &arguments);
            assert!(ran.ok, "{ran:#?}");
        }
        let rows = self.gpubuild(folder, &["ci", "matrix", "--json"]).stdout;
        let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
        assert!(rows["include"].as_array().unwrap().len() >= 4, "{rows:#}");
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Removes the crates' outputs from the shared target folder.
        let Ok(entries) = std::fs::read_dir(target().join("gpubuild")) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
            if ours
                .into_iter()
                .any(|one| name.starts_with(&format!("{}-", one.file_name().to_string_lossy())))
            {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The rest of the line that starts with this prefix.
#[track_caller]
pub(crate) fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no `{start}` in {text}"))
}

/// A quoted TOML string.
pub(crate) fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

pub(crate) fn is_on_path(program: &str) -> bool {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(&name).is_file()))
}

/// Whether libclang can be loaded for bindings; prints why if it cannot.
pub(crate) fn has_libclang() -> bool {
    let host = gpubuild_host::RealHost::new();
    let found = gpubuild_detect::toolkit::libclang::find(&host).0.is_some();
    if !found {
        skip("libclang", "no libclang");
    }
    found
}
