//! A chat template that is not a model's, but anybody's.

#![no_main]

#[allow(dead_code)]
#[path = "../../tests/suite/loading.rs"]
mod loading;

use infer::chat::Surroundings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let surroundings = Surroundings { bos: "<s>".to_owned(), eos: "</s>".to_owned(), now: loading::day() };
    let _ = loading::render(source, surroundings);
});
