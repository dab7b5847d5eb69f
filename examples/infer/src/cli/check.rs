//! `infer check`: compares a device with reference results.

use super::printer::{Printer, table};
use super::run::{describe, load};
use super::{DeviceArgs, Failure, Schema, json};
use crate::Error;
use crate::check::{Reference, Row, compare_model, compare_ops};
use crate::default_model;
use crate::gk::{Backend, DeviceInfo, OpenOptions, PlanInfo};
use crate::model::Model;
use crate::session::{CacheType, LogitRows, Options, Output};
use crate::tokenizer::Tokenizer;
use clap::Args;
use serde::Serialize;

#[derive(Debug, Clone, Args)]
pub(super) struct CheckArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
    session.prepare(1, Output::Best)?;
    let report = Report {
        schema: Schema { name: "infer-check", version: 1 },
        backend: id,
        device: session.device().info(),
        replay: session.plan_info(1, Output::Best)?,
        wrong: rows.iter().filter(|row| !row.ok).count(),
        rows: &rows,
    };
    printer.answer(&if args.json { json(&report)? } else { text(&report) })?;
    if report.wrong == 0 { Ok(()) } else { Err(Failure::Negative) }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: Schema,
    backend: &'static str,
    device: &'a DeviceInfo,
    /// How a plan for one token is run.
    replay: Option<PlanInfo>,
    wrong: usize,
    rows: &'a [Row],
}

fn text(report: &Report<'_>) -> String {
    let mut lines = vec![["", "compared", "result", "allowed"].map(str::to_owned).to_vec()];
    for row in report.rows {
        let mark = if row.ok { "ok" } else { "WRONG" };
        lines.push(vec![mark.to_owned(), row.name.clone(), row.result.clone(), row.bound.clone()]);
    }
    let verdict = if report.wrong == 0 { "all passed".to_owned() } else { format!("{} wrong", report.wrong) };
    let replay = report.replay.as_ref().map(|info| format!("a token: {info}\n")).unwrap_or_default();
    let (backend, device, count) = (report.backend, describe(report.device), report.rows.len());
    format!("{backend}: {device}\n{}{count} comparisons, {verdict}\n{replay}", table(&lines))
}
