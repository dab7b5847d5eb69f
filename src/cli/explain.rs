//! `gpubuild explain`: what a backend needs and what is here, or what the id of a finding means.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::Findings;
use gpubuild_host::Host;

use super::detect::role;
use super::look::{self, HostArguments};
use super::{Context, Exit, Failure};
use crate::report::explain::{BackendDocument, FindingDocument, Machine};
use crate::report::explain_text;

/// Say what a backend needs, or what the id of a finding means
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// A backend (cpu, cuda, rocm, metal, vulkan, sycl, opencl) or the id of a finding
    #[arg(value_name = "BACKEND|ID")]
    what: String,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Explains.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let paint = |tone, piece: &str| context.printer.paint(role(tone), piece);
    let findings = Findings::embedded();
    if let Some((family, entry)) = findings.find(&arguments.what) {
        let document = FindingDocument::new(family, &arguments.what, entry);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            context.printer.answer(&explain_text::finding(&document, &paint))?;
        }
        return Ok(Exit::Done);
    }
    let backend: Backend = arguments.what.parse().map_err(|_| unknown(&arguments.what, &findings))?;
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    look::check_overrides(host)?;
    let sight = look::look(host, arguments.host.catalogue(context)?);
    let machine = Machine {
        facts: &sight.facts,
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        matrix: &sight.matrix,
        env: host.env(),
    };
    let Some(document) = BackendDocument::new(&sight.catalogue, backend, machine) else {
        return Err(Failure::usage(
            "explain.undescribed",
            format!("the description of {backend} has no `about`"),
        )
        .hint("add `[about]` to its file in the folder of `--toolkits`"));
    };
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&explain_text::backend(&document, &paint))?;
    }
    Ok(Exit::Done)
}

/// Neither a backend nor an id: the ids that look like it.
fn unknown(what: &str, findings: &Findings) -> Failure {
    let last = what.rsplit('.').next().unwrap_or(what);
    let near: Vec<&str> = findings
        .iter()
        .map(|(_, id, _)| id)
        .filter(|id| id.starts_with(what) || (last.len() > 3 && id.contains(last)))
        .take(8)
        .collect();
    let failure =
        Failure::usage("explain.unknown", format!("`{what}` is neither a backend nor the id of a finding"));
    if near.is_empty() {
        return failure.hint("`gpubuild doctor --list-checks` shows the ids; backends are cpu, cuda, rocm, metal, vulkan, sycl, opencl");
    }
    failure.hint(format!("ids like it: {}", near.join(", ")))
}
