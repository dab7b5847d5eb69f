//! Folders with a gpubuild.toml over somebody's sources, the command run in them, and Rust programs that link the result.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A folder with a gpubuild.toml. It stays between runs of the tests, so that a second run only looks whether all is there.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    name: String,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new(name: &str, profile: &str, source: &Path, rest: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("places").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let place = Self { folder, name: name.to_owned() };
        place.describe(profile, source, rest);
        place
    }

    pub(crate) fn describe(&self, profile: &str, source: &Path, rest: &str) {
        let text = format!(
            "schema = 1\n[project]\nname = \"{}\"\nsource = \"{}\"\nprofile = \"{profile}\"\n{rest}",
            self.name,
            source.display()
        );
        std::fs::write(self.folder.join("gpubuild.toml"), text).unwrap();
    }

    pub(crate) fn gpubuild(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.current_dir(&self.folder).args(arguments).env("GPUBUILD_CACHE", self.folder.join("cache"));
        for name in ["GPUBUILD_BACKENDS", "GGML_VULKAN", "GGML_CUDA", "GPUBUILD_PROJECT"] {
            command.env_remove(name);
        }
        run(&mut command)
    }

    /// Builds and tells how long it took.
    pub(crate) fn build(&self, backends: &str) -> Ran {
        let started = Instant::now();
        let ran = self.gpubuild(&["build", "--backends", backends, "--no-binary", "--jobs", "2"]);
        println!("{}: {backends} built in {:.1} s", self.name, started.elapsed().as_secs_f64());
        assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
        ran
    }

    pub(crate) fn manifest(&self) -> serde_json::Value {
        let path = self.folder.join(".gpubuild").join(&self.name).join("manifest.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// A Rust program that calls `int probe(const char *)` of a C file, linked with the lines of `gpubuild link` and GNU ld,
    /// which unlike others takes libraries in their order only. What it prints is returned.
    pub(crate) fn run_rust(
        &self,
        probe: &str,
        includes: &[PathBuf],
        argument: &str,
        env: &[(&str, &str)],
    ) -> String {
        let program = self.folder.join("program");
        std::fs::create_dir_all(program.join("src")).unwrap();
        let object = program.join("probe.o");
        let mut cc = Command::new("cc");
        cc.args(["-c", "-O1", "-o"])
            .arg(&object)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/projects").join(probe));
        cc.args(includes.iter().map(|folder| format!("-I{}", folder.display())));
        assert_ran(&run(&mut cc));
        let archive = program.join("libprobe.a");
        let _ = std::fs::remove_file(&archive);
        assert_ran(&run(Command::new("ar").arg("crs").arg(&archive).arg(&object)));
        let lines = self.gpubuild(&["link", "--format", "cargo"]);
        assert_ran(&lines);
        let lines = format!(
            "cargo::rustc-link-search=native={}\ncargo::rustc-link-lib=static=probe\n{}cargo::rustc-link-arg=-fuse-ld=bfd\n",
            program.display(),
            lines.stdout
        );
        std::fs::write(
            program.join("Cargo.toml"),
            "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n",
        )
        .unwrap();
        std::fs::write(program.join("build.rs"), format!("fn main() {{ print!(\"{{}}\", {lines:?}); }}\n"))
            .unwrap();
        std::fs::write(program.join("src/main.rs"), MAIN).unwrap();
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--offline"]).current_dir(&program).env_remove("RUSTFLAGS");
        cargo.env("CARGO_TARGET_DIR", program.join("target"));
        assert_ran(&run(&mut cargo));
        let mut started = Command::new(program.join("target/debug/program"));
        started.arg(argument).envs(env.iter().copied());
        let ran = run(&mut started);
        assert_ran(&ran);
        ran.stdout
    }
}

const MAIN: &str = "use std::ffi::{CString, c_char, c_int};\n\
unsafe extern \"C\" {\n    fn probe(argument: *const c_char) -> c_int;\n}\n\
fn main() {\n    let argument = CString::new(std::env::args().nth(1).unwrap_or_default()).unwrap();\n\
    std::process::exit(unsafe { probe(argument.as_ptr()) });\n}\n";

pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ran {
        ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn assert_ran(ran: &Ran) {
    assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
}

/// Whether Vulkan programs can be built and run here; says so if they cannot.
pub(crate) fn has_vulkan() -> bool {
    let has = |path: &str| Path::new(path).exists();
    let found =
        has("/usr/include/vulkan/vulkan.hpp") && has("/usr/bin/glslc") && has("/usr/share/vulkan/icd.d");
    if !found {
        println!("skipped: no Vulkan headers, glslc or driver");
    }
    found
}
