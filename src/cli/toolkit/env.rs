//! `gpubuild toolkit env`: prints the shell commands that activate a toolkit.

use gpubuild_detect::id;
use gpubuild_host::Os;
use gpubuild_toolchain::provision::env::{self, EnvFormat};
use gpubuild_toolchain::provision::{self, Prefix};

use super::{ToolkitSpec, ToolkitTarget, failure};
use crate::cli::{CommandContext, Exit, Failure, values};
use crate::report;

/// Arguments of `toolkit env`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitEnvArguments {
    /// Toolkit and release: `cuda` (the newest installed), `cuda@13.0` [default: the only installed toolkit]
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    spec: Option<ToolkitSpec>,
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
    let only;
    let spec = if let Some(spec) = &arguments.spec {
        spec
    } else {
        only = only_installed(&arguments.target, context)?;
        &only
    };
    let one = arguments.target.find(context, spec)?;
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

/// The toolkit that is installed for the target or, without a target, for this machine, if there is only one.
fn only_installed(target: &ToolkitTarget, context: &CommandContext<'_>) -> Result<ToolkitSpec, Failure> {
    let target = target.get()?;
    let is_for = |one: &Prefix| one.record.target.as_deref() == target.triple();
    let installed = provision::installations(context.host).into_iter().filter(is_for);
    // They are sorted by name.
    let mut names: Vec<String> = installed.map(|one| one.record.toolkit).collect();
    names.dedup();
    match names.as_slice() {
        [] => Err(Failure::usage(id!("toolkit.not-installed"), "gpubuild has installed no toolkit")
            .hint("`gpubuild toolkit list` shows what can be installed here")),
        [one] => Ok(ToolkitSpec { toolkit: one.clone(), release: None }),
        [first, ..] => {
            let message = format!("several toolkits are installed: {}", names.join(", "));
            let hint = format!("name one of them: `gpubuild toolkit env {first}`");
            Err(Failure::usage(id!("toolkit.several"), message).hint(hint))
        }
    }
}
