//! `infer score`: measures how well a model predicts a text.

use super::printer::{Printer, table};
use super::run::{context, describe, load};
use super::{Failure, ModelArgs, open_model};
use crate::Error;
use crate::gk::DeviceInfo;
use crate::model::Model;
use crate::score::{Score, score as score_tokens};
use crate::session::{CacheType, LogitRows, Options};
use crate::tokenizer::{Specials, Tokenizer};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Clone, Args)]
pub(super) struct ScoreArgs {
    /// A text file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    model: String,
    backend: &'static str,
    device: DeviceInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_layers: Option<u32>,
    context: u32,
    #[serde(flatten)]
    score: Score,
    seconds: f64,
    tokens_per_second: f64,
}

pub(super) fn score(args: &ScoreArgs, printer: &mut Printer) -> Result<(), Failure> {
    if args.model.quiet {
        printer.be_quiet();
    }
    let path = args.file.display().to_string();
    let bytes = std::fs::read(&args.file)
        .map_err(|error| Error::Read { path: path.clone(), source: Arc::new(error) })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        Error::message(format!("`{path}` is not UTF-8 text: byte {}", error.utf8_error().valid_up_to()))
    })?;
    let gguf = open_model(args.model.model.as_ref())?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let model = Model::from_gguf(gguf)?;
    let tokens = tokenizer.encode(&text, Specials::Plain)?;
    let n_ctx = context(&model, args.model.ctx);
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::All };
    let mut session = load(&model, &args.model.device, options, printer)?;
    let context = session.room();
    let bar = printer.bar(tokens.len() as u64, "tokens");
    let start = Instant::now();
    let result =
        score_tokens(&mut session, tokenizer.start(), &tokens, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let score = result?;
    let seconds = start.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 tokens")]
    let tokens_per_second = if seconds > 0.0 { score.scored as f64 / seconds } else { 0.0 };
    let (backend, device) = (session.device().backend_id(), session.device().info().clone());
    let model = model.config().name.clone();
    let gpu_layers = session.gpu_layers();
    let report = Report { model, backend, device, gpu_layers, context, score, seconds, tokens_per_second };
    if args.json {
        return printer.json(&report);
    }
    printer.answer(&format!(
        "{path} by {} on {backend}, {}\n{}",
        report.model,
        describe(&report.device),
        table(&[
            vec!["mean -ln p".to_owned(), format!("{:.4} nats a token", score.mean_nll)],
            vec!["perplexity".to_owned(), format!("{:.4}", score.perplexity)],
            vec![
                "tokens".to_owned(),
                format!(
                    "{} of {} scored, in {} parts of at most {context}",
                    score.scored, score.tokens, score.chunks
                )
            ],
            vec!["speed".to_owned(), format!("{tokens_per_second:.1} tokens/s")],
        ])
    ))
}
