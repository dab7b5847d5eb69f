//! `infer bench`: measures tokens per second, and the share of the memory bandwidth that they use.

use super::printer::{Printer, table};
use super::run::{context, describe, load};
use super::{DeviceArgs, Failure, Schema, json};
use crate::Error;
use crate::bandwidth::Bandwidth;
use crate::gguf::{self, TensorType};
use crate::gk::{DeviceInfo, Fusion, Kind, PlanInfo};
use crate::model::{Model, RandomSize};
use crate::session::{CacheType, LogitRows, MAX_REPEAT, Options, Output, Session};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Clone, Args)]
pub(super) struct BenchArgs {
    /// A GGUF file [default: the embedded model]
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    model: Option<PathBuf>,
    /// Use random weights of this many bytes instead of a file: 1GB
    #[arg(long, value_name = "SIZE")]
    random: Option<RandomSize>,
    /// Type of the random weights: f32, f16, bf16, q8_0, q4_0, q4_k or q6_k
    #[arg(long, value_name = "TYPE", default_value = "q8_0", requires = "random", value_parser = TensorType::weight_named)]
    kind: TensorType,
    /// Tokens of the prompt
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    prompt_tokens: u32,
    /// Tokens to generate in each run
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Tokens in the cache before generating; several separated by commas [default: those of the prompt]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    depth: Vec<u32>,
    /// Measure with fused ops, without them, or both alternately
    #[arg(long, value_name = "WHICH", default_value = "on", conflicts_with = "no_fuse")]
    fusion: FusionChoice,
    /// Number of runs; the fastest counts, the slowest is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Interleave with another program: load the model, then do one run for each line of standard input and
    /// print its JSON document as one line
    #[arg(long, conflicts_with_all = ["runs", "json"])]
    turns: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FusionChoice {
    On,
    Off,
    Both,
}

/// Speeds of all runs, fastest and slowest.
#[derive(Debug, Clone, Copy, Serialize)]
struct Speed {
    best_tokens_per_second: f64,
    worst_tokens_per_second: f64,
}

/// The first element of `measured`, at its first depth, is also in the fields that existed before `measured`.
#[derive(Debug, Serialize)]
struct Report {
    schema: Schema,
    backend: &'static str,
    device: DeviceInfo,
    /// Layers on this device, counting the output as one, if the CPU computes the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_layers: Option<u32>,
    model: String,
    prompt: Speed,
    /// The host sees each token before the next one is computed.
    decode: Speed,
    /// The device generates up to 64 tokens without the host; with two devices, the same as `decode`.
    decode_unattended: Speed,
    /// Ops of a decoded token, counting a fused op as one; with two devices, on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    ops_per_token: Option<u32>,
    /// Bytes of weights and cache that one token reads.
    bytes_per_token: u64,
    gigabytes_per_second: f64,
    /// Bandwidth of threads that only read, if the device is the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_gigabytes_per_second: Option<f64>,
    /// `gigabytes_per_second` over `memory_gigabytes_per_second`.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<f64>,
    measured: Vec<Measured>,
}

/// Results with or without fused ops.
#[derive(Debug, Serialize)]
struct Measured {
    fused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ops_per_token: Option<u32>,
    /// How a decoded token is run; with two devices, on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<PlanInfo>,
    prompt: Prompt,
    decode: Vec<Decode>,
}

#[derive(Debug, Serialize)]
struct Prompt {
    tokens: u32,
    #[serde(flatten)]
    speed: Speed,
}

/// Generation after `depth` tokens.
#[derive(Debug, Serialize)]
struct Decode {
    depth: u32,
    tokens: u32,
    bytes_per_token: u64,
    /// The host sees each token before the next one is computed.
    stepwise: Speed,
    /// The device generates up to 64 tokens without the host.
    unattended: Speed,
    gigabytes_per_second: f64,
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

impl BenchArgs {
    fn depths(&self) -> Vec<u32> {
        if self.depth.is_empty() { vec![self.prompt_tokens] } else { self.depth.clone() }
    }

    /// Tokens that the cache must hold.
    fn needed(&self) -> u64 {
        let depth = self.depths().into_iter().max().unwrap_or(0);
        u64::from(self.prompt_tokens).max(u64::from(depth) + u64::from(self.tokens))
    }

    fn fusions(&self) -> &'static [Fusion] {
        match self.fusion {
            FusionChoice::Both => &[Fusion::On, Fusion::Off],
            FusionChoice::On if !self.device.no_fuse => &[Fusion::On],
            _ => &[Fusion::Off],
        }
    }
}

pub(super) fn bench(args: &BenchArgs, printer: &mut Printer) -> Result<(), Failure> {
    let model = match (args.random, &args.model) {
        (Some(size), _) => Model::random(size, args.kind),
        (None, Some(path)) => Model::from_gguf(gguf::open(path)?)?,
        (None, None) => Model::from_gguf(crate::default_model::open()?)?,
    };
    let longest = model.config().n_ctx_train;
    let needed = args.needed();
    if needed > u64::from(longest) {
        return Err(Error::message(format!(
            "a prompt and text of {needed} tokens do not fit the context of {longest}"
        ))
        .into());
    }
    let n_ctx = context(&model, None).max(u32::try_from(needed).unwrap_or(longest));
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
    let session = load(&model, &args.device, options, printer)?;
    let mut bench = Bench::new(args, &model, session);
    if args.turns {
        return take_turns(&mut bench, printer);
    }
    for _ in 0..args.runs {
        bench.run()?;
    }
    let report = bench.report()?;
    printer.answer(&if args.json { json(&report)? } else { text(&report) })
}

/// Does one run for each line of standard input.
fn take_turns(bench: &mut Bench<'_>, printer: &mut Printer) -> Result<(), Failure> {
    let line = |document: &serde_json::Value| format!("{document}\n");
    bench.prepare()?;
    let device = bench.session.device();
    let ready = serde_json::json!({"ready": true, "backend": device.backend_id(), "device": device.info()});
    printer.answer(&line(&ready))?;
    for request in std::io::stdin().lock().lines() {
        request.map_err(|error| Error::message(format!("standard input: {error}")))?;
        bench.forget();
        bench.run()?;
        let report = serde_json::to_value(bench.report()?);
        let report = report.map_err(|error| Error::message(format!("cannot write JSON: {error}")))?;
        printer.answer(&line(&report))?;
    }
    Ok(())
}

/// Tokens per second of every run, with one setting of `fusions`.
#[derive(Debug, Default, Clone)]
struct Rates {
    prompt: Vec<f64>,
    /// Per depth.
    stepwise: Vec<Vec<f64>>,
    unattended: Vec<Vec<f64>>,
    ops: Option<u32>,
    replay: Option<PlanInfo>,
}

struct Bench<'a> {
    args: &'a BenchArgs,
    model: &'a Model,
    session: Session,
    fusion: Option<Fusion>,
    depths: Vec<u32>,
    /// Ids spread over the vocabulary; the choice does not affect speed.
    tokens: Vec<u32>,
    rates: Vec<Rates>,
    reader: Option<Bandwidth>,
    memory: Option<f64>,
}

impl<'a> Bench<'a> {
    fn new(args: &'a BenchArgs, model: &'a Model, session: Session) -> Self {
        let vocabulary = model.config().n_vocab;
        let depths = args.depths();
        let most = depths.iter().copied().chain([args.prompt_tokens]).max().unwrap_or(0);
        let tokens = (0..most).map(|place| place.wrapping_mul(2_654_435_761) % vocabulary).collect();
        // Measured between the runs, so that other load on the machine slows both.
        let is_cpu = session.device().info().kind == Kind::Cpu;
        let reader = is_cpu.then(|| Bandwidth::new(args.device.threads));
        let mut bench = Self {
            args,
            model,
            session,
            fusion: None,
            depths,
            tokens,
            rates: Vec::new(),
            reader,
            memory: None,
        };
        bench.forget();
        bench
    }

    /// Discards the runs so far.
    fn forget(&mut self) {
        let none = vec![Vec::new(); self.depths.len()];
        let rates = Rates { stepwise: none.clone(), unattended: none, ..Rates::default() };
        self.rates = vec![rates; self.args.fusions().len()];
        self.memory = None;
    }

    /// Builds the plans and fills the cache to the greatest depth, so that neither is measured.
    fn prepare(&mut self) -> Result<(), Error> {
        self.switch(self.args.fusions()[0])?;
        self.read(self.tokens.len())
    }

    fn switch(&mut self, fusion: Fusion) -> Result<(), Error> {
        if self.fusion.replace(fusion) != Some(fusion) {
            self.session.set_fusion(fusion);
        }
        for rows in self.session.plan_rows() {
            self.session.prepare(rows, Output::Best)?;
            self.session.prepare(rows, Output::Nothing)?;
        }
        self.session.prepare(1, Output::Feedback)
    }

    /// Feeds the first tokens into an empty cache.
    fn read(&mut self, count: usize) -> Result<(), Error> {
        self.session.reset();
        self.session.feed(&self.tokens[..count], Output::Best)?;
        self.session.best().map(|_| ())
    }

    fn run(&mut self) -> Result<(), Error> {
        for (index, fusion) in self.args.fusions().iter().enumerate() {
            self.switch(*fusion)?;
            let count = self.args.prompt_tokens;
            let rate = rate(count, || self.read(count as usize))?;
            self.rates[index].prompt.push(rate);
            for place in 0..self.depths.len() {
                self.decode(index, place)?;
            }
            self.rates[index].ops = self.session.ops(1, Output::Best);
            self.rates[index].replay = self.session.plan_info(1, Output::Best)?;
        }
        self.memory = self.reader.as_ref().map(|reader| reader.measure().max(self.memory.unwrap_or(0.0)));
        Ok(())
    }

    fn decode(&mut self, index: usize, place: usize) -> Result<(), Error> {
        let (depth, tokens) = (self.depths[place], self.args.tokens);
        if self.session.seek(depth).is_err() {
            self.read(depth as usize)?;
        }
        let stepwise = rate(tokens, || (0..tokens).try_for_each(|_| self.session.generate(1).map(|_| ())))?;
        self.session.seek(depth)?;
        let unattended = rate(tokens, || generate(&mut self.session, tokens))?;
        self.rates[index].stepwise[place].push(stepwise);
        self.rates[index].unattended[place].push(unattended);
        Ok(())
    }

    fn measured(&self, fusion: Fusion, rates: &Rates) -> Measured {
        let decode = self.depths.iter().enumerate().map(|(place, depth)| {
            let (stepwise, unattended) = (speed(&rates.stepwise[place]), speed(&rates.unattended[place]));
            let bytes_per_token = bytes_per_token(self.model, depth + self.args.tokens / 2);
            let fastest = stepwise.best_tokens_per_second.max(unattended.best_tokens_per_second);
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let gigabytes_per_second = bytes_per_token as f64 * fastest / 1e9;
            let (depth, tokens) = (*depth, self.args.tokens);
            Decode { depth, tokens, bytes_per_token, stepwise, unattended, gigabytes_per_second }
        });
        Measured {
            fused: fusion == Fusion::On,
            ops_per_token: rates.ops,
            replay: rates.replay.clone(),
            prompt: Prompt { tokens: self.args.prompt_tokens, speed: speed(&rates.prompt) },
            decode: decode.collect(),
        }
    }

    fn report(&self) -> Result<Report, Error> {
        let fusions = self.args.fusions().iter().zip(&self.rates);
        let measured: Vec<Measured> = fusions.map(|(fusion, rates)| self.measured(*fusion, rates)).collect();
        let none = || Error::message("nothing was measured");
        let first = measured.first().ok_or_else(none)?;
        let decode = first.decode.first().ok_or_else(none)?;
        Ok(Report {
            schema: Schema { name: "infer-bench", version: 1 },
            backend: self.session.device().backend_id(),
            device: self.session.device().info().clone(),
            gpu_layers: self.session.gpu_layers(),
            model: self.model.config().name.clone(),
            prompt: first.prompt.speed,
            decode: decode.stepwise,
            decode_unattended: decode.unattended,
            ops_per_token: first.ops_per_token,
            bytes_per_token: decode.bytes_per_token,
            gigabytes_per_second: decode.gigabytes_per_second,
            memory_gigabytes_per_second: self.memory,
            fraction: self.memory.map(|memory| decode.gigabytes_per_second / memory),
            measured,
        })
    }
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

/// Runs `work` and returns tokens per second.
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
    let speed = |name: String, speed: Speed| {
        let range = format!("{:.2} tokens/s", speed.best_tokens_per_second);
        vec![name, range, format!("slowest run {:.2}", speed.worst_tokens_per_second)]
    };
    let several = report.measured.len() > 1;
    let mut rows = Vec::new();
    for measured in &report.measured {
        let ops = if measured.fused || !several { "" } else { ", without fused ops" };
        rows.push(speed(format!("prompt{ops}"), measured.prompt.speed));
        for decode in &measured.decode {
            let at = if measured.decode.len() > 1 { format!(" at {}", decode.depth) } else { String::new() };
            rows.push(speed(format!("decode{at}, token by token{ops}"), decode.stepwise));
            rows.push(speed(format!("decode{at}, up to 64 at once{ops}"), decode.unattended));
            #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
            let megabytes = decode.bytes_per_token as f64 / 1e6;
            rows.push(vec![format!("read per token{at}{ops}"), format!("{megabytes:.1} MB")]);
            let rate = format!("{:.2} GB/s", decode.gigabytes_per_second);
            rows.push(vec![format!("weights and cache{at}{ops}"), rate]);
        }
        rows.extend(
            measured.ops_per_token.map(|count| vec![format!("ops per token{ops}"), count.to_string()]),
        );
        rows.extend(measured.replay.as_ref().map(|info| vec![format!("a token{ops}"), info.to_string()]));
    }
    if let (Some(memory), Some(fraction)) = (report.memory_gigabytes_per_second, report.fraction) {
        let share = format!("reached {:.0} %", fraction * 100.0);
        rows.push(vec!["memory, read only".to_owned(), format!("{memory:.2} GB/s"), share]);
    }
    format!("{} on {}, {}\n{}", report.model, report.backend, describe(&report.device), table(&rows))
}
