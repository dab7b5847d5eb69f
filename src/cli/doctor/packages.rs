//! `doctor --packages`: selects the PyTorch and CuPy packages for the GPUs of this machine.

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit;
use gpubuild_doctor::packages::choose;
use gpubuild_host::Host;

use super::DoctorArguments;
use crate::cli::detect::role;
use crate::cli::{CommandContext, Exit, Failure, machine};
use crate::report::packages::{PackagesReport, text};

/// Inspects the machine and prints the packages.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    machine::check_overrides(host)?;
    let mut machine = machine::inspect(host, arguments.host.catalogue(context)?);
    let mut probes = Probes::new();
    if !arguments.offline {
        probes = toolkit::probe_drivers(host, &Backend::ALL);
        machine.matrix =
            gpubuild_plan::offer::evaluate(&machine.facts, &machine.inventory, &machine.catalogue, &probes);
    }
    let choices = choose(&machine.facts, &machine.inventory, &machine.catalogue, &machine.matrix, &probes);
    let document = PackagesReport::new(choices);
    if arguments.is_json() {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&text(&document, &|tone, text| context.printer.paint(role(tone), text)))?;
    }
    Ok(Exit::Done)
}
