//! The programs that a build runs.

use gpubuild_host::HostPath;

use super::Inventory;

/// Installed programs. The plan installs missing ones if it is allowed to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstalledTools {
    /// CMake.
    pub cmake: Option<HostPath>,
    /// Ninja.
    pub ninja: Option<HostPath>,
    /// Python, for installing tools.
    pub python: Option<HostPath>,
    /// uv, for installing tools.
    pub uv: Option<HostPath>,
}

impl InstalledTools {
    /// Collects the programs in an inventory. Programs that are too old are omitted, so that the plan installs newer ones.
    #[must_use]
    pub fn of(inventory: &Inventory) -> Self {
        let program = |id: &str| inventory.chosen(id).and_then(|copy| copy.part("program")).cloned();
        Self {
            cmake: program("cmake"),
            ninja: program("ninja"),
            python: program("python"),
            uv: program("uv"),
        }
    }
}
