//! The document of `gpubuild venv --json`.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::Finding;
use serde::Serialize;

use super::Schema;

/// The document of `venv --json`: a Python environment, and the libraries that it provides.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VenvDocument {
    /// `venv`.
    pub schema: Schema,
    /// The libraries that the built files need from wheels.
    pub needed: Vec<NeededLibrary>,
    /// Backends that do not need a wheel, each with the reason.
    pub none: BTreeMap<Backend, String>,
    /// The environment; absent if none was created or used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentPart>,
    /// The lock file that was written (`--lock`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Findings about the environment.
    pub findings: Vec<Finding>,
}

/// A needed library.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NeededLibrary {
    /// Its name: `libcublas.so.12`.
    pub library: String,
    /// The file that needs it.
    pub by: String,
    /// The Python package that contains it, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// A Python environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvironmentPart {
    /// Its folder.
    pub path: String,
    /// Path of its Python.
    pub python: String,
    /// Version of its Python.
    pub python_version: String,
    /// `made` if gpubuild created it, `adopted` if it existed.
    pub origin: &'static str,
    /// The CUDA release of its wheels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Its wheels, in load order of their libraries.
    pub wheels: Vec<WheelPart>,
    /// Folders that contain the libraries.
    pub folders: Vec<String>,
    /// Versions that the libraries `cudart` and `cublas` reported when they were loaded.
    pub answers: BTreeMap<&'static str, String>,
    /// Whether this call loaded them; `false` if the result is from an earlier call.
    pub loaded_now: bool,
    /// Libraries that were copied (`--copy-to`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copied: Vec<String>,
}

/// A wheel of an environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WheelPart {
    /// Name of its package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// `present`, `installed` or `replaced` (another version was installed).
    pub state: &'static str,
    /// The accepted sha256 hashes of its file, one per platform.
    pub sha256: Vec<String>,
}
