//! `gpubuild resolve`: selects the variant of a release for this machine, and explains why the others do not match.

mod install;

use gpubuild_detect::matrix::Probes;
use gpubuild_doctor::packages::choose;
use gpubuild_release::properties::properties;
use gpubuild_release::{ReleaseMachine, resolve};

use super::detect::role;
use super::install::data_folder;
use super::release::{ReleaseArguments, SignaturePolicy, examined_host, no_variant_failure};
use super::{CommandContext, Exit, Failure};
use crate::report::{self, packages};

/// Arguments of `resolve`.
#[derive(Debug, clap::Args)]
pub struct ResolveArguments {
    /// Folder of a release, its manifest.json, the URL of either, or `oci://HOST/NAME:TAG`
    #[arg(long, value_name = "PLACE", required_unless_present = "python", conflicts_with = "python")]
    manifest: Option<String>,
    /// Print the PyTorch, CuPy and ONNX Runtime packages for this machine, with their indexes, instead
    #[arg(long, conflicts_with_all = ["key", "name"])]
    python: bool,
    /// With `--python`: also print the wheel variant properties (PEP 817, 825) that fit this machine
    #[arg(long, requires = "python")]
    properties: bool,
    /// With `--python`: install the packages into a virtual environment; all that fit, or `torch`, `cupy`, `onnxruntime`
    #[arg(long, requires = "python", value_enum, value_name = "LIST", value_delimiter = ',', num_args = 0..,
          require_equals = true, conflicts_with = "host")]
    install: Option<Vec<install::PythonProduct>>,
    /// With `--install`: folder of the environment [default: `venv` of `[python]` in gpubuild.toml, else the active
    /// one, else .venv]
    #[arg(long, requires = "install", value_name = "DIR")]
    venv: Option<String>,
    #[command(flatten)]
    release: ReleaseArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Selects a variant, or with `--python` the Python packages.
pub fn run(arguments: &ResolveArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let Some(manifest) = &arguments.manifest else { return python(arguments, context) };
    let installation = |name: &str| Some(data_folder(context.host)?.join(name));
    let release = arguments.release.open(manifest, SignaturePolicy::Optional, &installation, context)?;
    let choice = resolve(&release.request()).map_err(|error| no_variant_failure(&error))?;
    if arguments.json {
        let document = report::resolve::ResolveReport::new(&release.manifest, &release.machine, &choice);
        context.printer.json(&document)?;
    } else {
        context.printer.print(&report::resolve::text(&choice, arguments.release.explain))?;
    }
    for one in &choice.fallback {
        context.printer.warning(&format!("{} is available but not used: {}", one.backend, one.reason));
    }
    if arguments.release.strict && !choice.fallback.is_empty() {
        let better: Vec<&str> = choice.fallback.iter().map(|one| one.backend.id()).collect();
        context.printer.warning(&format!("--strict: `{}` does not use {}", choice.label, better.join(", ")));
        return Ok(Exit::Negative);
    }
    Ok(Exit::Done)
}

/// Selects Python packages for this machine. Does not query drivers. With `--install`, installs them.
fn python(arguments: &ResolveArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.release.host.recorded(context)?;
    let host = examined_host(recorded.as_ref(), context);
    let state = arguments.release.inspect(context, host)?;
    let choices = choose(&state.facts, &state.inventory, &state.catalogue, &state.matrix, &Probes::new());
    let mut document = packages::PackagesReport::new(choices);
    if arguments.properties {
        let machine = ReleaseMachine::of(&state.facts, &state.matrix, &state.catalogue)
            .with_hidden_devices(host.env(), state.facts.platform.os);
        document.variant_properties = properties(&machine, &state.catalogue);
    }
    if let Some(products) = &arguments.install {
        let target = (products.as_slice(), arguments.venv.as_deref());
        document.installed = Some(install::run(context, &state, &document.gpus, target)?);
    }
    if arguments.json {
        context.printer.json(&document)?;
    } else if let Some(installed) = &document.installed {
        context.printer.print(&installed.text())?;
    } else {
        let paint = |tone, text: &str| context.printer.paint(role(tone), text);
        context.printer.print(&packages::text(&document, &paint))?;
        // Distributions do not let pip install into their own Python (PEP 668).
        context.printer.hint("`--install` installs them into a virtual environment");
    }
    Ok(Exit::Done)
}
