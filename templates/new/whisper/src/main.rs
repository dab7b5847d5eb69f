//! Tells what whisper.cpp says of this machine, and of a model: `cargo run -- ggml-base.en.bin`.

use std::path::Path;
use std::process::ExitCode;

use @ident@::Model;
use @ident@::{languages, system_info};

fn main() -> ExitCode {
    println!("system: {}", system_info().trim());
    println!("languages: {}", languages().len());
    for path in std::env::args().skip(1) {
        let Some(model) = Model::load(Path::new(&path)) else {
            eprintln!("error: `{path}` cannot be loaded");
            return ExitCode::FAILURE;
        };
        let (listening, writing) = model.layers();
        let words = model.vocabulary();
        println!("model: {words} words, {listening} + {writing} layers");
    }
    ExitCode::SUCCESS
}
