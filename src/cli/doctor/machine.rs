//! The doctor's main job: this machine, or a recorded one.

use std::fmt::Write as _;

use super::{Arguments, FailOn};
use crate::backend::Backend;
use crate::cli::{Context, Exit, Failure, Role, look};
use crate::doctor::{self, Case, Filter};
use crate::finding::{Findings, Severity};
use crate::host::Host;
use crate::matrix::{self, Probes};
use crate::plan::request::Selection;
use crate::report::doctor::Document;
use crate::toolkit;

/// Looks at a machine and tells.
pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let document = examine(arguments, context, host)?;
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&text(&document, context))?;
    }
    Ok(exit(arguments.fail_on, &document))
}

/// The document about a host.
fn examine(arguments: &Arguments, context: &Context<'_>, host: &dyn Host) -> Result<Document, Failure> {
    let findings = Findings::embedded();
    let filter = filter(arguments, &findings)?;
    look::check_overrides(host)?;
    let asked = asked(arguments, context, host)?;
    let mut sight = look::look(host, arguments.host.catalogue(context)?);
    let mut probes = Probes::new();
    if !arguments.offline {
        toolkit::ask_programs(host, &sight.catalogue, &mut sight.inventory);
        probes = toolkit::ask_drivers(host, &Backend::ALL);
    }
    sight.matrix = matrix::evaluate(&sight.facts, &sight.inventory, &sight.catalogue, &probes);
    let signs = doctor::observe(host, &sight.facts, &sight.inventory);
    let case = Case {
        facts: &sight.facts,
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        matrix: &sight.matrix,
        probes: &probes,
        signs: &signs,
        env: host.env(),
        asked: asked.as_deref(),
    };
    let found = doctor::diagnose(&case, &findings, &filter);
    let shown = asked.clone().unwrap_or_else(|| Backend::ALL.to_vec());
    let mut document = Document::of_machine(&sight.facts, &sight.matrix, &shown, found);
    document.checked =
        findings.iter().map(|(_, id, _)| id.to_owned()).filter(|id| filter.takes(id)).collect();
    document.checked.sort();
    Ok(document)
}

/// The backends that somebody asked for, by flag, environment or project.
fn asked(
    arguments: &Arguments,
    context: &Context<'_>,
    host: &dyn Host,
) -> Result<Option<Vec<Backend>>, Failure> {
    let project = match (&arguments.project, &arguments.host.host) {
        (Some(folder), _) => Some(look::project(context, Some(folder))?),
        // A recording is looked at for itself, wherever that happens.
        (None, Some(_)) => None,
        (None, None) => look::project(context, None).ok(),
    };
    let request = look::request(arguments.backends.as_deref(), host, project.as_ref())?;
    Ok(match request.selection {
        Selection::Auto => None,
        Selection::Named(list) => Some(list),
    })
}

fn filter(arguments: &Arguments, findings: &Findings) -> Result<Filter, Failure> {
    for pattern in arguments.only.iter().chain(&arguments.skip) {
        let known = findings.iter().any(|(_, id, _)| crate::finding::catalogue::matches(pattern, id));
        if !known {
            return Err(Failure::usage("doctor.check-unknown", format!("no check is called `{pattern}`"))
                .hint("`gpubuild doctor --list-checks` shows all of them"));
        }
    }
    Ok(Filter { only: arguments.only.clone(), skip: arguments.skip.clone() })
}

fn exit(fail_on: FailOn, document: &Document) -> Exit {
    let bad = match fail_on {
        FailOn::Error => document.summary.errors > 0,
        FailOn::Warning => document.summary.errors + document.summary.warnings > 0,
        FailOn::Never => false,
    };
    if bad { Exit::Negative } else { Exit::Done }
}

fn text(document: &Document, context: &Context<'_>) -> String {
    let mut text = String::new();
    for finding in &document.findings {
        let (word, role) = match finding.severity {
            Severity::Error => ("error", Role::Bad),
            Severity::Warning => ("warning", Role::Caution),
            Severity::Info => ("info", Role::Dim),
        };
        let _ = writeln!(text, "{}: {} [{}]", context.printer.paint(role, word), finding.summary, finding.id);
        let _ = writeln!(text, "  fix: {}", finding.remedy.text);
        for command in &finding.remedy.commands {
            let _ = writeln!(text, "    {command}");
        }
        for consequence in &finding.consequences {
            let _ = writeln!(text, "  so: {} [{}]", consequence.summary, consequence.id);
        }
    }
    let summary = document.summary;
    let _ = writeln!(text, "{} errors, {} warnings", summary.errors, summary.warnings);
    text
}
