//! Continues a text with a model on the best device: `cargo run -- --model FILE --prompt TEXT`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use @ident@::system_info;
use @ident@::{Model, choose, devices};
use @ident@::{backends, quiet};

const USAGE: &str = "\
usage: @name@ --model FILE [--prompt TEXT] [--tokens N] [--device NAME] [--verbose]

  --model FILE    a model in GGUF format; without one, the devices are listed
  --prompt TEXT   the text to continue [default: Once upon a time]
  --tokens N      the most tokens to write [default: 64]
  --device NAME   auto, a backend such as `vulkan`, or a device such as `Vulkan1` [default: auto]
  --verbose       print what llama.cpp reports";

struct Arguments {
    model: Option<String>,
    prompt: String,
    tokens: u32,
    device: String,
    verbose: bool,
}

/// `None` for `--help`.
fn arguments(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        model: None,
        prompt: "Once upon a time".to_owned(),
        tokens: 64,
        device: "auto".to_owned(),
        verbose: false,
    };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
        match word.as_str() {
            "--model" => arguments.model = Some(value()?),
            "--prompt" => arguments.prompt = value()?,
            "--tokens" => {
                let text = value()?;
                arguments.tokens = text
                    .parse()
                    .map_err(|_| format!("`--tokens {text}` is not a number"))?;
            }
            "--device" => arguments.device = value()?,
            "--verbose" => arguments.verbose = true,
            "--help" => return Ok(None),
            other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
        }
    }
    Ok(Some(arguments))
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if !arguments.verbose {
        quiet();
    }
    let devices = devices();
    let Some(model) = &arguments.model else {
        println!("system: {}", system_info().trim());
        println!("built in: {}", backends().join(", "));
        for device in &devices {
            println!("device: {device}");
        }
        return Ok(());
    };
    let (device, reason) = choose(&devices, &arguments.device)?;
    eprintln!("device: {} ({reason})", device.name);
    let model = Model::load(Path::new(model), &device).ok_or(format!("cannot load `{model}`"))?;
    eprintln!("model: {}", model.description());
    let mut out = io::stdout().lock();
    let mut written = out.write_all(arguments.prompt.as_bytes());
    model.generate(&arguments.prompt, arguments.tokens, |piece| {
        if written.is_ok() {
            written = out.write_all(piece).and_then(|()| out.flush());
        }
    })?;
    written
        .and_then(|()| out.write_all(b"\n"))
        .map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let result = arguments(std::env::args().skip(1)).and_then(|arguments| match arguments {
        Some(arguments) => run(&arguments),
        None => {
            println!("{USAGE}");
            Ok(())
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
