//! What came of a build, and what bindings are made from.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::HostPath;
use gpubuild_plan::artifacts::{Interface, Manifest};

use super::cargo::Crate;
use super::missing::Missing;

/// What came of a build script's build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// The manifest; `None` where nothing was built: on docs.rs, or because something is missing.
    pub manifest: Option<Manifest>,
    /// Where it lies.
    pub path: Option<HostPath>,
    /// The backends that `cfg(gpubuild_backend)` names.
    pub backends: Vec<Backend>,
    /// Names of the static libraries that are linked.
    pub libraries: Vec<String>,
    /// What is missing; whoever links a program will be told.
    pub missing: Option<Missing>,
    /// What sources that use the libraries are compiled with: folders with headers, definitions.
    pub interface: Interface,
    /// Where headers and results lie.
    pub(super) place: Option<Place>,
}

/// Where a crate's headers and results lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) krate: Crate,
    /// The native project's folder.
    pub(super) source: Option<HostPath>,
    /// `headers` of gpubuild.toml.
    pub(super) headers: Vec<String>,
    pub(super) store: Option<Store>,
    pub(super) ignored: BTreeSet<String>,
}
