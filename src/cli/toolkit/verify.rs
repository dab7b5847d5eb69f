//! `gpubuild toolkit verify`: checks the files of installed toolkits.

use gpubuild_toolchain::provision;

use super::{ToolkitSpec, ToolkitTarget};
use crate::cli::{CommandContext, Exit, Failure};
use crate::report;

/// Arguments of `toolkit verify`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitVerifyArguments {
    /// Toolkit and release [default: all installed]
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    spec: Option<ToolkitSpec>,
    #[command(flatten)]
    target: ToolkitTarget,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Verifies the toolkits and prints the result, which is negative if a toolkit is damaged.
pub(super) fn run(arguments: &ToolkitVerifyArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let installations = match &arguments.spec {
        Some(spec) => vec![arguments.target.find(context, spec)?],
        None => arguments.target.all(context)?,
    };
    let verified: Vec<_> =
        installations.iter().map(|one| (one, provision::verify(context.host, one))).collect();
    let document = report::toolkit::Verify::new(&verified);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    if document.is_good() {
        return Ok(Exit::Done);
    }
    context.printer.hint("reinstall it with `gpubuild toolkit remove` and `gpubuild toolkit install`");
    Ok(Exit::Negative)
}
