//! Projects with a gpubuild.toml for third-party sources, and Rust programs that link them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use gpubuild_host::{HostInfo, Os, RealHost};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::glue;
use gpubuild_plan::link;

/// What is compiled and linked is tested, not how fast it runs.
pub(crate) const QUICK: &str = "\
options.CMAKE_C_FLAGS_RELEASE = \"-O0 -DNDEBUG\"
options.CMAKE_CXX_FLAGS_RELEASE = \"-O0 -DNDEBUG\"
";

/// Keys that compile several sources as one, because most of the time goes into headers. Not every project allows it.
pub(crate) const UNITY: &str = "\
options.CMAKE_UNITY_BUILD = \"ON\"
options.CMAKE_UNITY_BUILD_BATCH_SIZE = \"12\"
";

/// A folder with a gpubuild.toml. It is kept between test runs, so that a second run only checks that everything is
/// up to date.
pub(crate) struct ProjectFolder {
    pub(crate) folder: PathBuf,
    name: String,
}

/// Exit status and output of a finished command.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProjectFolder {
    pub(crate) fn new(name: &str, profile: &str, source: &Path, rest: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("places").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let project = Self { folder, name: name.to_owned() };
        project.describe(profile, source, rest);
        project
    }

    pub(crate) fn describe(&self, profile: &str, source: &Path, rest: &str) {
        let text = format!(
            "schema = 1\n[project]\nname = \"{}\"\nsource = \"{}\"\nprofile = \"{profile}\"\n{QUICK}{rest}",
            self.name,
            source.display()
        );
        std::fs::write(self.folder.join("gpubuild.toml"), text).unwrap();
    }

    pub(crate) fn gpubuild(&self, arguments: &[&str]) -> RunResult {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command
            .current_dir(&self.folder)
            .args(arguments)
            .env("GPUBUILD_CACHE", self.folder.with_file_name("cache"));
        for name in ["GPUBUILD_BACKENDS", "GGML_VULKAN", "GGML_CUDA", "GPUBUILD_PROJECT"] {
            command.env_remove(name);
        }
        run(&mut command)
    }

    /// Builds the project and prints how long it took.
    pub(crate) fn build(&self, backends: &str) -> RunResult {
        let started = Instant::now();
        let ran = self.gpubuild(&["build", "--backends", backends, "--no-binary", "--jobs", "2"]);
        println!("{}: {backends} built in {:.1} s", self.name, started.elapsed().as_secs_f64());
        assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
        ran
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join(".gpubuild").join(&self.name).join("manifest.json")
    }

    pub(crate) fn manifest(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.manifest_path()).unwrap()).unwrap()
    }

    /// Links a Rust program with GNU ld and returns its output.
    pub(crate) fn run_rust(&self, probes: &[Probe<'_>], env: &[(&str, &str)]) -> String {
        let mut started = Command::new(self.link_rust(probes, Libraries::WhereTheyWereBuilt));
        started.args(probes.iter().map(|probe| probe.argument)).envs(env.iter().copied());
        let ran = run(&mut started);
        assert_ran(&ran);
        ran.stdout
    }

    /// Links a Rust program that calls `int probe(const char *)` of C files in order, with the output of `gpubuild
    /// link` and GNU ld, which depends on the order of libraries.
    pub(crate) fn link_rust(&self, probes: &[Probe<'_>], libraries: Libraries) -> PathBuf {
        let program = self.folder.join("program");
        std::fs::create_dir_all(program.join("src")).unwrap();
        let archive = program.join("libprobe.a");
        let _ = std::fs::remove_file(&archive);
        for (index, probe) in probes.iter().enumerate() {
            let object = program.join(format!("probe{index}.o"));
            let mut cc = Command::new("cc");
            cc.args(["-c", "-O1", &format!("-Dprobe=probe{index}"), "-o"]).arg(&object);
            cc.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/projects").join(probe.file));
            cc.args(probe.includes.iter().map(|folder| format!("-I{}", folder.display())));
            assert_ran(&run(&mut cc));
            assert_ran(&run(Command::new("ar").arg("crs").arg(&archive).arg(&object)));
        }
        let host = RealHost::new();
        let manifest = Manifest::read(&host, &host.path(self.manifest_path().to_str().unwrap())).unwrap();
        let lines = match libraries {
            Libraries::WhereTheyWereBuilt => {
                let lines = self.gpubuild(&["link", "--format", "cargo"]);
                assert_ran(&lines);
                lines.stdout
            }
            Libraries::BesideProgram => {
                let directives = link::directives(&manifest, Os::Linux).beside_program(Os::Linux);
                link::cargo_lines(&directives).join("\n") + "\n"
            }
        };
        let modules = program.join(glue::FILE_NAME);
        let code = manifest.cargo.and_then(|cargo| cargo.modules);
        std::fs::write(&modules, code.as_deref().unwrap_or(gpubuild_link::internal::NO_MODULES)).unwrap();
        let lines = format!(
            "cargo::rustc-link-search=native={}\ncargo::rustc-link-lib=static=probe\n{lines}\
             cargo::rustc-link-arg=-fuse-ld=bfd\ncargo::rustc-env={}={}\n",
            program.display(),
            glue::VARIABLE,
            modules.display()
        );
        std::fs::write(
            program.join("Cargo.toml"),
            "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n",
        )
        .unwrap();
        std::fs::write(program.join("build.rs"), format!("fn main() {{ print!(\"{{}}\", {lines:?}); }}\n"))
            .unwrap();
        std::fs::write(program.join("src/main.rs"), main_of(probes.len())).unwrap();
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--offline"]).current_dir(&program).env_remove("RUSTFLAGS");
        cargo.env("CARGO_TARGET_DIR", program.join("target"));
        assert_ran(&run(&mut cargo));
        program.join("target/debug/program")
    }
}

/// Where a program searches for shared libraries.
#[derive(Clone, Copy)]
pub(crate) enum Libraries {
    WhereTheyWereBuilt,
    BesideProgram,
}

/// A C file with a function that a program calls.
pub(crate) struct Probe<'a> {
    pub(crate) file: &'a str,
    pub(crate) includes: Vec<PathBuf>,
    /// The argument, usually a path.
    pub(crate) argument: &'a str,
}

fn main_of(probes: usize) -> String {
    let declared: Vec<String> =
        (0..probes).map(|one| format!("    fn probe{one}(argument: *const c_char) -> c_int;\n")).collect();
    let declared = declared.concat();
    let called: Vec<String> = (0..probes).map(|one| format!("probe{one}")).collect();
    format!(
        "use std::ffi::{{CString, c_char, c_int}};\nmod backends {{ include!(env!(\"GPUBUILD_MODULES_RS\")); }}\nunsafe extern \"C\" {{\n{declared}}}\n\
         type Probe = unsafe extern \"C\" fn(*const c_char) -> c_int;\n\
         fn main() {{\n    backends::load().unwrap();\n    let probes: [Probe; {probes}] = [{}];\n    \
         for (probe, argument) in probes.into_iter().zip(std::env::args().skip(1)) {{\n        \
         let argument = CString::new(argument).unwrap();\n        let code = unsafe {{ probe(argument.as_ptr()) }};\n        \
         if code != 0 {{\n            std::process::exit(code);\n        }}\n    }}\n}}\n",
        called.join(", ")
    )
}

pub(crate) fn run(command: &mut Command) -> RunResult {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    RunResult {
        ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn assert_ran(ran: &RunResult) {
    assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
}

/// Whether Vulkan programs can be built and run here; prints why if they cannot.
pub(crate) fn has_vulkan() -> bool {
    let has = |path: &str| Path::new(path).exists();
    let found =
        has("/usr/include/vulkan/vulkan.hpp") && has("/usr/bin/glslc") && has("/usr/share/vulkan/icd.d");
    if !found {
        crate::requirements::skip("vulkan", "no Vulkan headers, glslc or driver");
    }
    found
}
