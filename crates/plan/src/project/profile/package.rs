//! CMake packages in wheels, and the toolkits that they were built with.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use serde::Deserialize;

/// A CMake package in the Python environment of a project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelPackage {
    /// Name for `find_package`: `Torch`.
    pub name: String,
    /// Folder of the Python package in `site-packages`.
    pub wheel: String,
    /// The folder in it with the configuration: `share/cmake/Torch`.
    pub config: String,
    /// C++ namespaces of its interface that changes with every release, so that libraries work with one release only.
    #[serde(default)]
    pub unstable: Vec<String>,
    /// The toolkits that it may have been built with, which its configuration then looks for.
    #[serde(default, rename = "toolkit")]
    pub toolkits: Vec<PackageToolkit>,
}

/// A toolkit that a CMake package in a wheel looks for if it was built with it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageToolkit {
    /// The backend of the toolkit.
    pub backend: Backend,
    /// The file of the Python package with the toolkit's version: `version.py`.
    pub file: String,
    /// The variable in it: `cuda` in `cuda = '13.2'`.
    pub variable: String,
    /// Cache entries that locate the toolkit: `{root}` is its folder, `{headers}` the list of folders with headers. Without such folders,
    /// entries that name them are left out.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Variables for CMake that locate the toolkit, for configurations that read the environment only. `{root}` is its folder.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Patterns below `site-packages` for the headers of the toolkit's libraries, which come in other wheels.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The oldest CMake that compiles for this toolkit with the package's language standard.
    pub cmake: Option<Version>,
}
