//! The sources that are built.

use gpubuild_host::HostPath;
use serde::Serialize;

/// A copy of the sources, with patches applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceCopy {
    /// The project's sources; they are only read.
    pub from: HostPath,
    /// The copy in the build folder.
    pub to: HostPath,
    /// Patches in the order in which they are applied.
    pub patches: Vec<PlannedPatch>,
}

/// A unified diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedPatch {
    /// Its file.
    pub path: HostPath,
    /// Whether it is passed over where it does not apply.
    pub optional: bool,
}
