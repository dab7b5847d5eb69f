//! `infer bench`: tokens per second, and what part of the memory bandwidth that is.

use super::printer::{Printer, table};
use super::run::{context, describe, load};
use super::{DeviceArgs, Failure};
use crate::Error;
use crate::bandwidth::Bandwidth;
use crate::gguf::{Gguf, TensorType};
use crate::gk::{DeviceInfo, Kind};
use crate::model::{Model, RandomSize};
use crate::session::{CHUNK, CacheType, LogitRows, MAX_REPEAT, Options, Output, Session};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Clone, Args)]
pub(super) struct BenchArgs {
    /// A GGUF file [default: the model inside this program]
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    model: Option<PathBuf>,
    /// Random weights of this many bytes instead of a file: 1GB
    #[arg(long, value_name = "SIZE")]
    random: Option<RandomSize>,
    /// Type of the random weights: f32, f16, bf16, q8_0, q4_0, q4_k or q6_k
    #[arg(long, value_name = "TYPE", default_value = "q8_0", requires = "random", value_parser = TensorType::weight_named)]
    kind: TensorType,
    /// Tokens of the prompt
    #[arg(long, value_name = "N", default_value_t = 128)]
    prompt_tokens: u32,
    /// Tokens to write in each run
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Runs; the fastest counts, the slowest is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Speeds of all runs, fastest and slowest.
#[derive(Debug, Clone, Copy, Serialize)]
struct Speed {
    best_tokens_per_second: f64,
    worst_tokens_per_second: f64,
}

#[derive(Debug, Serialize)]
struct Schema {
    name: &'static str,
    version: u32,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: Schema,
    backend: &'static str,
    device: DeviceInfo,
    /// Layers on it, the output counted as one, where the processor has the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_layers: Option<u32>,
    model: String,
    prompt: Speed,
    /// The host sees each token before the next is made.
    decode: Speed,
    /// The device makes up to 64 tokens on its own; where two share the model, as `decode`.
    decode_unattended: Speed,
    /// Ops of a decoded token, fused ones counted as one; where two devices share the model, on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    ops_per_token: Option<u32>,
    /// Bytes of weights and cache that one token reads.
    bytes_per_token: u64,
    gigabytes_per_second: f64,
    /// What threads that only add up memory reach, on devices that are the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_gigabytes_per_second: Option<f64>,
    /// `gigabytes_per_second` over `memory_gigabytes_per_second`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<f64>,
}

/// Bytes that a token reads: every matrix once, one row of the embedding table, the cache up to `position`.
fn bytes_per_token(model: &Model, position: u32) -> u64 {
    let config = model.config();
    let tied = model.is_tied();
    let weight = |spec: &crate::model::tensors::Spec| {
        let rows = if spec.name == crate::model::tensors::TOKEN_EMBD && !tied { 1 } else { spec.rows };
        spec.kind.row_bytes(spec.width.into()).unwrap_or(0) * u64::from(rows)
    };
    let weights: u64 = model.specs().iter().map(weight).sum();
    weights + 2 * 2 * u64::from(config.n_layer) * u64::from(config.kv_width()) * u64::from(position)
}

pub(super) fn bench(args: &BenchArgs, printer: &mut Printer) -> Result<(), Failure> {
    let model = match (args.random, &args.model) {
        (Some(size), _) => Model::random(size, args.kind),
        (None, Some(path)) => Model::from_gguf(Gguf::open(path)?)?,
        (None, None) => Model::from_gguf(crate::default_model::open()?)?,
    };
    let n_ctx = context(&model, None);
    let needed = u64::from(args.prompt_tokens) + u64::from(args.tokens);
    if args.prompt_tokens == 0 || needed > u64::from(n_ctx) {
        return Err(Error::message(format!(
            "prompt and text of {needed} tokens do not fit the context of {n_ctx}"
        ))
        .into());
    }
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
    let mut session = load(&model, &args.device, options, printer)?;
    let report = measure(args, &model, &mut session)?;
    if args.json {
        let text = serde_json::to_string_pretty(&report);
        let text = text.map_err(|error| Error::message(format!("cannot write JSON: {error}")))?;
        return printer.answer(&(text + "\n"));
    }
    printer.answer(&text(&report))
}

fn measure(args: &BenchArgs, model: &Model, session: &mut Session) -> Result<Report, Error> {
    let vocabulary = model.config().n_vocab;
    // Ids spread over the vocabulary; which ones does not matter for speed.
    let prompt: Vec<u32> =
        (0..args.prompt_tokens).map(|place| place.wrapping_mul(2_654_435_761) % vocabulary).collect();
    for rows in [1, CHUNK] {
        session.prepare(rows, Output::Best)?;
        session.prepare(rows, Output::Nothing)?;
    }
    session.prepare(1, Output::Feedback)?;
    let (mut reading, mut writing, mut unattended) = (Vec::new(), Vec::new(), Vec::new());
    // Measured between the runs: what else the machine does slows both.
    let info = session.device().info().clone();
    let reader = (info.kind == Kind::Cpu).then(|| Bandwidth::new(args.device.threads));
    let mut memory: Option<f64> = None;
    for _ in 0..args.runs {
        reading.push(rate(args.prompt_tokens, || start(session, &prompt))?);
        writing
            .push(rate(args.tokens, || (0..args.tokens).try_for_each(|_| session.generate(1).map(|_| ())))?);
        start(session, &prompt)?;
        unattended.push(rate(args.tokens, || generate(session, args.tokens))?);
        memory = reader.as_ref().map(|reader| reader.measure().max(memory.unwrap_or(0.0)));
    }
    let decode = speed(&writing);
    let decode_unattended = speed(&unattended);
    let bytes_per_token = bytes_per_token(model, args.prompt_tokens + args.tokens / 2);
    let fastest = decode.best_tokens_per_second.max(decode_unattended.best_tokens_per_second);
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let gigabytes_per_second = bytes_per_token as f64 * fastest / 1e9;
    Ok(Report {
        schema: Schema { name: "infer-bench", version: 1 },
        backend: session.device().backend_id(),
        device: info,
        gpu_layers: session.gpu_layers(),
        model: model.config().name.clone(),
        prompt: speed(&reading),
        decode,
        decode_unattended,
        ops_per_token: session.ops(1, Output::Best),
        bytes_per_token,
        gigabytes_per_second,
        memory_gigabytes_per_second: memory,
        fraction: memory.map(|memory| gigabytes_per_second / memory),
    })
}

/// Reads the prompt into an empty cache.
fn start(session: &mut Session, prompt: &[u32]) -> Result<(), Error> {
    session.reset();
    session.feed(prompt, Output::Best)?;
    session.best().map(|_| ())
}

fn generate(session: &mut Session, tokens: u32) -> Result<(), Error> {
    let mut missing = tokens;
    while missing > 0 {
        let count = missing.min(MAX_REPEAT);
        session.generate(count)?;
        missing -= count;
    }
    Ok(())
}

/// Tokens per second of some work.
fn rate(tokens: u32, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    work()?;
    Ok(f64::from(tokens) / start.elapsed().as_secs_f64().max(1e-9))
}

fn speed(rates: &[f64]) -> Speed {
    Speed {
        best_tokens_per_second: rates.iter().copied().fold(0.0, f64::max),
        worst_tokens_per_second: rates.iter().copied().fold(f64::INFINITY, f64::min),
    }
}

fn text(report: &Report) -> String {
    let speed = |name: &str, speed: Speed| {
        let range = format!("{:.2} tokens/s", speed.best_tokens_per_second);
        vec![name.to_owned(), range, format!("slowest run {:.2}", speed.worst_tokens_per_second)]
    };
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let megabytes = report.bytes_per_token as f64 / 1e6;
    let mut rows = vec![
        speed("prompt", report.prompt),
        speed("decode, token by token", report.decode),
        speed("decode, up to 64 at once", report.decode_unattended),
        vec!["read per token".to_owned(), format!("{megabytes:.1} MB")],
        vec!["weights and cache".to_owned(), format!("{:.2} GB/s", report.gigabytes_per_second)],
    ];
    rows.extend(report.ops_per_token.map(|ops| vec!["ops per token".to_owned(), ops.to_string()]));
    if let (Some(memory), Some(fraction)) = (report.memory_gigabytes_per_second, report.fraction) {
        let share = format!("reached {:.0} %", fraction * 100.0);
        rows.push(vec!["memory, only read".to_owned(), format!("{memory:.2} GB/s"), share]);
    }
    format!("{} on {}, {}\n{}", report.model, report.backend, describe(&report.device), table(&rows))
}
