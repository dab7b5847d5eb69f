//! `doctor --list-checks`.

use std::fmt::Write as _;

use gpubuild_detect::finding::{Findings, catalogue::FindingSubject};
use serde::Serialize;

use super::DoctorArguments;
use crate::cli::{CommandContext, Exit, Failure, TextRole};
use crate::report::Schema;

/// The document of `doctor --list-checks --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CheckListReport<'a> {
    schema: Schema,
    /// The checks, by family.
    checks: Vec<ListedCheck<'a>>,
}

/// A check.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedCheck<'a> {
    /// Id of the finding that it reports.
    id: &'a str,
    /// Family of the finding.
    family: &'a str,
    /// Title of the finding.
    title: &'a str,
}

/// Lists the checks of a machine by family.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let of_machine = findings.iter().filter(|(family, _, _)| family.subject == FindingSubject::Machine);
    if arguments.is_json() {
        let checks = of_machine
            .map(|(family, id, entry)| ListedCheck { id, family: &family.family, title: &entry.title })
            .collect();
        context.printer.json(&CheckListReport { schema: Schema { name: "checks", version: 1 }, checks })?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    let mut last = "";
    for (family, id, entry) in of_machine {
        if family.family != last {
            last = &family.family;
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", context.printer.paint(TextRole::Strong, &family.title));
        }
        let _ = writeln!(text, "  {id:<32} {}", entry.title);
    }
    context.printer.print(&text)?;
    Ok(Exit::Done)
}
