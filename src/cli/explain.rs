//! `gpubuild explain`: what a backend needs and what of it is installed, or what a finding or an error means.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::id;
use gpubuild_host::Host;

use super::detect::role;
use super::machine::{self, HostArguments};
use super::{CommandContext, Exit, Failure};
use crate::report::explain::{BackendDocument, ErrorDocument, ExplainedMachine, FindingDocument};
use crate::report::explain_text;

/// Explain what a backend needs, or what a finding or an error means
#[derive(Debug, Clone, clap::Args)]
pub struct ExplainArguments {
    /// A backend (cpu, cuda, rocm, metal, vulkan, sycl, opencl) or the id of a finding or an error
    #[arg(value_name = "BACKEND|ID")]
    what: String,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Prints the explanation.
pub fn run(arguments: &ExplainArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let paint = |tone, text: &str| context.printer.paint(role(tone), text);
    let findings = Findings::embedded();
    if let Some((family, entry)) = findings.find(&arguments.what) {
        let document = FindingDocument::new(family, &arguments.what, entry);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            context.printer.print(&explain_text::finding(&document, &paint))?;
        }
        return Ok(Exit::Done);
    }
    if let Some(entry) = diagnostic::errors().remove(&arguments.what) {
        let document = ErrorDocument::new(&arguments.what, entry);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            context.printer.print(&explain_text::error(&document, &paint))?;
        }
        return Ok(Exit::Done);
    }
    let backend: Backend = arguments.what.parse().map_err(|_| unknown(&arguments.what))?;
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    machine::check_overrides(host)?;
    let state = machine::inspect(host, arguments.host.catalogue(context)?);
    let mut packages = gpubuild_doctor::signs::packages::observe(host, &state.facts);
    // The page says how to install a toolkit, also on a machine that has it.
    packages.installed.clear();
    let machine = ExplainedMachine {
        facts: &state.facts,
        inventory: &state.inventory,
        catalogue: &state.catalogue,
        matrix: &state.matrix,
        env: host.env(),
        packages: &packages,
    };
    let Some(document) = BackendDocument::new(&state.catalogue, backend, machine) else {
        return Err(Failure::usage(
            id!("explain.undescribed"),
            format!("the description of {backend} has no `about`"),
        )
        .hint("add `[about]` to its file in the folder of `--toolkits`"));
    };
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&explain_text::backend(&document, &paint))?;
    }
    Ok(Exit::Done)
}

/// The failure for an unknown name, with suggestions.
fn unknown(what: &str) -> Failure {
    let failure = Failure::usage(
        id!("explain.unknown"),
        format!("`{what}` is neither a backend nor the id of a finding or an error"),
    );
    let backend = what.parse::<Backend>().err().and_then(|unknown| unknown.nearest);
    match (backend, diagnostic::near(what).as_slice()) {
        (Some(near), _) => failure.hint(format!("did you mean `{near}`?")),
        (None, []) => failure.hint("`gpubuild doctor --list-checks` lists the ids of findings; backends are cpu, cuda, rocm, metal, vulkan, \
             sycl, opencl"),
        (None, [one]) => failure.hint(format!("did you mean `{one}`?")),
        (None, several) => failure.hint(format!("similar ids: {}", several.join(", "))),
    }
}
