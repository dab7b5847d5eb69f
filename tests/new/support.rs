//! A folder with projects that `gpubuild new` makes, and the commands of their READMEs. Also used by tests/projects.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder in which cargo finds this library instead of the published one.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Variables of the machine that would change what is built.
const OF_THE_MACHINE: [&str; 11] = [
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

/// The same target folder as that of this build: this library is compiled once for all of them.
pub(crate) fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

impl Desk {
    /// `None`, after saying so, where there is no CMake, Ninja or C++ compiler, or one of these programs is missing.
    pub(crate) fn new(further: &[&str]) -> Option<Self> {
        for program in ["cmake", "ninja", "c++"].iter().chain(further) {
            if !is_on_path(program) {
                assert!(!requires("cmake"), "GPUBUILD_REQUIRE names cmake, and there is no {program}");
                println!("skipped: no {program}");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let desk = Self { folder, env: Vec::new() };
        let patch = |part: &str| {
            let folder = format!("{}/crates/{part}", env!("CARGO_MANIFEST_DIR"));
            format!("gpubuild-{part} = {{ path = {} }}\n", toml_text(&folder))
        };
        let patches = format!("[patch.crates-io]\n{}{}", patch("build"), patch("link"));
        desk.write(".cargo/config.toml", &patches);
        Some(desk)
    }

    /// Every command gets this variable.
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

    /// `gpubuild new` with these arguments. The lock of this repository pins crates that are here without a network.
    pub(crate) fn make(&self, arguments: &[&str]) {
        let folder = arguments[0];
        let made = self.gpubuild(".", &[&["new"], arguments].concat());
        assert!(made.ok, "{made:#?}");
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
        std::fs::copy(lock, self.path(folder).join("Cargo.lock")).unwrap();
    }

    pub(crate) fn gpubuild(&self, folder: &str, arguments: &[&str]) -> Ran {
        self.start(folder, env!("CARGO_BIN_EXE_gpubuild"), arguments)
    }

    /// A program away from the user's cache and network.
    pub(crate) fn start(&self, folder: &str, program: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path(folder));
        for name in OF_THE_MACHINE {
            command.env_remove(name);
        }
        command
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TERM_COLOR", "never")
            // What is a build dependency here is a dependency there: without debug information they are one.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("RUST_BACKTRACE", "0")
            .env("GPUBUILD_CACHE", self.path("cache"))
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
        let ran = Ran {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        println!("$ {program} {}", arguments.join(" "));
        ran
    }

    /// Every command of the first block of a README, each with what it printed.
    pub(crate) fn follow(&self, folder: &str, readme: &str) -> Vec<(String, Ran)> {
        let text = self.read(&format!("{folder}/{readme}"));
        let (_, block) = text.split_once("```sh\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let commands: Vec<&str> = block.lines().collect();
        assert_eq!(commands.len(), 2, "{text}");
        let run = |line: &str| {
            // What stands behind `#` is for people.
            let words: Vec<String> = shlex::Shlex::new(line).collect();
            let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let ran = self.start(folder, &words[0], &arguments);
            assert!(ran.ok, "{line}: {ran:#?}");
            (words.join(" "), ran)
        };
        commands.into_iter().map(run).collect()
    }

    /// No warning of clippy, and the workflow that `gpubuild ci` writes holds.
    pub(crate) fn is_in_order(&self, folder: &str) {
        let words = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        let linted = self.start(folder, "cargo", &words);
        assert!(linted.ok, "{linted:#?}");
        for words in [["ci", "init"], ["ci", "verify"]] {
            let ran = self.gpubuild(folder, &words);
            assert!(ran.ok, "{ran:#?}");
        }
        let rows = self.gpubuild(folder, &["ci", "matrix", "--json"]).stdout;
        let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
        assert!(rows["include"].as_array().unwrap().len() >= 4, "{rows:#}");
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // What is built outlives the crates: here it would pile up.
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

/// The line of a text that starts so, without its start.
#[track_caller]
pub(crate) fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no `{start}` in {text}"))
}

/// A text in quotes, as TOML has it.
pub(crate) fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

pub(crate) fn requires(what: &str) -> bool {
    std::env::var("GPUBUILD_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item.trim() == what))
}

pub(crate) fn is_on_path(program: &str) -> bool {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(&name).is_file()))
}

/// Whether libclang can be loaded for bindings; says so if it cannot.
pub(crate) fn has_libclang() -> bool {
    let host = gpubuild_host::RealHost::new();
    let found = gpubuild_detect::toolkit::libclang::find(&host).0.is_some();
    assert!(found || !requires("libclang"), "GPUBUILD_REQUIRE names libclang, and there is none");
    if !found {
        println!("skipped: no libclang");
    }
    found
}

/// Makes a Git repository of a folder, which `git clone` then finds under an address.
pub(crate) fn publish(desk: &mut Desk, folder: &str, address: &str) {
    let who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
    for words in [&["init", "--quiet"][..], &["add", "--all", "--force"], &["commit", "--quiet", "-m", "all"]]
    {
        let ran = desk.start(folder, "git", &[&who, words].concat());
        assert!(ran.ok, "{ran:#?}");
    }
    let here = desk.path(folder);
    let config = format!("[url \"{}\"]\n\tinsteadOf = {address}\n", here.display());
    desk.write("gitconfig", &config);
    let config = desk.path("gitconfig");
    desk.set("GIT_CONFIG_GLOBAL", config.to_str().unwrap());
}
