//! A chat template that is not a model's, but anybody's.

#![no_main]

#[allow(dead_code)]
#[path = "../../tests/suite/loading.rs"]
mod loading;

use infer::chat::Surroundings;
use libfuzzer_sys::fuzz_target;

/// The library's hook aborts at every panic, also at those of the template engine that `ChatTemplate::render` makes errors.
/// Without it, a panic that nothing catches still aborts, for it reaches the caller of the target.
fn abort_where_nothing_catches() {
    drop(std::panic::take_hook());
}

fuzz_target!(init: abort_where_nothing_catches(), |source: &str| {
    let surroundings = Surroundings { bos: "<s>".to_owned(), eos: "</s>".to_owned(), now: loading::day() };
    let _ = loading::render(source, surroundings);
});
