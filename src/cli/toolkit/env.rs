//! `gpubuild toolkit env`: prints the shell commands that activate a toolkit.

use gpubuild_host::Os;
use gpubuild_toolchain::provision::env::{self, EnvFormat};

use super::{ToolkitSpec, ToolkitTarget, failure};
use crate::cli::{CommandContext, Exit, Failure, values};
use crate::report;

/// Arguments of `toolkit env`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitEnvArguments {
    /// Toolkit and release: `cuda` (the newest installed), `cuda@13.0`
    #[arg(value_name = "TOOLKIT[@RELEASE]", default_value = "cuda")]
    spec: ToolkitSpec,
    #[command(flatten)]
    target: ToolkitTarget,
    /// Shell [default: `powershell` on Windows, else `sh`]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<values::Variables>,
    /// Print one JSON document (same as `--format json`)
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ToolkitEnvArguments {
    /// Whether standard output is one JSON document.
    pub(super) fn is_json(&self) -> bool {
        self.json || self.format == Some(values::Variables::Json)
    }
}

/// Prints the environment of an installed toolkit.
pub(super) fn run(arguments: &ToolkitEnvArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let one = arguments.target.find(context, &arguments.spec)?;
    let os = context.host.platform().os;
    let settings = env::settings(&one, os);
    let default = if os == Os::Windows { EnvFormat::Powershell } else { EnvFormat::Sh };
    let format =
        if arguments.json { EnvFormat::Json } else { arguments.format.map_or(default, EnvFormat::from) };
    match format {
        EnvFormat::Json => context.printer.json(&report::toolkit::Env::new(&one, &settings))?,
        format => {
            let lines = env::lines(&settings, format, os, context.host.env());
            context.printer.print_input(&lines.map_err(|error| failure(&error))?)?;
        }
    }
    Ok(Exit::Done)
}
