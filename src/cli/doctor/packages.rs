//! `doctor --packages`: which Python packages fit the GPUs of this machine.

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit;
use gpubuild_doctor::packages::choose;
use gpubuild_host::Host;

use super::DoctorArguments;
use crate::cli::detect::role;
use crate::cli::{CommandContext, Exit, Failure, look};
use crate::report::packages::{PackagesReport, text};

/// Looks and tells.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    look::check_overrides(host)?;
    let mut sight = look::look(host, arguments.host.catalogue(context)?);
    let mut probes = Probes::new();
    if !arguments.offline {
        probes = toolkit::ask_drivers(host, &Backend::ALL);
        sight.matrix =
            gpubuild_plan::offer::evaluate(&sight.facts, &sight.inventory, &sight.catalogue, &probes);
    }
    let choices = choose(&sight.facts, &sight.inventory, &sight.catalogue, &sight.matrix, &probes);
    let document = PackagesReport::new(choices);
    if arguments.is_json() {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&text(&document, &|tone, text| context.printer.paint(role(tone), text)))?;
    }
    Ok(Exit::Done)
}
