//! The templates with bindings and the real llama.cpp and whisper.cpp: created, fetched, built and run with the
//! two commands of their READMEs, with a model.

use std::path::Path;

#[path = "../new/recording.rs"]
mod recording;
#[path = "../new/support.rs"]
mod support;

use crate::{sources, support as projects, whisper_model};
use support::{Workspace, has_libclang, line};

/// Creates the template's project. Its sources are downloaded from the registry.
fn workspace(name: &str) -> Option<Workspace> {
    let mut workspace = Workspace::new(&[]).filter(|_| has_libclang())?;
    // The shared store has the compiled libraries of earlier runs.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("places/crates/cache");
    workspace.set("GPUBUILD_CACHE", cache.to_str().unwrap());
    workspace.make(&[&format!("new-{name}"), "--template", name]);
    Some(workspace)
}

/// llama.cpp and the inference example, which computes with other kernels, continue a text with the same words. Those of the example
/// are in reference.json, whose tests compare it with a third program.
#[test]
fn new_llama_writes_the_same_text_as_the_inference_example() {
    if !sources::wanted() {
        return;
    }
    let Some(workspace) = workspace("llama") else { return };
    let file = workspace.read("new-llama/gpubuild.toml");
    let profile = "profile = \"llama\"\n";
    workspace.write(
        "new-llama/gpubuild.toml",
        &file.replace(profile, &format!("{profile}{}{}", projects::QUICK, projects::UNITY)),
    );
    let done = workspace.follow("new-llama", "README.md");
    let stdout = &done[1].1.stdout;
    assert!(line(stdout, "system: ").contains("AVX2 = 1") && stdout.contains("device: CPU: "), "{stdout}");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/infer/model");
    let reference = std::fs::read_to_string(example.join("reference.json")).unwrap();
    let reference: serde_json::Value = serde_json::from_str(&reference).unwrap();
    let prompt = reference["prompt"]["text"].as_str().unwrap();
    let model = example.join("default.gguf");
    let arguments = ["run", "--quiet", "--", "--model", model.to_str().unwrap(), "--prompt", prompt];
    let ran = workspace.start("new-llama", "cargo", &arguments);
    let expected = format!("{prompt} {}\n", reference["greedy"]["text"].as_str().unwrap());
    assert_eq!(ran.stdout, expected, "{ran:#?}");
    assert!(line(&ran.stderr, "device: ").starts_with("CPU (no GPU was found"), "{ran:#?}");
    let ran = workspace.start("new-llama", "cargo", &["run", "--quiet", "--", "--model", "nowhere.gguf"]);
    assert!(!ran.ok && ran.stderr.contains("error: cannot load `nowhere.gguf`"), "{ran:#?}");
    workspace.is_in_order("new-llama");
}

/// A model that says the same words to every recording, and a second of a tone.
#[test]
fn new_whisper_transcribes_a_recording() {
    if !sources::wanted() {
        return;
    }
    let Some(workspace) = workspace("whisper") else { return };
    let done = workspace.follow("new-whisper", "README.md");
    let stdout = &done[1].1.stdout;
    assert!(line(stdout, "system: ").contains("AVX2 = 1") && stdout.contains("device: CPU: "), "{stdout}");
    assert_eq!(line(stdout, "languages: "), "100");
    let [model, audio] = ["speaking.bin", "tone.wav"].map(|name| workspace.path(name));
    std::fs::write(&model, whisper_model::speaking_whisper()).unwrap();
    recording::write(&audio, 16_000, 1);
    let run = |more: &[&str]| {
        let all = [&["run", "--quiet", "--", "--model", model.to_str().unwrap()], more].concat();
        workspace.start("new-whisper", "cargo", &all)
    };
    let ran = run(&[]);
    assert_eq!(line(&ran.stdout, "model: "), "51864 tokens, 1 audio and 1 text layers", "{ran:#?}");
    let ran = run(&["--audio", audio.to_str().unwrap()]);
    assert_eq!(ran.stdout, whisper_model::SAID, "{ran:#?}");
    assert!(line(&ran.stderr, "device: ").starts_with("CPU (no GPU was found"), "{ran:#?}");
    let ran = run(&["--audio", audio.to_str().unwrap(), "--language", "de"]);
    assert!(!ran.ok && ran.stderr.contains("error: the model is for English only"), "{ran:#?}");
    workspace.is_in_order("new-whisper");
}
