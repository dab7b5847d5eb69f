//! Runs the kept fuzzing corpus (`fuzz/corpus` at the top) through the fuzzed functions: nothing may panic or be slow.

use crate::common::reference_device;
use crate::loading;
use infer::chat::TemplateContext;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Far more than any of them takes in a debug build on a busy machine; more is a hang.
const LONGEST: Duration = Duration::from_secs(20);

/// Every file of a target, with its name.
fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Runs all of them one by one and returns how many were accepted.
fn run(target: &str, mut accepts: impl FnMut(Vec<u8>) -> bool) -> usize {
    let mut accepted = 0;
    for (name, bytes) in files(target) {
        let start = Instant::now();
        accepted += usize::from(accepts(bytes));
        assert!(start.elapsed() < LONGEST, "{target}/{name} took {:?}", start.elapsed());
    }
    accepted
}

#[test]
fn fuzzing_corpus_of_files_is_processed() {
    let device = reference_device();
    let accepted = run("gguf", |bytes| loading::load(bytes, device.as_ref()).is_ok());
    assert!(
        accepted >= 6,
        "only {accepted} are valid: the corpus no longer reaches the code after the header"
    );
}

#[test]
fn fuzzing_corpus_of_templates_is_processed() {
    let accepted = run("template", |bytes| {
        let template_context =
            TemplateContext { bos: "<s>".to_owned(), eos: "</s>".to_owned(), now: loading::day() };
        std::str::from_utf8(&bytes).is_ok_and(|source| loading::render(source, template_context).is_ok())
    });
    assert!(accepted >= 8, "only {accepted} return a text");
}
