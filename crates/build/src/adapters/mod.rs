//! Settings of a plan for crates that run CMake or a compiler themselves.

#[cfg(feature = "cc")]
mod cc;
#[cfg(feature = "cmake")]
mod cmake;

use gpubuild_core::backend::Backend;
use gpubuild_plan::plan::PlannedTree;

#[cfg(feature = "cc")]
pub use self::cc::Language;
use super::Planned;

impl Planned {
    /// Whether a backend is in the plan.
    #[must_use]
    pub fn has(&self, backend: Backend) -> bool {
        self.plan.backends.contains(&backend)
    }

    /// Why a requested backend is not in the plan, in one line; only with [`allow_missing`](super::Build::allow_missing).
    #[must_use]
    pub fn why_not(&self, backend: Backend) -> Option<&str> {
        let dropped = self.plan.dropped.iter().find(|dropped| dropped.id == backend)?;
        Some(dropped.reasons.first().map_or("it cannot be built here", |reason| {
            // A value for cargo must be a single line.
            reason.lines().next().unwrap_or_default()
        }))
    }

    /// The tree that has a backend.
    #[must_use]
    pub fn tree(&self, backend: Backend) -> Option<&PlannedTree> {
        self.plan.trees.iter().find(|tree| tree.backends.contains(&backend))
    }
}
