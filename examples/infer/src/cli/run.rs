//! `infer run`: text from a model.

use super::generate::{Reader, Writer, Written};
use super::printer::Printer;
use super::sampling::SamplingArgs;
use super::{DeviceArgs, Failure, ModelArgs, open_model, program};
use crate::Error;
use crate::discovery::{self, Chosen};
use crate::gk::{Device, DeviceInfo};
use crate::model::Model;
use crate::sampler::Sampler;
use crate::session::{CacheType, LogitRows, Needs, Options, Room, Session, Size};
use crate::tokenizer::Tokenizer;
use clap::Args;
use serde::Serialize;
use std::time::Instant;

/// Longest context that is taken without being asked for: the cache of a long one is large.
const DEFAULT_CONTEXT: u32 = 4096;
/// A device that holds less than this is passed over, however much a context may be lowered.
const LEAST_CONTEXT: u32 = 256;

#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Text to continue [default: none, the model starts by itself]
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prompt: String,
    /// Most tokens to write; fewer if the model ends the text
    #[arg(long, short = 'n', value_name = "N", default_value_t = 256)]
    tokens: u32,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Print text, tokens and times as JSON, once it is done
    #[arg(long)]
    json: bool,
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
    let session = upload(model, device, info.max_buffer, options, printer)?;
    printer.note(format_args!("loaded `{}` in {:.2} s", model.config().name, start.elapsed().as_secs_f64()));
    Ok((session, info))
}

/// Puts a model on a device, with a bar where somebody waits for it.
fn upload(
    model: &Model,
    device: Device,
    max_buffer: u64,
    options: Options,
    printer: &Printer,
) -> Result<Session, Error> {
    let bar = printer.bar(0, "B");
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let session = Session::with_progress(model, device, max_buffer, options, &mut progress);
    bar.finish_and_clear();
    let session = session?;
    session.device().sync()?;
    Ok(session)
}

/// A device in a few words.
pub(super) fn describe(info: &DeviceInfo) -> String {
    let details: Vec<&str> =
        [&info.arch, &info.driver].into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if details.is_empty() { info.name.clone() } else { format!("{} ({})", info.name, details.join(", ")) }
}

pub(super) fn run(args: &RunArgs, printer: &mut Printer) -> Result<(), Failure> {
    if args.model.quiet {
        printer.be_quiet();
    }
    let gguf = open_model(args.model.model.as_ref())?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let model = Model::from_gguf(gguf)?;
    let prompt = tokenizer.prompt(&args.prompt)?;
    if prompt.is_empty() {
        return Err(
            Error::message("this model does not start by itself: give it a text with `--prompt`").into()
        );
    }
    let n_ctx = context(&model, args.model.ctx);
    if n_ctx > model.config().n_ctx_train {
        let trained = model.config().n_ctx_train;
        printer
            .note(format_args!("warning: the model was trained for texts of {trained} tokens, not {n_ctx}"));
    }
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
    let (session, info) = load(&model, &args.model.device, options, printer)?;
    let name = model.config().name.clone();
    let mut writer = Writer::new(session, tokenizer, Sampler::new(args.sampling.settings(0.0)), info);
    let stream = writer.tokenizer().stream(&args.prompt);
    let mut piece = |text: &str| if args.json { Ok(()) } else { printer.answer(text) };
    let mut reader = Reader { piece: &mut piece, stopped: &|| false };
    let written = writer.write(&prompt, args.tokens, stream, &mut reader)?;
    let (prompt_rate, rate) = written.rates();
    if args.json {
        printer.json(&Report {
            model: name,
            backend: writer.session().device().backend_id(),
            device: writer.info(),
            prompt_tokens: &prompt,
            prompt_tokens_per_second: prompt_rate,
            tokens_per_second: rate,
            written: &written,
        })?;
    } else {
        printer.answer("\n")?;
    }
    printer.note(format_args!(
        "prompt: {} tokens, {prompt_rate:.1} tokens/s; text: {} tokens, {rate:.1} tokens/s; {}",
        prompt.len(),
        written.tokens.len(),
        written.ending.describe()
    ));
    Ok(())
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    model: String,
    backend: &'static str,
    device: &'a DeviceInfo,
    prompt_tokens: &'a [u32],
    #[serde(flatten)]
    written: &'a Written,
    prompt_tokens_per_second: f64,
    tokens_per_second: f64,
}
