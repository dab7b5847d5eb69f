//! `doctor --self-check`.

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::toolkit::{self, Ask};
use gpubuild_doctor::self_check::{SelfCheck, SelfCheckState, compare};
use gpubuild_host::Host;
use serde::Serialize;

use super::DoctorArguments;
use crate::cli::look;
use crate::cli::{CommandContext, Exit, Failure, TextRole};
use crate::report::Schema;

#[derive(Serialize)]
struct SelfCheckReport {
    schema: Schema,
    /// Everything that could be compared here.
    comparisons: Vec<SelfCheck>,
    /// How many rows differ.
    stale: usize,
}

/// Compares and tells. Ends with status 1 if a row is stale.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let mut sight = look::look(host, arguments.host.catalogue(context)?);
    toolkit::ask_programs(host, &sight.catalogue, &mut sight.inventory);
    toolkit::ask_archs(host, &sight.catalogue, &mut sight.inventory, Ask::Program);
    let probes = toolkit::ask_drivers(host, &[Backend::Cuda]);
    let comparisons = compare(&sight.facts, &sight.inventory, &sight.catalogue, &probes);
    let stale = comparisons.iter().filter(|one| one.state == SelfCheckState::Stale).count();
    let exit = if stale == 0 { Exit::Done } else { Exit::Negative };
    if arguments.is_json() {
        context.printer.json(&SelfCheckReport {
            schema: Schema { name: "self-check", version: 1 },
            comparisons,
            stale,
        })?;
        return Ok(exit);
    }
    context.printer.answer(&text(&comparisons, stale, context))?;
    Ok(exit)
}

fn text(comparisons: &[SelfCheck], stale: usize, context: &CommandContext<'_>) -> String {
    if comparisons.is_empty() {
        return "nothing to compare: no toolkit here says anything of itself\n".to_owned();
    }
    let mut lines = Vec::new();
    let mut last = "";
    for one in comparisons {
        if one.subject != last {
            if !last.is_empty() {
                lines.push(String::new());
            }
            last = &one.subject;
            lines.push(context.printer.paint(TextRole::Strong, &clean::short(last, 90)));
        }
        lines.extend(told(one, context));
    }
    let rows = if stale == 1 { "row" } else { "rows" };
    lines.push(String::new());
    lines.push(format!("{} compared, {stale} {rows} stale", comparisons.len()));
    lines.join("\n") + "\n"
}

fn told(one: &SelfCheck, context: &CommandContext<'_>) -> Vec<String> {
    let (symbol, role) = match one.state {
        SelfCheckState::Same => ("✓", TextRole::Good),
        SelfCheckState::Fewer => ("-", TextRole::Dim),
        SelfCheckState::Stale => ("✗", TextRole::Bad),
    };
    let mark = context.printer.paint(role, symbol);
    let installed = clean::short(&one.installed, 120);
    if one.state == SelfCheckState::Same {
        return vec![format!("  {mark} {}: {installed}", one.table)];
    }
    let embedded = clean::short(&one.embedded, 120);
    vec![
        format!("  {mark} {}: the copy says {installed}, the table {embedded}", one.table),
        format!("      {}", clean::short(&one.evidence.place, 120)),
        format!("      table from {}", one.source.as_deref().unwrap_or("nowhere")),
    ]
}
