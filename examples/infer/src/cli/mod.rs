//! The command line, one file per command. Answers go to stdout, everything else to stderr.

mod bench;
mod chat;
mod check;
mod devices;
mod generate;
mod interrupt;
mod printer;
mod random_model;
mod run;
mod sampling;
mod score;

use crate::Error;
use crate::discovery::{self, Request};
use crate::gguf::{self, Gguf};
use crate::gk::{Binding, Fusion, Precision};
use crate::model::Model;
use crate::session::GpuLayers;
use clap::{Args, Parser, Subcommand};
use printer::Printer;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a Llama model on the best device of this machine.
#[derive(Debug, Parser)]
#[command(name = "infer", version, about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate text with a model (the default command)
    Run(run::RunArgs),
    /// Chat with a model
    Chat(chat::ChatArgs),
    /// Measure how well a model predicts a text
    Score(score::ScoreArgs),
    /// List all backends and devices, with the reason for each that cannot be used
    Devices(devices::DevicesArgs),
    /// Compare a device with the reference: ops, logits and text of the embedded model
    Check(check::CheckArgs),
    /// Measure tokens per second
    Bench(bench::BenchArgs),
    /// Write a model of random weights to a file
    #[command(hide = true)]
    RandomModel(random_model::RandomModelArgs),
    /// Probe one backend in a separate process and print the answer as JSON
    #[command(name = "__probe", hide = true)]
    Probe {
        /// Id of the backend
        id: String,
    },
    /// Render a chat template with limits; the request and the answer are JSON
    #[command(name = "__template", hide = true)]
    Template,
}

/// Options that select the device.
#[derive(Debug, Clone, Args)]
struct DeviceArgs {
    /// Backend to use: auto, cuda, rocm, metal, vulkan, sycl, opencl, cpu or ref; a named backend is never replaced by another
    #[arg(long, value_name = "ID", env = "INFER_BACKEND", default_value = "auto", value_parser = parse_backend)]
    backend: BackendChoice,
    /// Device of the backend, as `infer devices` numbers them
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Threads of the cpu backend [default: one per fast core]
    #[arg(long, value_name = "N", env = "INFER_THREADS", default_value_t = 0, hide_default_value = true)]
    threads: u32,
    /// Keep each thread of the cpu backend, and the weights that it reads, on one NUMA node
    #[arg(long)]
    numa: bool,
    /// `exact` multiplies in f32. `fast` rounds activations: with q8_0, q4_0, q4_k and q6_k weights to eight bits
    /// on cpu and cuda, and for prompts on vulkan; prompts on cuda to 16 bits; with bf16 weights on CPUs with
    /// BF16, prompts to bf16. `auto` is exact for models so small that it costs nothing
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = parse_precision)]
    precision: PrecisionChoice,
    /// Layers on the GPU, the last ones, counting the output as one; the CPU computes the others. A number,
    /// `all`, or `fit` (also `auto`) for as many as its memory holds [also: -ngl]
    #[arg(long, alias = "n-gpu-layers", value_name = "N", default_value = "all")]
    gpu_layers: GpuLayers,
    /// Lower the context to what fits in memory instead of failing
    #[arg(long)]
    fit_ctx: bool,
    /// Do not use fused kernels, for comparisons
    #[arg(long)]
    no_fuse: bool,
}

/// Options shared by the commands that read or generate text with a model.
#[derive(Debug, Clone, Args)]
struct ModelArgs {
    /// A GGUF file [default: the embedded model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Context size in tokens [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    ctx: Option<u32>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print only the answer, and errors
    #[arg(long, short)]
    quiet: bool,
}

/// A parsed `--precision`; `None` = auto.
#[derive(Debug, Clone, Copy)]
struct PrecisionChoice(Option<Precision>);

fn parse_precision(text: &str) -> Result<PrecisionChoice, String> {
    match text {
        "auto" => Ok(PrecisionChoice(None)),
        "exact" => Ok(PrecisionChoice(Some(Precision::Exact))),
        "fast" => Ok(PrecisionChoice(Some(Precision::Fast))),
        _ => Err("expected `auto`, `exact` or `fast`".to_owned()),
    }
}

/// Models with fewer weights are computed exactly: as f32 they take at most 64 MiB.
const SMALL_MODEL: u64 = 16 << 20;

/// A parsed `--backend`; `None` = auto.
#[derive(Debug, Clone)]
struct BackendChoice(Option<String>);

fn parse_backend(text: &str) -> Result<BackendChoice, String> {
    discovery::parse_backend(text).map(BackendChoice)
}

impl DeviceArgs {
    /// The requested backend, and how much of the model it gets.
    fn request(&self, model: &Model) -> Result<(Request, GpuLayers), Error> {
        let weights: u64 =
            model.specs().iter().map(|spec| u64::from(spec.width) * u64::from(spec.rows)).sum();
        let auto = if weights < SMALL_MODEL { Precision::Exact } else { Precision::Fast };
        let precision = self.precision.0.unwrap_or(auto);
        let (backend, layers) = self.gpu_layers.settle(self.backend.0.as_deref())?;
        let fusion = if self.no_fuse { Fusion::Off } else { Fusion::On };
        let binding = if self.numa { Binding::Node } else { Binding::Free };
        let (device, threads) = (self.device, self.threads);
        Ok((Request { backend, device, threads, precision, fusion, binding }, layers))
    }
}

/// Name and version of a JSON document.
#[derive(Debug, serde::Serialize)]
struct Schema {
    name: &'static str,
    version: u32,
}

/// Serialises a document, with a newline at the end.
fn json(document: &impl serde::Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(document);
    text.map(|text| text + "\n").map_err(|error| Error::message(format!("cannot write JSON: {error}")))
}

/// How a command ended.
enum Failure {
    /// The reader of the output has closed it, which is not an error.
    Closed,
    Error(Error),
    /// The answer was printed and is negative.
    Negative,
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// The path of this program, for probes. Without `/proc`, as in an empty root, the path that started it.
fn program() -> Result<PathBuf, Error> {
    let started = || {
        let path = PathBuf::from(std::env::args_os().next()?);
        (path.components().count() > 1 && path.is_file()).then_some(path)
    };
    std::env::current_exe().or_else(|error| {
        started().ok_or_else(|| Error::message(format!("cannot find the path of this program: {error}")))
    })
}

/// Opens a model file, or the embedded model.
fn open_model(path: Option<&PathBuf>) -> Result<Gguf, Error> {
    match path {
        Some(path) => gguf::open(path),
        None => Ok(crate::default_model::open()?),
    }
}

/// Accepts `-ngl`, a common multi-letter option with a single dash.
fn long_option(word: OsString) -> OsString {
    if word == "-ngl" { "--gpu-layers".into() } else { word }
}

/// Runs the program. Exit codes: 0 success, 1 failure or negative answer, 2 usage.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(std::env::args_os().map(long_option));
    let mut printer = Printer::new();
    let done = match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(args) => run::run(&args, &mut printer),
        Command::Chat(args) => chat::chat(&args, &mut printer),
        Command::Score(args) => score::score(&args, &mut printer),
        Command::Devices(args) => devices::devices(args, &mut printer),
        Command::Check(args) => check::check(&args, &mut printer),
        Command::Bench(args) => bench::bench(&args, &mut printer),
        Command::RandomModel(args) => random_model::random_model(&args, &mut printer),
        Command::Template => chat::render(&mut printer),
        Command::Probe { id } => devices::probe(&id, &mut printer),
    };
    match done {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(Failure::Negative) => ExitCode::FAILURE,
        Err(Failure::Error(error)) => {
            printer.error(&error);
            ExitCode::FAILURE
        }
    }
}
