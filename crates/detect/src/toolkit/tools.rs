//! The programs that a build starts.

use gpubuild_host::HostPath;

use super::Inventory;

/// Programs that are on the machine. What is missing is fetched if the plan says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// CMake.
    pub cmake: Option<HostPath>,
    /// Ninja.
    pub ninja: Option<HostPath>,
    /// Python, for fetching.
    pub python: Option<HostPath>,
    /// uv, for fetching.
    pub uv: Option<HostPath>,
}

impl Tools {
    /// Those that were found. In place of those that are too old, the plan fetches others.
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
