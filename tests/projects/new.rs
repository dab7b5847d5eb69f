//! The templates with bindings on the real llama.cpp and whisper.cpp: made, cloned, built and run with the two commands of their
//! READMEs, and asked about a model.

use std::path::Path;
use std::process::Command;

#[path = "../new/support.rs"]
mod support;

use crate::{gguf, sources, whisper_model};
use support::{Desk, has_libclang, line, publish};

/// The project that the template makes, with these sources where its README fetches them from.
fn desk(name: &str, source: &Path) -> Option<Desk> {
    let mut desk = Desk::new(&["git"]).filter(|_| has_libclang())?;
    let copied = Command::new("cp").arg("-r").arg(source).arg(desk.path("sources")).status().unwrap();
    assert!(copied.success());
    // Of a submodule it names a repository that is not there.
    let _ = std::fs::remove_file(desk.path("sources/.git"));
    publish(&mut desk, "sources", &format!("https://github.com/ggml-org/{name}.cpp"));
    // The store has what was compiled last time, wherever it was.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("places/crates/cache");
    desk.set("GPUBUILD_CACHE", cache.to_str().unwrap());
    desk.make(&[&format!("new-{name}"), "--template", name]);
    Some(desk)
}

#[test]
fn new_llama_tells_of_devices_and_models() {
    if !sources::wanted() {
        return;
    }
    let Some(desk) = desk("llama", &sources::llama()) else { return };
    let done = desk.follow("new-llama", "README.md");
    let told = &done[1].1.stdout;
    assert!(line(told, "system: ").contains("AVX2 = 1") && told.contains("device: CPU: "), "{told}");
    let model = desk.path("random.gguf");
    std::fs::write(&model, gguf::random_llama()).unwrap();
    let ran = desk.start("new-llama", "cargo", &["run", "--quiet", "--", model.to_str().unwrap()]);
    assert!(ran.ok && line(&ran.stdout, "model: ").starts_with("llama "), "{ran:#?}");
    let ran = desk.start("new-llama", "cargo", &["run", "--quiet", "--", "nowhere.gguf"]);
    assert!(!ran.ok && ran.stderr.contains("error: `nowhere.gguf` cannot be loaded"), "{ran:#?}");
    desk.is_in_order("new-llama");
}

#[test]
fn new_whisper_tells_of_languages_and_models() {
    if !sources::wanted() {
        return;
    }
    let Some(desk) = desk("whisper", &sources::whisper()) else { return };
    let done = desk.follow("new-whisper", "README.md");
    let told = &done[1].1.stdout;
    assert!(line(told, "system: ").contains("AVX2 = 1"), "{told}");
    assert_eq!(line(told, "languages: "), "100");
    let model = desk.path("random.bin");
    std::fs::write(&model, whisper_model::random_whisper()).unwrap();
    let ran = desk.start("new-whisper", "cargo", &["run", "--quiet", "--", model.to_str().unwrap()]);
    assert_eq!(line(&ran.stdout, "model: "), "51864 words, 1 + 1 layers", "{ran:#?}");
    let ran = desk.start("new-whisper", "cargo", &["run", "--quiet", "--", "nowhere.bin"]);
    assert!(!ran.ok && ran.stderr.contains("error: `nowhere.bin` cannot be loaded"), "{ran:#?}");
    desk.is_in_order("new-whisper");
}
