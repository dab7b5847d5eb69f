//! `gpubuild toolkit install` with the packages of the distribution.

use gpubuild_detect::matrix::install_command;
use gpubuild_exec::exec::BuildEvent;
use gpubuild_host::Host;
use gpubuild_plan::wheels::TargetWheels;
use gpubuild_toolchain::packages::{self, PackageRequest};
use gpubuild_toolchain::provision::{PackageError, ProvisionError, kit};

use super::failure;
use super::install::{ToolkitInstallArguments, finish};
use crate::cli::events::{Events, MessageFormat};
use crate::cli::machine::MachineState;
use crate::cli::provision::folders;
use crate::cli::{CommandContext, Exit, Failure};
use crate::report;

/// Installs the toolkit, or with `--dry-run` prints the preview.
pub(super) fn run(
    arguments: &ToolkitInstallArguments,
    context: &CommandContext<'_>,
    host: &dyn Host,
    machine: &MachineState,
    target: Option<TargetWheels>,
) -> Result<Exit, Failure> {
    let toolkit = arguments.spec.toolkit.clone();
    let facts = &machine.facts;
    let to_failure = |error: ProvisionError| {
        let failure = failure(&with_command(error, &arguments.spec.toolkit, machine));
        or_wheels(failure, &arguments.spec.toolkit, machine)
    };
    if arguments.spec.release.is_some() {
        return Err(to_failure(PackageError::NoRelease { toolkit }.into()));
    }
    let request = PackageRequest {
        toolkit,
        with: arguments.with.clone(),
        find_links: folders(context, &arguments.find_links)?,
        target,
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

/// Adds what else to do on a distribution that no set describes: its own command, or another distribution.
fn with_command(error: ProvisionError, toolkit: &str, machine: &MachineState) -> ProvisionError {
    match error {
        ProvisionError::Packages(PackageError::NotHere(mut objection)) if objection.hint.is_none() => {
            let description = machine.catalogue.get(toolkit);
            let command = description.and_then(|one| install_command(&machine.facts, &one.install));
            objection.hint = Some(match command {
                Some(command) => format!("run `{command}`"),
                None => "build in a container of one of these distributions".to_owned(),
            });
            PackageError::NotHere(objection).into()
        }
        other => other,
    }
}

/// Names the vendor's wheels as another way, if the failure is about the distribution or its release and there are wheels.
fn or_wheels(mut failure: Failure, toolkit: &str, machine: &MachineState) -> Failure {
    let of_distribution =
        matches!(failure.id.as_str(), "toolkit.no-packages-here" | "toolkit.unknown-release");
    let Some(kit) = kit::embedded().kits.get(toolkit).filter(|_| of_distribution) else { return failure };
    let offered = machine.catalogue.get(toolkit).and_then(|one| one.offered.as_deref());
    let is_here = kit.on.is_empty() || kit.on.contains(&machine.facts.platform.os);
    if let (Some(offered), true) = (offered, is_here) {
        let lock = format!("or pin the vendor's wheels: `gpubuild toolkit lock {toolkit}@{}`", offered.since);
        failure.hint = Some(failure.hint.map_or_else(|| lock.clone(), |hint| format!("{hint}, {lock}")));
    }
    failure
}
