//! `infer check`: a device against the truth.

use super::printer::{Printer, table};
use super::run::{describe, load};
use super::{DeviceArgs, Failure};
use crate::Error;
use crate::check::{Reference, Row, compare_model, compare_ops};
use crate::default_model;
use crate::gk::{Backend, OpenOptions};
use crate::model::Model;
use crate::session::{CacheType, LogitRows, Options};
use crate::tokenizer::Tokenizer;
use clap::Args;

#[derive(Debug, Clone, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    device: DeviceArgs,
}

pub(super) fn check(args: &CheckArgs, printer: &mut Printer) -> Result<(), Failure> {
    let gguf = default_model::open()?;
    let reference = Reference::parse(default_model::REFERENCE)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let model = Model::from_gguf(gguf)?;
    let length = u32::try_from(reference.length()).unwrap_or(u32::MAX);
    let n_ctx = model.config().n_ctx_train.max(length);
    let options = Options { n_ctx, cache: CacheType::F16, logits: LogitRows::All };
    let mut session = load(&model, &args.device, options, printer)?;
    let id = session.device().backend_id();
    let truth =
        Backend::named("ref").map_err(|why| Error::message(format!("the reference backend: {why}")))?;
    let truth = truth.open_first(OpenOptions::default())?;
    let mut rows: Vec<Row> = session.devices().flat_map(|device| compare_ops(device, &truth)).collect();
    rows.extend(compare_model(&reference, &tokenizer, &mut session)?);
    printer.answer(&format!("{id}: {}\n{}", describe(session.device().info()), text(&rows)))?;
    if rows.iter().all(|row| row.ok) { Ok(()) } else { Err(Failure::Negative) }
}

fn text(rows: &[Row]) -> String {
    let mut lines = vec![["", "compared", "result", "allowed"].map(str::to_owned).to_vec()];
    for row in rows {
        let mark = if row.ok { "ok" } else { "WRONG" };
        lines.push(vec![mark.to_owned(), row.name.clone(), row.result.clone(), row.bound.clone()]);
    }
    let wrong = rows.iter().filter(|row| !row.ok).count();
    let verdict = if wrong == 0 { "all right".to_owned() } else { format!("{wrong} wrong") };
    format!("{}{} comparisons, {verdict}\n", table(&lines), rows.len())
}
