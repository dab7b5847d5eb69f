//! Fuzzes the source of a chat template.

#![no_main]

#[allow(dead_code)]
#[path = "../../examples/infer/tests/suite/loading.rs"]
mod loading;

use infer::chat::TemplateContext;
use libfuzzer_sys::fuzz_target;

/// The library's hook aborts at every panic, including those of the template engine that `ChatTemplate::render` turns
/// into errors. Without it an uncaught panic still aborts, because it reaches the caller of the target.
fn abort_only_on_uncaught_panics() {
    drop(std::panic::take_hook());
}

fuzz_target!(init: abort_only_on_uncaught_panics(), |source: &str| {
    let template_context = TemplateContext { bos: "<s>".to_owned(), eos: "</s>".to_owned(), now: loading::day() };
    let _ = loading::render(source, template_context);
});
