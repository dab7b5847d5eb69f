//! The programs that a build starts.

use gpubuild_host::HostPath;

use super::Inventory;

/// Programs that exist on the machine. The plan fetches missing ones if it is allowed to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstalledTools {
    /// CMake.
    pub cmake: Option<HostPath>,
    /// Ninja.
    pub ninja: Option<HostPath>,
    /// Python, to fetch tools with.
    pub python: Option<HostPath>,
    /// uv, to fetch tools with.
    pub uv: Option<HostPath>,
}

impl InstalledTools {
    /// The programs that were found. Versions that are too old are omitted; the plan fetches newer ones.
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
