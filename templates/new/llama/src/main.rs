//! Prints the devices of llama.cpp and information about models: `cargo run -- model.gguf`.

use std::path::Path;
use std::process::ExitCode;

use @ident@::Model;
use @ident@::{devices, system_info};

fn main() -> ExitCode {
    println!("system: {}", system_info().trim());
    for device in devices() {
        println!("device: {}: {}", device.name, device.description);
    }
    for path in std::env::args().skip(1) {
        let Some(model) = Model::load(Path::new(&path)) else {
            eprintln!("error: cannot load `{path}`");
            return ExitCode::FAILURE;
        };
        println!(
            "model: {}, {} parameters",
            model.description(),
            model.parameters()
        );
    }
    ExitCode::SUCCESS
}
