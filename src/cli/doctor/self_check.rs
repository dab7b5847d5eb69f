//! `doctor --self-check`: compares gpubuild's tables with the installed toolkits.

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::toolkit::{self, QueryMode};
use gpubuild_doctor::self_check::{SelfCheck, SelfCheckState, compare};
use gpubuild_host::Host;
use serde::Serialize;

use super::DoctorArguments;
use crate::cli::machine;
use crate::cli::{CommandContext, Exit, Failure, TextRole};
use crate::report::Schema;

/// The document of `doctor --self-check --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SelfCheckReport {
    schema: Schema,
    /// One entry per value that an installed toolkit reports.
    comparisons: Vec<SelfCheck>,
    /// Number of stale table rows.
    stale: usize,
}

/// Prints the comparisons. The result is negative if a table row is stale.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let mut machine = machine::inspect(host, arguments.host.catalogue(context)?);
    toolkit::query_programs(host, &machine.catalogue, &mut machine.inventory);
    toolkit::query_archs(host, &machine.catalogue, &mut machine.inventory, QueryMode::Program);
    let probes = toolkit::probe_drivers(host, &[Backend::Cuda]);
    let comparisons = compare(&machine.facts, &machine.inventory, &machine.catalogue, &probes);
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
    context.printer.print(&text(&comparisons, stale, context))?;
    Ok(exit)
}

fn text(comparisons: &[SelfCheck], stale: usize, context: &CommandContext<'_>) -> String {
    if comparisons.is_empty() {
        return "nothing to compare: no installed toolkit reports values that are in the tables\n".to_owned();
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
        lines.extend(comparison_lines(one, context));
    }
    let rows = if stale == 1 { "row" } else { "rows" };
    lines.push(String::new());
    lines.push(format!("{} compared, {stale} {rows} stale", comparisons.len()));
    lines.join("\n") + "\n"
}

fn comparison_lines(one: &SelfCheck, context: &CommandContext<'_>) -> Vec<String> {
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
        format!(
            "  {mark} {}: the installed copy reports {installed}, the table contains {embedded}",
            one.table
        ),
        format!("      {}", clean::short(&one.evidence.place, 120)),
        format!("      source of the table: {}", one.source.as_deref().unwrap_or("none")),
    ]
}
