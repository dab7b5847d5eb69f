//! `gpubuild pack --format wheel`: writes a Python wheel with the libraries of a build, and the source distribution of a project.
//!
//! ```text
//! pyproject.toml -> project      name, version and other metadata
//! build          -> contents     the files of the package, with built libraries and their search path
//!                -> tag          (pure) the Python, ABI and platform tags
//!                -> interface    (pure) libraries that work with one release of another package only
//!                -> variant      (pure) the properties of a variant wheel
//!                -> vendor       (pure) the wheels that contain NVIDIA's libraries
//!                -> info         the metadata
//!                -> archive      a ZIP archive whose bytes depend on its files only
//! ```

pub mod archive;
pub mod contents;
pub mod edit;
pub mod fields;
pub mod info;
pub mod interface;
pub mod module;
pub mod project;
pub mod sdist;
pub mod tag;
pub mod variant;
pub mod vendor;
mod walk;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use serde::Serialize;

use crate::pack::PackError;

/// Why no wheel was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WheelError {
    /// gpubuild.toml names no Python package.
    #[error("gpubuild.toml has no `package` in [python]")]
    NoPackage,
    /// The package cannot be packed.
    #[error("the Python package `{path}` {what}")]
    Package {
        /// Its folder.
        path: String,
        /// The problem.
        what: String,
    },
    /// The metadata of the project are missing or invalid.
    #[error("`{path}`: {what}")]
    Metadata {
        /// The file.
        path: String,
        /// The problem.
        what: String,
    },
    /// The version is dynamic, and no file contains it in a way that is supported.
    #[error("`{path}`: {what}")]
    Version {
        /// The file with the metadata.
        path: String,
        /// The problem.
        what: String,
    },
    /// The build has no library that Python can load.
    #[error("the build has neither a shared library nor a module")]
    NoLibrary,
    /// The Python version of an extension module is unknown, or two modules are for different ones.
    #[error("{0}")]
    Abi(String),
    /// A needed library can be neither required from a wheel nor copied into this one.
    #[error("`{name}` cannot be part of a wheel: {what}")]
    Library {
        /// The library.
        name: String,
        /// The problem.
        what: String,
    },
    /// The wheel is too large for its format.
    #[error("`{0}` is too large for a wheel, whose files have less than 4 GiB")]
    Large(String),
    /// The list of variants that is there cannot be extended.
    #[error("the variants cannot be added to `{path}`: {what}")]
    Variants {
        /// The file.
        path: String,
        /// The problem.
        what: String,
    },
    /// Another error of packing.
    #[error(transparent)]
    Pack(#[from] PackError),
}

impl Diagnostic for WheelError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoPackage => id!("wheel.no-package"),
            Self::Package { .. } => id!("wheel.package"),
            Self::Metadata { .. } => id!("wheel.metadata"),
            Self::Version { .. } => id!("wheel.version"),
            Self::NoLibrary => id!("wheel.no-library"),
            Self::Abi(_) => id!("wheel.abi"),
            Self::Library { .. } => id!("wheel.library"),
            Self::Large(_) => id!("wheel.large"),
            Self::Variants { .. } => id!("wheel.variants"),
            Self::Pack(error) => error.id(),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoPackage => {
                "add `package = \"FOLDER\"`, the folder of the Python package with its `__init__.py`"
            }
            Self::Package { .. } => "correct `package` or `libraries` in [python] of gpubuild.toml",
            Self::Metadata { .. } => {
                "the table [project] of pyproject.toml needs `name`, and `version` as plain text or in `dynamic`"
            }
            Self::Version { .. } => {
                "write `version = \"…\"` in [project] instead of `dynamic`, or `__version__ = \"…\"` in the package's `__init__.py`, \
                 or name the file and an expression: `provider = \"scikit_build_core.metadata.regex\"`, `input` and `regex` in \
                 [tool.scikit-build.metadata.version]"
            }
            Self::NoLibrary => {
                "add a SHARED or MODULE library to `targets` in [project], or set `linkage = \"shared\"`"
            }
            Self::Abi(_) => "build extension modules with `Python_add_library(NAME MODULE WITH_SOABI …)`",
            Self::Library { .. } => {
                "link it statically, or add it to `leave` in [pack] if users' machines provide it"
            }
            Self::Large(_) => "build for fewer GPU architectures",
            Self::Variants { .. } => "remove the file with its wheels, or write to another folder",
            Self::Pack(error) => return error.hint(),
        };
        Some(hint.to_owned())
    }
}

/// A source distribution that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenSdist {
    /// File name, which contains name and version.
    pub file: String,
    /// Number of source files.
    pub files: usize,
    /// Size in bytes.
    pub bytes: u64,
    /// sha256 in hexadecimal.
    pub sha256: String,
}

/// A wheel that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrittenWheel {
    /// File name, which contains name, version and tags.
    pub file: String,
    /// The name of the variant; absent if the wheel is not distinguished from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Folder with the sources of the Python package.
    pub package: String,
    /// Size in bytes.
    pub bytes: u64,
    /// sha256 in hexadecimal.
    pub sha256: String,
    /// Paths of the built libraries and extension modules in the wheel.
    pub libraries: Vec<String>,
    /// Paths of third-party libraries that were copied into the wheel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copied: Vec<String>,
    /// Requirements on wheels with NVIDIA's libraries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// The extra that has these requirements; absent if the wheel always has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
    /// The properties of a variant wheel: `namespace :: feature :: value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variant_properties: Vec<String>,
    /// Needed libraries that the user's machine must provide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Libraries that a needed library opens at run time and that were not found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_found: Vec<String>,
    /// Why the platform tag does not promise any age of the system; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untagged: Option<String>,
}
