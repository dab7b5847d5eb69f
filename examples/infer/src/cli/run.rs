//! `infer run`: text from a model.

use super::printer::Printer;
use super::{DeviceArgs, Failure, open_model, program};
use crate::Error;
use crate::discovery::{self, Chosen};
use crate::gk::{Device, DeviceInfo, Kind};
use crate::model::Model;
use crate::sampler::{Sampler, Settings};
use crate::session::{CacheType, LogitRows, MAX_CANDIDATES, Needs, Options, Output, Room, Session, Size};
use crate::tokenizer::Tokenizer;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;

/// Longest context that is taken without being asked for: the cache of a long one is large.
const DEFAULT_CONTEXT: u32 = 4096;
/// A device that holds less than this is passed over, however much a context may be lowered.
const LEAST_CONTEXT: u32 = 256;

#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    /// A GGUF file [default: the model inside this program]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Text to continue [default: none, the model starts by itself]
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prompt: String,
    /// Most tokens to write; fewer if the model ends the text
    #[arg(long, short = 'n', value_name = "N", default_value_t = 256)]
    tokens: u32,
    /// 0 takes the best token always; higher is more surprising
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = parse_temperature)]
    temperature: f64,
    /// Choose among this many best tokens; 0 = all
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: u32,
    /// Choose among the best tokens of this total probability
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = parse_share)]
    top_p: f64,
    /// Start of the random numbers: the same seed gives the same text
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Tokens that prompt and text may have together [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    ctx: Option<u32>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print nothing but the text, and errors
    #[arg(long, short)]
    quiet: bool,
}

fn parse_number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("not between {} and {}", range.start(), range.end()))
    }
}

fn parse_temperature(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0..=100.0)
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0..=1.0)
}

/// The context that a command uses.
pub(super) fn context(model: &Model, asked: Option<u32>) -> u32 {
    asked.unwrap_or_else(|| model.config().n_ctx_train.min(DEFAULT_CONTEXT))
}

/// Opens a device for a model, and says which and why.
pub(super) fn load(
    model: &Model,
    args: &DeviceArgs,
    options: Options,
    printer: &mut Printer,
) -> Result<(Session, DeviceInfo), Failure> {
    let least = if args.fit_ctx { options.n_ctx.min(LEAST_CONTEXT) } else { options.n_ctx };
    let fits = |device: &Device, info: &DeviceInfo| {
        let options = Options { n_ctx: least, ..options };
        Needs::new(model, device, options)?.check(Room::on(device, info.kind)?, least)
    };
    let Chosen { device, info, skipped } = discovery::choose(&args.request(model), &program()?, fits)?;
    for reason in discovery::reasons(&skipped) {
        printer.note(format_args!("skipped {reason}"));
    }
    let start = Instant::now();
    let room = Room::on(&device, info.kind)?;
    let mut options = options;
    if args.fit_ctx {
        let fits = options.fitted(model, &device, room)?.n_ctx.max(least);
        if fits < options.n_ctx {
            printer.note(format_args!(
                "context lowered from {} to {fits} tokens, for which there is memory",
                options.n_ctx
            ));
        }
        options.n_ctx = fits;
    }
    let needs = Needs::new(model, &device, options)?;
    let id = device.backend_id();
    printer.note(format_args!("using {id}: {}", describe(&info)));
    printer.note(format_args!(
        "memory: {} of {} that can be used ({needs} at a context of {})",
        Size(needs.total()),
        Size(room.usable),
        options.n_ctx
    ));
    let session = Session::new(model, device, info.max_buffer, options)?;
    session.device().sync()?;
    printer.note(format_args!("loaded `{}` in {:.2} s", model.config().name, start.elapsed().as_secs_f64()));
    Ok((session, info))
}

/// A device in a few words.
pub(super) fn describe(info: &DeviceInfo) -> String {
    let details: Vec<&str> =
        [&info.arch, &info.driver].into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if details.is_empty() { info.name.clone() } else { format!("{} ({})", info.name, details.join(", ")) }
}

pub(super) fn run(args: &RunArgs, printer: &mut Printer) -> Result<(), Failure> {
    if args.quiet {
        printer.be_quiet();
    }
    let gguf = open_model(args.model.as_ref())?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let model = Model::from_gguf(gguf)?;
    let prompt = tokenizer.prompt(&args.prompt)?;
    if prompt.is_empty() {
        return Err(
            Error::message("this model does not start by itself: give it a text with `--prompt`").into()
        );
    }
    let n_ctx = context(&model, args.ctx);
    if n_ctx > model.config().n_ctx_train {
        let trained = model.config().n_ctx_train;
        printer
            .note(format_args!("warning: the model was trained for texts of {trained} tokens, not {n_ctx}"));
    }
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
    let (session, info) = load(&model, &args.device, options, printer)?;
    let settings =
        Settings { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p, seed: args.seed };
    let mut writer =
        Writer { session, tokenizer, sampler: Sampler::new(settings), top_k: args.top_k, last: 0, info };
    writer.write(args, &prompt, printer)
}

/// Everything that writing a text needs.
struct Writer {
    session: Session,
    tokenizer: Tokenizer,
    sampler: Sampler,
    top_k: u32,
    /// The token that was chosen last.
    last: u32,
    info: DeviceInfo,
}

impl Writer {
    /// What each pass must leave for the sampler.
    fn output(&self) -> Output {
        match self.top_k {
            _ if self.sampler.is_greedy() => Output::Best,
            1..=MAX_CANDIDATES => Output::Candidates(self.top_k),
            _ => Output::Logits,
        }
    }

    fn write(&mut self, args: &RunArgs, prompt: &[u32], printer: &mut Printer) -> Result<(), Failure> {
        let mut stream = self.tokenizer.stream(&args.prompt);
        let start = Instant::now();
        if args.tokens == 0 {
            return Ok(());
        }
        let output = self.output();
        self.session.feed(prompt, output)?;
        let mut pending = vec![self.first(output)?];
        let prompt_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut written = 0;
        let ending = loop {
            let mut ended = None;
            for id in pending.drain(..) {
                if self.tokenizer.is_end(id) {
                    ended = Some("the model ended the text");
                    break;
                }
                written += 1;
                printer.answer(&stream.push(&self.tokenizer.bytes(id)))?;
                if written == args.tokens {
                    ended = Some("`--tokens` reached");
                    break;
                }
            }
            if let Some(ending) = ended {
                break ending;
            }
            if self.session.room() == 0 {
                break "the context is full; a larger `--ctx` gives more";
            }
            pending = self.advance(output, args.tokens - written)?;
        };
        printer.answer(&stream.finish())?;
        printer.answer("\n")?;
        let rate = |tokens: f64, seconds: f64| if seconds > 0.0 { tokens / seconds } else { 0.0 };
        let seconds = start.elapsed().as_secs_f64();
        printer.note(format_args!(
            "prompt: {} tokens, {:.1} tokens/s; text: {written} tokens, {:.1} tokens/s; {ending}",
            prompt.len(),
            rate(f64::from(u32::try_from(prompt.len()).unwrap_or(u32::MAX)), prompt_seconds),
            rate(f64::from(written), seconds),
        ));
        Ok(())
    }

    /// The first token after the prompt.
    fn first(&mut self, output: Output) -> Result<u32, Error> {
        if output == Output::Best { self.session.best() } else { self.sample(output) }
    }

    fn sample(&mut self, output: Output) -> Result<u32, Error> {
        let candidates = match output {
            Output::Candidates(count) => self.session.candidates(count)?,
            _ => (0..).zip(self.session.logits(1)?).collect(),
        };
        let id = self.sampler.choose(candidates);
        let id = id.ok_or_else(|| {
            Error::message("the device gave no number for any token: the weights or the kernels are broken")
        })?;
        self.last = id;
        Ok(id)
    }

    /// The next tokens: one where the reader sees each as it comes, a few where asking the device costs more.
    fn advance(&mut self, output: Output, wanted: u32) -> Result<Vec<u32>, Error> {
        const BATCH: u32 = 8;
        if output == Output::Best {
            let slow = matches!(self.info.kind, Kind::Cpu | Kind::Software);
            let count = if slow { 1 } else { BATCH.min(wanted) };
            return self.session.generate(count.min(self.session.room()));
        }
        self.session.feed(&[self.last], output)?;
        Ok(vec![self.sample(output)?])
    }
}
