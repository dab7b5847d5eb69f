//! `gpubuild toolkit verify`.

use gpubuild_toolchain::provision;

use super::{WantedToolkit, failure};
use crate::cli::{CommandContext, Exit, Failure};
use crate::report;

/// Arguments of `toolkit verify`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitVerifyArguments {
    /// Toolkit and release [default: all installed]
    #[arg(value_name = "TOOLKIT[@RELEASE]")]
    wanted: Option<WantedToolkit>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Compares; the outcome is negative if anything is wrong.
pub(super) fn run(arguments: &ToolkitVerifyArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let installations = match &arguments.wanted {
        Some(wanted) => {
            let one = provision::find(context.host, &wanted.toolkit, wanted.release.as_ref());
            vec![one.map_err(|error| failure(&error))?]
        }
        None => provision::installations(context.host),
    };
    let verified: Vec<_> =
        installations.iter().map(|one| (one, provision::verify(context.host, one))).collect();
    let document = report::toolkit::Verify::new(&verified);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&document.text())?;
    }
    if document.is_good() {
        return Ok(Exit::Done);
    }
    context.printer.hint("`gpubuild toolkit remove` and `install` make it anew");
    Ok(Exit::Negative)
}
