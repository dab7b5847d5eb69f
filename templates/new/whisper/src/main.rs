//! Prints information about whisper.cpp and its models: `cargo run -- ggml-base.en.bin`.

use std::path::Path;
use std::process::ExitCode;

use @ident@::Model;
use @ident@::{languages, system_info};

fn main() -> ExitCode {
    println!("system: {}", system_info().trim());
    println!("languages: {}", languages().len());
    for path in std::env::args().skip(1) {
        let Some(model) = Model::load(Path::new(&path)) else {
            eprintln!("error: cannot load `{path}`");
            return ExitCode::FAILURE;
        };
        let (audio, text) = model.layers();
        let tokens = model.vocabulary();
        println!("model: {tokens} tokens, {audio} audio and {text} text layers");
    }
    ExitCode::SUCCESS
}
