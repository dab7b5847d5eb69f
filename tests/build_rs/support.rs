//! A workspace of a -sys crate and a program in a temporary folder. All workspaces use the target folder of this
//! repository, so that gpubuild is compiled once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpubuild_host::{
    Command, CommandOutput, HostInfo, HostPath, ReadFiles, RealHost, RunPrograms, WriteFiles, find_program,
};

/// A workspace in a temporary folder.
pub(crate) struct Workspace {
    pub(crate) host: RealHost,
    folder: tempfile::TempDir,
    target: HostPath,
    /// Held by the active workspace: workspaces share the path of the program, and cargo would block anyway.
    _turn: MutexGuard<'static, ()>,
}

static ACTIVE: Mutex<()> = Mutex::new(());

/// The result of a cargo run.
pub(crate) struct RunResult {
    pub(crate) output: CommandOutput,
}

/// Variables of the environment that would affect the build.
const UNSET_VARIABLES: [&str; 8] = [
    "GPUBUILD_BACKENDS",
    "GPUBUILD_MANIFEST",
    "GPUBUILD_SET",
    "GGML_CUDA",
    "DOCS_RS",
    "CC",
    "CXX",
    "CUDA_PATH",
];

const ROOT: &str =
    "[workspace]\nmembers = [\"*-sys\", \"app\"]\nresolver = \"3\"\n[profile.dev]\ndebug = 0\n";

/// Every crate asks for the features that bindgen needs. Otherwise everything that derives is compiled once with and once without them.
const SYN: &str = "[build-dependencies]\nsyn = { version = \"3\", features = [\"full\", \"extra-traits\", \"visit-mut\"] }\n";

/// Creates a workspace with these files. Prints why and returns `None` if CMake, Ninja or a C++ compiler is missing.
pub(crate) fn workspace(files: &[(&str, &str)]) -> Option<Workspace> {
    let host = RealHost::new();
    if ["cmake", "ninja", "c++"].iter().any(|name| find_program(&host, name).is_empty()) {
        crate::requirements::skip("cmake", "no CMake, Ninja or C++ compiler");
        return None;
    }
    let target = host.path(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let turn = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let workspace = Workspace { host, folder: tempfile::tempdir().unwrap(), target, _turn: turn };
    workspace.write("Cargo.toml", ROOT);
    let lock = workspace.host.path(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    workspace.write("Cargo.lock", &workspace.host.read_text(&lock).unwrap());
    for (name, text) in files {
        let text = text.replace("@GPUBUILD@", env!("CARGO_MANIFEST_DIR"));
        workspace.write(name, &text.replace("[build-dependencies]\n", SYN));
    }
    Some(workspace)
}

impl Workspace {
    pub(crate) fn path(&self, name: &str) -> HostPath {
        self.host.canonical(&self.host.path(self.folder.path().to_str().unwrap())).unwrap().join(name)
    }

    /// The cargo target folder.
    pub(crate) fn target(&self) -> &HostPath {
        &self.target
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.host.write(&self.path(name), text.as_bytes()).unwrap();
    }

    /// Runs cargo with these arguments and variables, isolated from the user's cache and network.
    pub(crate) fn cargo(&self, arguments: &[&str], variables: &[(&str, &str)]) -> RunResult {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--offline"]).collect();
        self.start(&arguments, variables)
    }

    /// Runs `cargo rustc` with flags for the program only, so that nothing else is recompiled.
    pub(crate) fn rustc(&self, arguments: &[&str], flags: &[&str]) -> RunResult {
        let start = ["rustc", "--offline"].iter().chain(arguments).chain(&["--"]).chain(flags);
        self.start(&start.copied().collect::<Vec<_>>(), &[])
    }

    /// Runs cargo in another folder with the same target folder.
    pub(crate) fn cargo_in(
        &self,
        folder: &HostPath,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> RunResult {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--offline"]).collect();
        self.start_in(folder, &arguments, variables)
    }

    fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> RunResult {
        self.start_in(&self.path("."), arguments, variables)
    }

    fn start_in(&self, folder: &HostPath, arguments: &[&str], variables: &[(&str, &str)]) -> RunResult {
        let mut command = Command::new("cargo", Duration::from_secs(580))
            .args(arguments.iter().copied())
            .current_dir(folder.clone())
            .env("CARGO_TARGET_DIR", self.target.as_str())
            .env("GPUBUILD_CACHE", self.path("cache").as_str())
            .env("CARGO_TERM_COLOR", "never");
        for name in UNSET_VARIABLES.iter().filter(|name| variables.iter().all(|(other, _)| other != *name)) {
            command = command.env_remove(*name);
        }
        for (name, value) in variables {
            command = command.env(*name, *value);
        }
        RunResult { output: self.host.run(&command).unwrap() }
    }

    /// Runs the program and returns its output.
    pub(crate) fn app(&self) -> String {
        let program = self.target.join("debug/app");
        let output = self.host.run(&Command::new(program.as_str(), Duration::from_secs(60))).unwrap();
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        output.stdout.trim().to_owned()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Removes the crates' outputs from the shared target folder.
        for shared in [self.target.join("gpubuild"), self.target.join("aarch64-unknown-linux-gnu/gpubuild")] {
            for name in self.host.list_matching(&shared, "brs-*").unwrap_or_default() {
                let _ = self.host.remove(&shared.join(&name));
            }
        }
    }
}

impl RunResult {
    /// Whether cargo ran the build script of a crate; needs `-v`.
    pub(crate) fn ran_script_of(&self, krate: &str) -> bool {
        let start = format!("/build/{krate}-");
        self.output.stderr.lines().any(|line| {
            line.contains("Running `") && line.contains(&start) && line.contains("build-script-build`")
        })
    }

    pub(crate) fn success(self) -> Self {
        assert!(self.output.success(), "{}{}", self.output.stdout, self.output.stderr);
        self
    }

    pub(crate) fn failure(self) -> Self {
        assert!(!self.output.success(), "{}{}", self.output.stdout, self.output.stderr);
        self
    }
}

/// A -sys crate with a small library, and a program that calls it.
pub(crate) const SMALL: &[(&str, &str)] = &[
    (
        "x-sys/Cargo.toml",
        "[package]\nname = \"x-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"x\"\n[features]\ncuda = []\nsycl = []\n[build-dependencies]\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n",
    ),
    ("x-sys/build.rs", "fn main() {\n    gpubuild_build::Build::new().link();\n}\n"),
    (
        "x-sys/gpubuild.toml",
        "schema = 1\n[project]\nname = \"brs-x\"\nsource = \"native\"\ntargets = [\"x\"]\n[backends.cuda]\noptions = { X_CUDA = \"ON\" }\n[backends.sycl]\noptions = { X_SYCL = \"ON\" }\n",
    ),
    ("x-sys/src/lib.rs", "unsafe extern \"C\" {\n    pub fn x_answer() -> i32;\n}\n"),
    (
        "x-sys/native/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(x C CXX)\nadd_library(x STATIC x.c y.cpp)\ntarget_include_directories(x PUBLIC include)\n",
    ),
    ("x-sys/native/x.c", "#include \"x.h\"\nint y(void);\nint x_answer(void) { return X + y(); }\n"),
    (
        "x-sys/native/y.cpp",
        "#include <string>\nextern \"C\" int y() { return (int)std::string(\"a\").size(); }\n",
    ),
    ("x-sys/native/include/x.h", "#define X 41\n"),
    ("x-sys/native/notes.txt", "nothing reads this\n"),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[features]\ncuda = [\"x-sys/cuda\"]\nsycl = [\"x-sys/sycl\"]\n[dependencies]\nx-sys = { path = \"../x-sys\" }\n",
    ),
    ("app/src/main.rs", "fn main() {\n    println!(\"{}\", unsafe { x_sys::x_answer() });\n}\n"),
];
