//! The document of `gpubuild venv --json`.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::Finding;
use serde::Serialize;

use super::Schema;

/// An environment and what it was made for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VenvDocument {
    /// `venv`, 1.
    pub schema: Schema,
    /// The libraries that built files need, with who needs each.
    pub needed: Vec<NeededLibrary>,
    /// Backends that need no wheel, and why.
    pub none: BTreeMap<Backend, String>,
    /// The environment, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentPart>,
    /// What is worth knowing.
    pub findings: Vec<Finding>,
}

/// A library that is needed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NeededLibrary {
    /// `libcublas.so.12`.
    pub library: String,
    /// Who needs it.
    pub by: String,
    /// The package that holds it, if it is one that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// The environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvironmentPart {
    /// Its folder.
    pub path: String,
    /// Its Python.
    pub python: String,
    /// The version of its Python.
    pub python_version: String,
    /// `made` or `adopted`.
    pub origin: &'static str,
    /// The release of CUDA that its wheels are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Its wheels, in the order in which their libraries are loaded.
    pub wheels: Vec<WheelPart>,
    /// Folders with libraries.
    pub folders: Vec<String>,
    /// What the libraries answered when they were loaded: `cudart` and `cublas`.
    pub answers: BTreeMap<&'static str, String>,
    /// Whether they were loaded by this call; an earlier one did otherwise.
    pub loaded_now: bool,
    /// Libraries that were copied, with `--copy-to`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copied: Vec<String>,
}

/// A wheel of the environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WheelPart {
    /// Its package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// `present`, `installed` or `replaced`.
    pub state: &'static str,
    /// The sums that it may have.
    pub sha256: Vec<String>,
}
