//! `gpubuild toolkit remove`: removes an installed toolkit.

use gpubuild_plan::plan::bytes;
use gpubuild_toolchain::provision;

use super::{ToolkitSpec, ToolkitTarget, failure};
use crate::cli::{CommandContext, Exit, Failure};
use crate::report;

/// Arguments of `toolkit remove`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitRemoveArguments {
    /// Toolkit and release: `cuda` (the newest installed), `cuda@13.0`
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    spec: ToolkitSpec,
    #[command(flatten)]
    target: ToolkitTarget,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Removes the toolkit. Waits for a running installation of it.
pub(super) fn run(arguments: &ToolkitRemoveArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let one = arguments.target.find(context, &arguments.spec)?;
    let waiting = || context.printer.status("waiting for a running installation of the toolkit");
    provision::remove(context.host, &one, &waiting).map_err(|error| failure(&error))?;
    if arguments.json {
        context.printer.json(&report::toolkit::Remove::new(&one))?;
    } else {
        let freed = bytes::show(one.record.bytes);
        context.printer.status(&format!("removed {} ({freed}) from {}", one.label(), one.folder));
    }
    Ok(Exit::Done)
}
