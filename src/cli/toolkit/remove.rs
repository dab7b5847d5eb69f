//! `gpubuild toolkit remove`.

use gpubuild_plan::plan::bytes;
use gpubuild_toolchain::provision;

use super::{WantedToolkit, failure};
use crate::cli::{CommandContext, Exit, Failure};
use crate::report;

/// Arguments of `toolkit remove`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitRemoveArguments {
    /// Toolkit and release: `cuda` (the newest installed), `cuda@13.0`
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    wanted: WantedToolkit,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Removes one.
pub(super) fn run(arguments: &ToolkitRemoveArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let told = |error| failure(&error);
    let wanted = &arguments.wanted;
    let one = provision::find(context.host, &wanted.toolkit, wanted.release.as_ref()).map_err(told)?;
    let waiting = || context.printer.say("waiting for an installation of it that is under way");
    provision::remove(context.host, &one, &waiting).map_err(told)?;
    if arguments.json {
        context.printer.json(&report::toolkit::Remove::new(&one))?;
    } else {
        let freed = bytes::show(one.record.bytes);
        context.printer.say(&format!("removed {} ({freed}) from {}", one.label(), one.folder));
    }
    Ok(Exit::Done)
}
