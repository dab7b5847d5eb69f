//! `gpubuild toolkit install` with the packages of the distribution.

use gpubuild_detect::facts::Facts;
use gpubuild_exec::exec::BuildEvent;
use gpubuild_host::Host;
use gpubuild_toolchain::packages::{self, PackageError, PackageRequest};
use gpubuild_toolchain::provision::ProvisionError;

use super::failure;
use super::install::{ToolkitInstallArguments, finish};
use crate::cli::events::{Events, MessageFormat};
use crate::cli::provision::folders;
use crate::cli::{CommandContext, Exit, Failure};
use crate::report;

/// Installs the toolkit, or with `--dry-run` prints the preview.
pub(super) fn run(
    arguments: &ToolkitInstallArguments,
    context: &CommandContext<'_>,
    host: &dyn Host,
    facts: &Facts,
) -> Result<Exit, Failure> {
    let toolkit = arguments.spec.toolkit.clone();
    let to_failure = |error: ProvisionError| failure(&error);
    if arguments.spec.release.is_some() {
        return Err(to_failure(PackageError::NoRelease { toolkit }.into()));
    }
    if !arguments.with.is_empty() {
        return Err(to_failure(PackageError::NoComponents { toolkit }.into()));
    }
    let request = PackageRequest {
        toolkit,
        find_links: folders(context, &arguments.find_links)?,
        network: arguments.network.network(host),
    };
    if arguments.dry_run {
        let preview = packages::preview(host, facts, &request).map_err(to_failure)?;
        let document = report::toolkit_packages::PackageDryRun::new(&preview);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            context.printer.print(&document.text())?;
        }
        return Ok(Exit::Done);
    }
    let events = Events::new(context.printer, MessageFormat::Human);
    let sink = |event: &BuildEvent| events.show(event);
    let result = packages::install(host, facts, &request, &sink);
    drop(events);
    finish(arguments, context, &result.map_err(to_failure)?, None)
}
