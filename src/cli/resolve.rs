//! `gpubuild resolve`: which variant of a release is for this machine, and why not the others.

use gpubuild_detect::matrix::Probes;
use gpubuild_doctor::packages::choose;
use gpubuild_release::properties::properties;
use gpubuild_release::{Machine, resolve};

use super::detect::role;
use super::release::{ReleaseArguments, Signed, looked_at, of_nothing};
use super::{Context, Exit, Failure};
use crate::report::{self, packages};

/// Arguments of `resolve`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder of a release, its manifest.json, the address of either, or `oci://HOST/NAME:TAG`
    #[arg(long, value_name = "PLACE", required_unless_present = "python", conflicts_with = "python")]
    manifest: Option<String>,
    /// Name the Python packages for this machine instead: PyTorch, CuPy, ONNX Runtime, and their indexes
    #[arg(long, conflicts_with_all = ["key", "name"])]
    python: bool,
    /// With `--python`: the properties of wheel variants (PEP 817, 825) that suit this machine as well
    #[arg(long, requires = "python")]
    properties: bool,
    #[command(flatten)]
    release: ReleaseArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Resolves.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let Some(manifest) = &arguments.manifest else { return python(arguments, context) };
    let release = arguments.release.open(manifest, Signed::AsAsked, context)?;
    let choice = resolve(&release.question()).map_err(|nothing| of_nothing(&nothing))?;
    if arguments.json {
        let document = report::resolve::Document::new(&release.manifest, &release.machine, &choice);
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&report::resolve::text(&choice, arguments.release.explain))?;
    }
    for one in &choice.fallback {
        context.printer.warning(&format!("{} is here and not used: {}", one.backend, one.reason));
    }
    if arguments.release.strict && !choice.fallback.is_empty() {
        let better: Vec<&str> = choice.fallback.iter().map(|one| one.backend.id()).collect();
        context.printer.warning(&format!("--strict: `{}` does not use {}", choice.label, better.join(", ")));
        return Ok(Exit::Negative);
    }
    Ok(Exit::Done)
}

/// The same question for wheels. No driver is asked.
fn python(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.release.host.recorded(context)?;
    let host = looked_at(recorded.as_ref(), context);
    let sight = arguments.release.sight(context, host)?;
    let choices = choose(&sight.facts, &sight.inventory, &sight.catalogue, &sight.matrix, &Probes::new());
    let mut document = packages::Document::new(choices);
    if arguments.properties {
        let machine = Machine::of(&sight.facts, &sight.matrix, &sight.catalogue);
        document.variant_properties = properties(&machine, &sight.catalogue);
    }
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        let paint = |tone, text: &str| context.printer.paint(role(tone), text);
        context.printer.answer(&packages::text(&document, &paint))?;
    }
    Ok(Exit::Done)
}
