//! The patched copy of a project's sources.

use gpubuild_host::HostPath;
use serde::Serialize;

/// A planned copy of the sources with patches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceCopy {
    /// The original sources, which the build does not modify.
    pub from: HostPath,
    /// The copy in the build folder.
    pub to: HostPath,
    /// Patches in order of application.
    pub patches: Vec<PlannedPatch>,
}

/// A unified diff to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedPatch {
    /// Path of the diff.
    pub path: HostPath,
    /// Whether to skip it if it does not apply.
    pub optional: bool,
}
