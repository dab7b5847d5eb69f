//! Collects the state of a machine: facts, toolkit installations and backend verdicts. Used by every command and by build
//! scripts.

use std::collections::BTreeMap;

use gpubuild_detect::facts::overrides::{self, BadSet};
use gpubuild_detect::facts::{self, Facts};
use gpubuild_detect::matrix::Matrix;
use gpubuild_detect::toolkit::{self, Catalogue, Installation, Inventory};
use gpubuild_host::{HostInfo, InspectHost};

use crate::target::NamedHostCompiler;

/// The collected state of a machine.
pub struct MachineState {
    /// Hardware, drivers and system facts.
    pub facts: Facts,
    /// The toolkit descriptions that were searched for.
    pub catalogue: Catalogue,
    /// The toolkit installations that were found.
    pub inventory: Inventory,
    /// The verdict per backend.
    pub matrix: Matrix,
    /// The toolkits that gpubuild installed for the platform to build for, if that is another one.
    pub for_target: BTreeMap<String, Vec<Installation>>,
    /// The host compiler of nvcc that a variable names, in builds for another platform.
    pub host_compiler: Option<NamedHostCompiler>,
}

/// Collects the state of a host from files, variables and commands; does not probe driver libraries.
#[must_use]
pub fn inspect(host: &dyn InspectHost, catalogue: Catalogue) -> MachineState {
    let facts = facts::gather(host);
    let inventory = toolkit::probe(host, &catalogue);
    let matrix = crate::offer::evaluate(&facts, &inventory, &catalogue, &BTreeMap::new());
    MachineState { facts, catalogue, inventory, matrix, for_target: BTreeMap::new(), host_compiler: None }
}

/// The first invalid entry of `GPUBUILD_SET`. Callers report it, since ignoring a typo would leave the observed value in place.
#[must_use]
pub fn bad_override(host: &dyn HostInfo) -> Option<BadSet> {
    overrides::parse_set(host.env().get("GPUBUILD_SET").unwrap_or_default()).1.into_iter().next()
}
