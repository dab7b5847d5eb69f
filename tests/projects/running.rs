//! Real projects, built, linked into Rust programs, and run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::requirements::{requires, skip};
use crate::support::{Probe, ProjectFolder, UNITY, has_vulkan, run};
use crate::{gguf, sources, whisper_model};

/// ggml-vulkan hides software devices unless the variable names them.
const SHOW_LLVMPIPE: (&str, &str) = ("GGML_VK_VISIBLE_DEVICES", "0");

pub(crate) fn headers(source: &std::path::Path) -> Vec<PathBuf> {
    vec![source.join("include"), source.join("ggml/include")]
}

/// The numbers in the line with a prefix.
pub(crate) fn numbers(text: &str, prefix: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(prefix)).unwrap_or_else(|| panic!("{text}"));
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Checks that a model's output is finite and varies.
pub(crate) fn assert_alive(numbers: &[f64]) {
    assert_eq!(numbers.len(), 48);
    assert!(numbers.iter().all(|value| value.is_finite()) && spread(numbers) > 0.01, "{numbers:?}");
}

fn spread(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |most, value| most.max(value.abs()))
}

pub(crate) fn assert_close(left: &[f64], right: &[f64], share: f64) {
    let most = share * spread(left).max(1.0);
    for (left, right) in left.iter().zip(right) {
        assert!((left - right).abs() < most, "{left} and {right}");
    }
}

pub(crate) fn write(project: &ProjectFolder, name: &str, bytes: &[u8]) -> String {
    let path = project.folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn devices(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("device ")).collect()
}

fn abi(project: &ProjectFolder) -> BTreeMap<String, String> {
    serde_json::from_value(project.manifest()["trees"][0]["abi"].clone()).unwrap()
}

#[test]
fn llama_loads_a_random_model_on_the_processor_and_on_vulkan() {
    if !sources::wanted() || !has_vulkan() {
        return;
    }
    let source = sources::llama();
    let project = ProjectFolder::new("llama", "llama", &source, "targets = [\"test-backend-ops\"]\n");
    let ran = project.build("cpu,vulkan");
    println!("{}", ran.stdout);
    assert_eq!(abi(&project)["GGML_MAX_NAME"], "64");
    let model = write(&project, "random.gguf", &gguf::random_llama());
    let on = |layers: &str| {
        let probe = Probe { file: "llama.c", includes: headers(&source), argument: &model };
        project.run_rust(&[probe], &[("PROBE_LAYERS", layers), SHOW_LLVMPIPE])
    };
    let (on_cpu, on_vulkan) = (on("0"), on("99"));
    assert_eq!(devices(&on_cpu), ["Vulkan0", "CPU"], "{on_cpu}");
    assert_alive(&numbers(&on_cpu, "logits "));
    assert_close(&numbers(&on_cpu, "logits "), &numbers(&on_vulkan, "logits "), 0.02);
    backend_ops(&project);
    // An unchanged project is not rebuilt.
    let again =
        project.gpubuild(&["build", "--backends", "cpu,vulkan", "--no-binary", "--message-format", "json"]);
    assert!(again.stdout.contains("\"state\":\"unchanged\""), "{}", again.stdout);
}

/// With NVIDIA's wheels: all of llama.cpp's CUDA backend but flash attention is compiled and linked. Without a GPU, the program runs on the
/// processor.
#[test]
fn llama_with_cuda_runs_on_the_processor() {
    if !sources::wanted() || !requires("cuda-wheels") {
        skip("cuda-wheels", "GPUBUILD_REQUIRE does not name projects and cuda-wheels");
        return;
    }
    let source = sources::llama();
    // The driver's library, which this machine lacks, is needed for virtual memory only.
    let rest = "[backends.cuda]\narchs = [\"90-real\"]\n\
                options = { GGML_CUDA_FA = \"OFF\", GGML_CUDA_NO_VMM = \"ON\" }\n";
    let project = ProjectFolder::new("llama-cuda", "llama", &source, rest);
    let built =
        project.gpubuild(&["build", "--backends", "cpu,cuda", "--provision", "--no-binary", "--jobs", "2"]);
    assert!(built.ok, "{}{}", built.stdout, built.stderr);
    let model = write(&project, "random.gguf", &gguf::random_llama());
    let probe = Probe { file: "llama.c", includes: headers(&source), argument: &model };
    // ggml links CUDA's libraries dynamically.
    let toolkits = project.folder.with_file_name("cache/toolkits");
    let toolkit = std::fs::read_dir(toolkits).unwrap().find_map(|entry| {
        let libraries = entry.unwrap().path().join("prefix/lib");
        libraries.is_dir().then(|| libraries.to_str().unwrap().to_owned())
    });
    let env = [("PROBE_LAYERS", "99"), ("LD_LIBRARY_PATH", toolkit.as_deref().unwrap())];
    let ran = project.run_rust(&[probe], &env);
    assert_eq!(devices(&ran).last(), Some(&"CPU"), "{ran}");
    assert_alive(&numbers(&ran, "logits "));
}

/// Runs part of ggml's own tests on Vulkan. Without a device they print `OK` without running, so both are counted.
fn backend_ops(project: &ProjectFolder) {
    let manifest = project.manifest();
    let files = manifest["trees"][0]["files"].as_array().unwrap();
    let program = files.iter().find(|file| file["target"] == "test-backend-ops").unwrap();
    let mut command = Command::new(program["path"].as_str().unwrap());
    command.args(["test", "-b", "Vulkan0", "-o", "RMS_NORM"]).env(SHOW_LLVMPIPE.0, SHOW_LLVMPIPE.1);
    let ran = run(&mut command);
    assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("Backend 1/2: Vulkan0"), "{}", ran.stdout);
    let passed = ran.stdout.lines().find(|line| line.contains("tests passed")).unwrap();
    let count =
        passed.trim().split('/').next().unwrap().trim_start_matches("\u{1b}[1;32m").parse::<u32>().unwrap();
    println!("test-backend-ops: {}", passed.trim());
    assert!(count >= 10, "{passed}");
}

#[test]
fn ggml_multiplies_on_every_device() {
    if !sources::wanted() {
        return;
    }
    // llama.cpp's copy of ggml lacks a file that standalone builds need; the patch adds it.
    let source = sources::llama().join("ggml");
    let project =
        ProjectFolder::new("ggml", "ggml", &source, "extra = [\"rpc\"]\npatches = [\"pc.patch\"]\n");
    let patch = "--- /dev/null\n+++ b/ggml.pc.in\n@@ -0,0 +1 @@\n+Name: ggml\n";
    std::fs::write(project.folder.join("pc.patch"), patch).unwrap();
    project.build("cpu");
    assert!(!source.join("ggml.pc.in").exists());
    let probe = Probe { file: "ggml.c", includes: vec![source.join("include")], argument: "" };
    let output = project.run_rust(&[probe], &[]);
    assert!(output.contains("backend RPC") && output.contains("device CPU differs by little"), "{output}");
    assert_eq!(project.manifest()["trees"][0]["extra"], serde_json::json!(["rpc"]));
    assert_eq!(abi(&project)["version"], "0.25.3");
}

/// The same program with shared libraries, found at run time through its RPATH.
#[test]
fn shared_libraries_are_found_at_run_time() {
    if !sources::wanted() {
        return;
    }
    let source = sources::ggml();
    let project = ProjectFolder::new("ggml-shared", "ggml", &source, "linkage = \"shared\"\n");
    project.build("cpu");
    let probe = Probe { file: "ggml.c", includes: vec![source.join("include")], argument: "" };
    let output = project.run_rust(&[probe], &[]);
    assert!(output.contains("device CPU differs by little"), "{output}");
}

#[test]
fn whisper_runs_and_its_sources_stay_unchanged() {
    if !sources::wanted() {
        return;
    }
    let source = sources::whisper();
    // whisper.cpp's CMake files write into bindings/javascript.
    let project = ProjectFolder::new("whisper", "whisper", &source, "copy = true\n");
    project.build("cpu");
    let model = write(&project, "random.bin", &whisper_model::random_whisper());
    let output =
        project.run_rust(&[Probe { file: "whisper.c", includes: headers(&source), argument: &model }], &[]);
    for line in ["languages 100", "AVX2 = 1", "context refused"] {
        assert!(output.contains(line), "{line}: {output}");
    }
    assert_alive(&numbers(&output, "heard "));
    assert_eq!(abi(&project)["GGML_MAX_NAME"], "64");
}

/// Two copies of ggml with very different versions in one program: isolated by renamed symbols, isolated by a shared
/// library, and replaced by one of the two.
#[test]
fn llama_and_whisper_link_into_one_program() {
    if !sources::wanted() {
        return;
    }
    let (llama, whisper) = (sources::llama(), sources::whisper());
    let talk = ProjectFolder::new("both-llama", "llama", &llama, UNITY);
    let hear = ProjectFolder::new("both-whisper", "whisper", &whisper, "copy = true\n");
    hear.build("cpu");
    let models = [
        write(&talk, "random.gguf", &gguf::random_llama()),
        write(&hear, "random.bin", &whisper_model::random_whisper()),
    ];
    let probes = |ggml_of_whisper: &std::path::Path| {
        let hears = vec![whisper.join("include"), ggml_of_whisper.join("ggml/include")];
        [
            Probe { file: "llama.c", includes: headers(&llama), argument: &models[0] },
            Probe { file: "whisper.c", includes: hears, argument: &models[1] },
        ]
    };
    let with = |folder: &ProjectFolder, how: &str| {
        format!("{UNITY}[[with]]\nproject = \"{}\"\nsame_symbols = \"{how}\"\n", folder.folder.display())
    };

    talk.describe("llama", &llama, &with(&hear, "refuse"));
    let refused = talk.gpubuild(&["build", "--backends", "cpu", "--no-binary"]);
    assert!(!refused.ok);
    for part in ["symbols.same", "version is 0.25.3 and 0.9.5", "more symbols"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }

    let mut last: Option<(Vec<f64>, Vec<f64>)> = None;
    let mut agree = |output: &str| {
        let now = (numbers(output, "logits "), numbers(output, "heard "));
        assert_alive(&now.0);
        assert_alive(&now.1);
        if let Some(last) = &last {
            assert_close(&last.0, &now.0, 0.001);
            assert_close(&last.1, &now.1, 0.001);
        }
        last = Some(now);
    };
    for how in ["prefix", "dynamic"] {
        talk.describe("llama", &llama, &with(&hear, how));
        talk.build("cpu");
        agree(&talk.run_rust(&probes(&whisper), &[]));
    }
    // whisper.cpp with the newer ggml of llama.cpp: one copy in the program.
    talk.describe("llama", &llama, UNITY);
    talk.build("cpu");
    let promised = talk.gpubuild(&["audit"]);
    assert!(promised.ok && promised.stdout.contains("GGML_AVX2=ON"), "{promised:?}");
    let less = talk.gpubuild(&["audit", "--cpu", "x86-64", "--fail-on", "warning"]);
    assert!(!less.ok && less.stdout.contains("audit.isa."), "{less:?}");
    let on_one = ProjectFolder::new(
        "both-shared",
        "whisper",
        &whisper,
        &("copy = true\n".to_owned() + &with(&talk, "shared")),
    );
    on_one.build("cpu");
    agree(&on_one.run_rust(&probes(&llama), &[]));
    let lines = on_one.gpubuild(&["link", "--format", "cargo"]).stdout;
    assert_eq!(lines.matches("static=ggml-base").count(), 1, "{lines}");
}

#[test]
fn stable_diffusion_runs_with_its_own_name_length() {
    if !sources::wanted() {
        return;
    }
    let source = sources::diffusion();
    let project = ProjectFolder::new("diffusion", "stable-diffusion", &source, "");
    project.build("cpu");
    let output =
        project.run_rust(&[Probe { file: "diffusion.c", includes: headers(&source), argument: "" }], &[]);
    assert!(output.contains("type q8_0") && output.contains("AVX2 = 1"), "{output}");
    assert_eq!(abi(&project)["GGML_MAX_NAME"], "128");
}
