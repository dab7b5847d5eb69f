//! `gpubuild toolkit list`: lists installed and available toolkits.

use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::folders::toolkit_folder;
use gpubuild_toolchain::provision;

use crate::cli::{CommandContext, Exit, Failure, check_listable};
use crate::report;

/// Arguments of `toolkit list`.
#[derive(Debug, clap::Args)]
pub(super) struct ToolkitListArguments {
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints the list.
pub(super) fn run(arguments: &ToolkitListArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if let Some(folder) = toolkit_folder(context.host) {
        check_listable(context.host, &folder)?;
    }
    let installed = provision::installations(context.host);
    let facts = gpubuild_detect::facts::gather(context.host);
    let document = report::toolkit::ToolkitListReport::new(&installed, &Catalogue::embedded(), &facts);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}
