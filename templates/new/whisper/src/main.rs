//! Transcribes speech on the best device: `cargo run -- --model FILE --audio FILE`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use @ident@::{Model, audio};
use @ident@::{backends, choose};
use @ident@::{devices, languages};
use @ident@::{quiet, system_info};

const USAGE: &str = "\
usage: @name@ --model FILE --audio FILE [--language CODE] [--device NAME] [--verbose]

  --model FILE     a model of whisper.cpp, such as ggml-base.en.bin; without one, the devices are listed
  --audio FILE     a WAV file with 16,000 samples per second; without one, the model is described
  --language CODE  a language such as `de`, or auto [default: auto]
  --device NAME    auto, a backend such as `vulkan`, or a device such as `Vulkan1` [default: auto]
  --verbose        print what whisper.cpp reports";

struct Arguments {
    model: Option<String>,
    audio: Option<String>,
    language: String,
    device: String,
    verbose: bool,
}

/// `None` for `--help`.
fn arguments(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        model: None,
        audio: None,
        language: "auto".to_owned(),
        device: "auto".to_owned(),
        verbose: false,
    };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
        match word.as_str() {
            "--model" => arguments.model = Some(value()?),
            "--audio" => arguments.audio = Some(value()?),
            "--language" => arguments.language = value()?,
            "--device" => arguments.device = value()?,
            "--verbose" => arguments.verbose = true,
            "--help" => return Ok(None),
            other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
        }
    }
    Ok(Some(arguments))
}

/// Hundredths of a second as `minutes:seconds`.
fn time(hundredths: i64) -> String {
    let (minutes, rest) = (hundredths / 6000, hundredths % 6000);
    format!("{minutes:02}:{:02}.{:02}", rest / 100, rest % 100)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if !arguments.verbose {
        quiet();
    }
    let devices = devices();
    let Some(model) = &arguments.model else {
        println!("system: {}", system_info().trim());
        println!("languages: {}", languages().len());
        println!("built in: {}", backends().join(", "));
        for device in &devices {
            println!("device: {device}");
        }
        return Ok(());
    };
    let (device, reason) = choose(&devices, &arguments.device)?;
    eprintln!("device: {} ({reason})", device.name);
    let path = Path::new(model);
    let mut model = Model::load(path, &device).ok_or(format!("cannot load `{model}`"))?;
    let Some(recording) = &arguments.audio else {
        let (audio, text) = model.layers();
        let tokens = model.vocabulary();
        println!("model: {tokens} tokens, {audio} audio and {text} text layers");
        return Ok(());
    };
    let samples = audio::read(Path::new(recording))?;
    let mut out = io::stdout().lock();
    let mut written = Ok(());
    model.transcribe(&samples, &arguments.language, |segment| {
        let (start, end) = (time(segment.start), time(segment.end));
        if written.is_ok() {
            written = writeln!(out, "[{start} - {end}] {}", segment.text.trim());
        }
    })?;
    written.map_err(|error| error.to_string())
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
