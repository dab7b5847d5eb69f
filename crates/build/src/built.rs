//! The result of a build, and the inputs for bindings.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::HostPath;
use gpubuild_plan::artifacts::{BuiltInterface, Manifest};

use super::cargo::BuildingCrate;
use super::missing::MissingRequirement;

/// The result of a build script's build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// The manifest; `None` if nothing was built: on docs.rs, or because something is missing.
    pub manifest: Option<Manifest>,
    /// The manifest's path.
    pub path: Option<HostPath>,
    /// The backends for which `cfg(gpubuild_backend)` is set.
    pub backends: Vec<Backend>,
    /// Names of the static libraries that are linked.
    pub libraries: Vec<String>,
    /// The missing toolkit or tool; linking a program reports it.
    pub missing: Option<MissingRequirement>,
    /// The include folders and definitions for sources that use the libraries.
    pub interface: BuiltInterface,
    /// The folders of headers and results.
    pub(super) place: Option<BuildFolders>,
}

/// The folders of a crate's headers and results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildFolders {
    pub(super) krate: BuildingCrate,
    /// The native project's folder.
    pub(super) source: Option<HostPath>,
    /// `headers` of gpubuild.toml.
    pub(super) headers: Vec<String>,
    pub(super) store: Option<Store>,
    pub(super) ignored: BTreeSet<String>,
}
