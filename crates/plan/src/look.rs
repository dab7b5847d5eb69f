//! Looking at a machine: what is there, what was found of the toolkits, and what follows. Shared by every command and by
//! build scripts.

use std::collections::BTreeMap;

use gpubuild_detect::facts::overrides::{self, BadSet};
use gpubuild_detect::facts::{self, Facts};
use gpubuild_detect::matrix::Matrix;
use gpubuild_detect::toolkit::{self, Catalogue, Inventory};
use gpubuild_host::{HostInfo, InspectHost};

/// Everything seen of a machine.
pub struct MachineState {
    /// What is there.
    pub facts: Facts,
    /// The descriptions that were looked for.
    pub catalogue: Catalogue,
    /// What was found of them.
    pub inventory: Inventory,
    /// What follows.
    pub matrix: Matrix,
}

/// Looks at a host without asking any driver.
#[must_use]
pub fn look(host: &dyn InspectHost, catalogue: Catalogue) -> MachineState {
    let facts = facts::gather(host);
    let inventory = toolkit::probe(host, &catalogue);
    let matrix = crate::offer::evaluate(&facts, &inventory, &catalogue, &BTreeMap::new());
    MachineState { facts, catalogue, inventory, matrix }
}

/// The first override that means nothing: a typing error must not pass for an observation.
#[must_use]
pub fn bad_override(host: &dyn HostInfo) -> Option<BadSet> {
    overrides::parse_set(host.env().get("GPUBUILD_SET").unwrap_or_default()).1.into_iter().next()
}
