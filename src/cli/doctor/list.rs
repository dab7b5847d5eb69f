//! `doctor --list-checks`.

use std::fmt::Write as _;

use gpubuild_detect::finding::{Findings, catalogue::Subject};
use serde::Serialize;

use super::Arguments;
use crate::cli::{Context, Exit, Failure, Role};
use crate::report::Schema;

#[derive(Serialize)]
struct Document<'a> {
    schema: Schema,
    checks: Vec<Check<'a>>,
}

#[derive(Serialize)]
struct Check<'a> {
    id: &'a str,
    family: &'a str,
    title: &'a str,
}

/// Shows every check of a machine, family by family.
pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let of_machine = findings.iter().filter(|(family, _, _)| family.subject == Subject::Machine);
    if arguments.is_json() {
        let checks = of_machine
            .map(|(family, id, entry)| Check { id, family: &family.family, title: &entry.title })
            .collect();
        context.printer.json(&Document { schema: Schema { name: "checks", version: 1 }, checks })?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    let mut last = "";
    for (family, id, entry) in of_machine {
        if family.family != last {
            last = &family.family;
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", context.printer.paint(Role::Strong, &family.title));
        }
        let _ = writeln!(text, "  {id:<32} {}", entry.title);
    }
    context.printer.answer(&text)?;
    Ok(Exit::Done)
}
