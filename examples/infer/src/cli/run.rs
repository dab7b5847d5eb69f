//! `infer run`: generates text with a model.

use super::generate::{Reader, Writer, Written};
use super::printer::Printer;
use super::sampling::SamplingArgs;
use super::{DeviceArgs, Failure, ModelArgs, open_model, program};
use crate::Error;
use crate::discovery::{self, Chosen};
use crate::gk::{Device, DeviceInfo};
use crate::model::Model;
use crate::sampler::Sampler;
use crate::session::{CacheType, LogitRows, Options, Placement, Session, Share, Size, Span, longest_context};
use crate::tokenizer::Tokenizer;
use clap::Args;
use serde::Serialize;
use std::time::Instant;

/// Longest default context: the cache of a longer one is large.
const DEFAULT_CONTEXT: u32 = 4096;
/// A device that cannot hold this context is skipped, even if the context may be lowered.
const LEAST_CONTEXT: u32 = 256;

#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Text to continue [default: none, the model starts on its own]
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prompt: String,
    /// Maximum tokens to generate; fewer if the model ends the text
    #[arg(long, short = 'n', value_name = "N", default_value_t = 256)]
    tokens: u32,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Print text, tokens and times as JSON at the end
    #[arg(long)]
    json: bool,
}

/// The context size of a command.
pub(super) fn context(model: &Model, asked: Option<u32>) -> u32 {
    asked.unwrap_or_else(|| model.config().n_ctx_train.min(DEFAULT_CONTEXT))
}

/// Opens a device for a model, and the CPU for layers that do not go to that device; reports the choice.
pub(super) fn load(
    model: &Model,
    args: &DeviceArgs,
    mut options: Options,
    printer: &mut Printer,
) -> Result<Session, Failure> {
    let least = if args.fit_ctx { options.n_ctx.min(LEAST_CONTEXT) } else { options.n_ctx };
    let (request, layers) = args.request(model)?;
    let place = |device: &Device| {
        let placement = layers.place(model, device, || request.open_processor(), options)?;
        placement.check(model, Options { n_ctx: least, ..options })?;
        Ok(placement)
    };
    let Chosen { device, found: placement, skipped } = discovery::choose(&request, &program()?, place)?;
    for reason in discovery::reasons(&skipped) {
        printer.note(format_args!("skipped {reason}"));
    }
    let start = Instant::now();
    let mut shares = placement.shares(model, options)?;
    let fits = longest_context(&shares, options.n_ctx).max(least);
    if args.fit_ctx && fits < options.n_ctx {
        printer.note(format_args!(
            "context lowered from {} to {fits} tokens, which fit in memory",
            options.n_ctx
        ));
        options.n_ctx = fits;
        shares = placement.shares(model, options)?;
    }
    printer.note(format_args!("using {}: {}", device.backend_id(), describe(device.info())));
    for share in &shares {
        printer.note(memory(share, model, options.n_ctx));
    }
    let session = upload(model, &placement, options, printer)?;
    printer.note(format_args!("loaded `{}` in {:.2} s", model.config().name, start.elapsed().as_secs_f64()));
    Ok(session)
}

/// A line about the memory of a part of the model on its device.
fn memory(share: &Share<'_>, model: &Model, n_ctx: u32) -> String {
    let part = if share.span == Span::WHOLE {
        String::new()
    } else {
        format!(" of {}, {}", share.device.backend_id(), share.span.describe(model.config()))
    };
    let Share { needs, room, .. } = share;
    format!(
        "memory{part}: {} of {} usable ({needs} at a context of {n_ctx})",
        Size(needs.total()),
        Size(room.usable)
    )
}

/// Uploads a model to its devices, with a progress bar at a terminal.
fn upload(
    model: &Model,
    placement: &Placement,
    options: Options,
    printer: &Printer,
) -> Result<Session, Error> {
    let bar = printer.bar(0, "B");
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let session = Session::with_progress(model, placement.clone(), options, &mut progress);
    bar.finish_and_clear();
    let session = session?;
    session.devices().try_for_each(Device::sync)?;
    Ok(session)
}

/// A short description of a device.
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
        return Err(Error::message("this model cannot start without text: set it with `--prompt`").into());
    }
    let n_ctx = context(&model, args.model.ctx);
    if n_ctx > model.config().n_ctx_train {
        let trained = model.config().n_ctx_train;
        printer.note(format_args!(
            "warning: the model was trained for {trained} tokens of context, not {n_ctx}"
        ));
    }
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::Last };
    let session = load(&model, &args.model.device, options, printer)?;
    let name = model.config().name.clone();
    let mut writer = Writer::new(session, tokenizer, Sampler::new(args.sampling.settings(0.0)));
    let stream = writer.tokenizer().stream(&args.prompt);
    let mut piece = |text: &str| if args.json { Ok(()) } else { printer.answer(text) };
    let mut reader = Reader { piece: &mut piece, stopped: &|| false };
    let written = writer.write(&prompt, args.tokens, stream, &mut reader)?;
    let (prompt_rate, rate) = written.rates();
    if args.json {
        printer.json(&Report {
            model: name,
            backend: writer.session().device().backend_id(),
            device: writer.session().device().info(),
            gpu_layers: writer.session().gpu_layers(),
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

/// The document of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    model: String,
    backend: &'static str,
    device: &'a DeviceInfo,
    /// Set if the CPU has the other layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_layers: Option<u32>,
    prompt_tokens: &'a [u32],
    #[serde(flatten)]
    written: &'a Written,
    prompt_tokens_per_second: f64,
    tokens_per_second: f64,
}
