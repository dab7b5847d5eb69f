//! The machine that a command examines: this one, or the recording that `--host` names.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_host::{HostInfo, InspectHost, RecordedHost};
pub use gpubuild_plan::machine::{MachineState, inspect};

use super::target::SelectedTarget;
use super::{CommandContext, Failure};

/// Options that select the machine and the toolkit descriptions.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HostArguments {
    /// Use a recorded machine instead of this one
    #[arg(long, value_name = "FILE")]
    pub host: Option<String>,
    /// Folder with additional toolkit descriptions; a known id replaces the built-in one
    #[arg(long, value_name = "DIR")]
    pub toolkits: Option<String>,
}

impl HostArguments {
    /// The recorded host that `--host` names; `None` without the option.
    pub fn recorded(&self, context: &CommandContext<'_>) -> Result<Option<RecordedHost>, Failure> {
        let Some(file) = &self.host else { return Ok(None) };
        let path = super::absolute(context, file)?;
        let recorded = RecordedHost::load(context.host, &path)
            .map_err(|error| Failure::usage(id!("host.recording-invalid"), error.to_string()))?;
        Ok(Some(recorded))
    }

    /// The built-in toolkit descriptions and those of `--toolkits`.
    pub fn catalogue(&self, context: &CommandContext<'_>) -> Result<Catalogue, Failure> {
        let mut catalogue = Catalogue::embedded();
        if let Some(folder) = &self.toolkits {
            let folder = super::absolute(context, folder)?;
            catalogue
                .add_folder(context.host, &folder)
                .map_err(|error| Failure::usage(id!("toolkit.description-invalid"), error.to_string()))?;
        }
        Ok(catalogue)
    }
}

/// Inspects a host that builds for a target. The compilers of the host are not needed for another target.
pub fn inspect_for(host: &dyn InspectHost, catalogue: Catalogue, target: &SelectedTarget) -> MachineState {
    let mut machine = inspect(host, catalogue);
    if let Some(target) = target.target() {
        gpubuild_plan::planning::cross::adapt(host, &mut machine, target);
    }
    machine
}

/// Inspects a host and adds the errors of the doctor's checks to the verdicts, so that every command reports the same states. Queries
/// the `drivers` of these backends; if there are any, also programs.
pub fn inspect_with_states(
    host: &dyn InspectHost,
    catalogue: Catalogue,
    drivers: &[Backend],
) -> Result<MachineState, Failure> {
    check_overrides(host)?;
    let mut machine = inspect(host, catalogue);
    let probes = if drivers.is_empty() { Probes::new() } else { probe(host, &mut machine, drivers) };
    let MachineState { facts, catalogue, inventory, matrix, .. } = &machine;
    machine.matrix = gpubuild_doctor::states(host, facts, inventory, catalogue, matrix, &probes);
    Ok(machine)
}

/// Queries programs whose version no file contains, and the drivers of these backends, and evaluates the machine again.
pub fn probe(host: &dyn InspectHost, machine: &mut MachineState, backends: &[Backend]) -> Probes {
    toolkit::query_programs(host, &machine.catalogue, &mut machine.inventory);
    let probes = toolkit::probe_drivers(host, backends);
    machine.matrix =
        gpubuild_plan::offer::evaluate(&machine.facts, &machine.inventory, &machine.catalogue, &probes);
    probes
}

/// Rejects invalid entries of `GPUBUILD_SET`: ignoring a typo would leave the observed value in place.
pub fn check_overrides(host: &dyn HostInfo) -> Result<(), Failure> {
    match gpubuild_plan::machine::bad_override(host) {
        None => Ok(()),
        Some(bad) => Err(Failure::usage(
            id!("host.override-invalid"),
            format!("`{}` in GPUBUILD_SET {}", bad.part, bad.why),
        )
        .hint("write `key=value` separated by commas: `GPUBUILD_SET=\"cuda.driver=550.54,cuda.cc=90\"`")),
    }
}
