//! Backends as modules: the program contains none and loads those beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::running::{assert_alive, assert_close, devices, headers, numbers, write};
use crate::support::{Libraries, Probe, ProjectFolder, RunResult, has_vulkan, run};
use crate::{gguf, sources};

/// A program with its runtime files, as it would be shipped.
struct Package {
    folder: PathBuf,
    model: String,
}

impl Package {
    fn new(program: &Path, runtime: &Path, model: String) -> Self {
        let folder = program.with_file_name("package");
        let _ = std::fs::remove_dir_all(&folder);
        assert!(Command::new("cp").arg("-r").arg(runtime).arg(&folder).status().unwrap().success());
        std::fs::copy(program, folder.join("program")).unwrap();
        Self { folder, model }
    }

    /// Runs the program in a folder with an empty environment.
    fn start(&self, from: &Path, layers: &str) -> RunResult {
        let mut command = Command::new(self.folder.join("program"));
        command.arg(&self.model).current_dir(from).env_clear();
        run(command.env("PROBE_LAYERS", layers).env("GGML_VK_VISIBLE_DEVICES", "0"))
    }

    fn succeeds(&self, from: &Path, layers: &str) -> String {
        let ran = self.start(from, layers);
        assert!(ran.ok, "{ran:?}");
        ran.stdout
    }

    fn remove(&self, module: &str) {
        std::fs::remove_file(self.folder.join(module)).unwrap();
    }
}

/// The loaded modules whose names have this prefix.
fn modules(output: &str, start: &str) -> Vec<String> {
    let names = output.lines().filter_map(|line| line.strip_prefix("module "));
    names.filter(|name| name.starts_with(start)).map(str::to_owned).collect()
}

#[test]
fn llama_loads_backend_modules_from_any_working_directory() {
    if !sources::wanted() || !has_vulkan() {
        return;
    }
    let source = sources::llama();
    let rest = "linkage = \"dynamic\"\n[backends.cpu]\nvariants = true\n";
    let project = ProjectFolder::new("llama-dynamic", "llama", &source, rest);
    project.build("cpu,vulkan");
    let probe = Probe { file: "llama.c", includes: headers(&source), argument: "" };
    let program = project.link_rust(&[probe], Libraries::BesideProgram);
    let model = write(&project, "random.gguf", &gguf::random_llama());
    let package = Package::new(&program, &project.folder.join(".gpubuild/llama-dynamic/runtime"), model);
    let elsewhere = package.folder.with_file_name("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();

    let on_cpu = package.succeeds(Path::new("/"), "0");
    assert_eq!(devices(&on_cpu), ["Vulkan0", "CPU"], "{on_cpu}");
    assert_eq!(modules(&on_cpu, "libggml-vulkan"), ["libggml-vulkan.so"]);
    let best = modules(&on_cpu, "libggml-cpu");
    println!("{} of {} variants", best.join(" "), files(&package.folder, "libggml-cpu-").len());
    assert_eq!(best.len(), 1, "{on_cpu}");
    let logits = numbers(&on_cpu, "logits ");
    assert_alive(&logits);
    assert_close(&logits, &numbers(&package.succeeds(&elsewhere, "99"), "logits "), 0.02);

    // Without the best variant the next one is loaded; without a backend the others still work.
    package.remove(&best[0]);
    package.remove("libggml-vulkan.so");
    let less = package.succeeds(&elsewhere, "0");
    assert_eq!(devices(&less), ["CPU"]);
    let next = modules(&less, "libggml-cpu");
    assert!(next.len() == 1 && next != best, "{less}");
    assert_close(&logits, &numbers(&less, "logits "), 0.01);

    // Without any variant the program lists what it searched for.
    for name in files(&package.folder, "libggml-cpu-") {
        package.remove(&name);
    }
    let none = package.start(Path::new("/"), "0");
    assert!(!none.ok && none.stderr.contains("libggml-cpu-"), "{none:?}");
}

fn files(folder: &Path, start: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(start)).collect()
}
