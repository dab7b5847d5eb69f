//! The real projects, built, linked into Rust programs and run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Place, has_vulkan, run};
use crate::{gguf, sources};

/// ggml-vulkan hides processors that pose as cards unless they are named.
const SHOW_LLVMPIPE: (&str, &str) = ("GGML_VK_VISIBLE_DEVICES", "0");

fn headers(source: &std::path::Path) -> Vec<PathBuf> {
    vec![source.join("include"), source.join("ggml/include")]
}

fn logits(text: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("logits ")).unwrap_or_else(|| panic!("{text}"));
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

fn devices(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("device ")).collect()
}

fn abi(place: &Place) -> BTreeMap<String, String> {
    serde_json::from_value(place.manifest()["trees"][0]["abi"].clone()).unwrap()
}

#[test]
fn llama_loads_a_random_model_on_the_processor_and_on_vulkan() {
    if !sources::wanted() || !has_vulkan() {
        return;
    }
    let source = sources::llama();
    let place = Place::new("llama", "llama", &source, "targets = [\"test-backend-ops\"]\n");
    let ran = place.build("cpu,vulkan");
    println!("{}", ran.stdout);
    assert_eq!(abi(&place)["GGML_MAX_NAME"], "64");
    let model = place.folder.join("random.gguf");
    std::fs::write(&model, gguf::random_llama()).unwrap();
    let model = model.to_str().unwrap();
    let on_cpu = place.run_rust("llama.c", &headers(&source), model, &[("PROBE_LAYERS", "0"), SHOW_LLVMPIPE]);
    assert_eq!(devices(&on_cpu), ["Vulkan0", "CPU"], "{on_cpu}");
    let on_vulkan =
        place.run_rust("llama.c", &headers(&source), model, &[("PROBE_LAYERS", "99"), SHOW_LLVMPIPE]);
    let (cpu, vulkan) = (logits(&on_cpu), logits(&on_vulkan));
    assert_eq!(cpu.len(), 48);
    let spread = cpu.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    assert!(spread > 0.01 && cpu.iter().all(|value| value.is_finite()), "{cpu:?}");
    for (left, right) in cpu.iter().zip(&vulkan) {
        assert!((left - right).abs() < 0.02 * spread.max(1.0), "{left} on the processor, {right} on Vulkan");
    }
    backend_ops(&place);
    // Nothing changed: nothing is done.
    let again =
        place.gpubuild(&["build", "--backends", "cpu,vulkan", "--no-binary", "--message-format", "json"]);
    assert!(again.stdout.contains("\"state\":\"unchanged\""), "{}", again.stdout);
}

/// A subset of ggml's own tests on Vulkan. Without a device it prints `OK` having run none, so both are counted.
fn backend_ops(place: &Place) {
    let manifest = place.manifest();
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
    // The copy in llama.cpp lacks a file that only ggml by itself needs: the patch adds it.
    let source = sources::llama().join("ggml");
    let place = Place::new("ggml", "ggml", &source, "extra = [\"rpc\"]\npatches = [\"pc.patch\"]\n");
    let patch = "--- /dev/null\n+++ b/ggml.pc.in\n@@ -0,0 +1 @@\n+Name: ggml\n";
    std::fs::write(place.folder.join("pc.patch"), patch).unwrap();
    place.build("cpu");
    assert!(!source.join("ggml.pc.in").exists());
    let said = place.run_rust("ggml.c", &[source.join("include")], "", &[]);
    assert!(said.contains("backend RPC") && said.contains("device CPU differs by little"), "{said}");
    assert_eq!(place.manifest()["trees"][0]["extra"], serde_json::json!(["rpc"]));
    assert_eq!(abi(&place)["version"], "0.25.3");
}

/// The same program with shared libraries: found at run time by the path in the program.
#[test]
fn shared_libraries_are_found_at_run_time() {
    if !sources::wanted() {
        return;
    }
    let source = sources::ggml();
    let place = Place::new("ggml-shared", "ggml", &source, "options = { BUILD_SHARED_LIBS = \"ON\" }\n");
    place.build("cpu");
    let said = place.run_rust("ggml.c", &[source.join("include")], "", &[]);
    assert!(said.contains("device CPU differs by little"), "{said}");
}

#[test]
fn whisper_tells_of_itself_and_its_sources_stay_as_they_are() {
    if !sources::wanted() {
        return;
    }
    let source = sources::whisper();
    // Its CMake files write into bindings/javascript.
    let place = Place::new("whisper", "whisper", &source, "copy = true\n");
    place.build("cpu");
    let said = place.run_rust("whisper.c", &headers(&source), "/dev/null", &[]);
    for line in ["languages 100", "AVX2 = 1", "context refused"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(abi(&place)["GGML_MAX_NAME"], "64");
}

#[test]
fn stable_diffusion_tells_of_itself_and_its_other_name_length() {
    if !sources::wanted() {
        return;
    }
    let source = sources::diffusion();
    let place = Place::new("diffusion", "stable-diffusion", &source, "");
    place.build("cpu");
    let said = place.run_rust("diffusion.c", &headers(&source), "", &[]);
    assert!(said.contains("type q8_0") && said.contains("AVX2 = 1"), "{said}");
    assert_eq!(abi(&place)["GGML_MAX_NAME"], "128");
}
