//! Plans: everything that a build will do, computed before anything is done.
//!
//! Pure: verdicts x project x request -> [`Plan`]. What `--dry-run` shows is what runs.

pub mod archs;
pub mod bytes;
mod groups;
pub mod kits;
pub mod launchers;
pub mod linkage;
pub mod make;
pub mod profile;
pub mod request;
pub mod together;
mod tree;
pub mod whole;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use linkage::Linkage;

use crate::backend::Backend;
use crate::host::HostPath;
use crate::provision::Provision;

/// Everything that a build will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Where the request for backends came from: `--backends`, `GPUBUILD_BACKENDS`, `GGML_CUDA`, `gpubuild.toml`, `auto`.
    pub origin: String,
    /// The backends that will be built, in the order of [`Backend::ALL`].
    pub backends: Vec<Backend>,
    /// How the libraries come into the program.
    pub linkage: Linkage,
    /// Functions of the project that open modules, where backends are modules.
    pub loader: Option<profile::Loader>,
    /// Backends that were asked for (or would be in `auto`) and will not be built.
    pub dropped: Vec<Dropped>,
    /// Toolkits that are missing here and will be installed first.
    pub provision: Vec<Provision>,
    /// Tools that are missing here and will be fetched into the cache.
    pub fetch: Vec<Fetch>,
    /// The CMake trees, in an order that respects nothing: they are independent.
    pub trees: Vec<Tree>,
    /// Other projects whose libraries go into the same program.
    pub with: Vec<together::With>,
    /// The Rust binary that links the result, if the project names one.
    pub binary: Option<Binary>,
    /// Remarks for people, each one line.
    pub notes: Vec<String>,
}

/// A backend that will not be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Which.
    pub id: Backend,
    /// Why, the root cause first; each line ends in the id of its finding.
    pub reasons: Vec<String>,
}

/// A tool to fetch: a wheel, pinned by its hash in `toolkits/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fetch {
    /// Description id: `cmake`, `ninja`.
    pub tool: String,
    /// Version that is pinned.
    pub version: String,
    /// Distribution name of the wheel.
    pub package: String,
    /// Allowed sha256 sums, one per platform's wheel.
    pub sha256: Vec<String>,
}

/// One configured and built CMake tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tree {
    /// Name of the tree: the backends in it joined by `-`, `cpu-vulkan`.
    pub id: String,
    /// The backends built in it.
    pub backends: Vec<Backend>,
    /// CMake generator, `Ninja`.
    pub generator: String,
    /// Folder with the top `CMakeLists.txt`.
    pub source: HostPath,
    /// Folder that it is configured into.
    pub build: HostPath,
    /// Every cache entry, by name: exactly what the initial-cache file holds.
    pub cache: BTreeMap<String, String>,
    /// CMake targets that a program links, in no order: the order is learned from CMake.
    pub targets: Vec<String>,
    /// How they are linked.
    #[serde(default, skip_serializing_if = "Linkage::is_static")]
    pub linkage: Linkage,
    /// Targets that a program opens while it runs; one that ends in nothing here may be several (`ggml-cpu` and its variants).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// Folder of its modules inside the folder of all modules, where another tree has one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Why these backends are in a tree of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// Variables for configuring and building.
    pub env: BTreeMap<String, String>,
    /// How much runs at once.
    pub jobs: Jobs,
    /// Whether every backend in it (other than `cpu`) was asked for by name: then a failure fails the build.
    pub named: Vec<Backend>,
}

/// Limits on parallel work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    /// Compilers at once over all trees.
    pub total: u32,
    /// CUDA and HIP compilers at once.
    pub device: u32,
    /// Why these numbers.
    pub reason: String,
}

/// A cargo package to build against the artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Binary {
    /// Folder of the package.
    pub package: HostPath,
    /// `release` or `dev`.
    pub profile: String,
}
