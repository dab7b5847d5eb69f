//! Plans: everything that a build will do, computed before anything is done.
//!
//! Pure: verdicts x project x request -> [`Plan`]. What `--dry-run` shows is what runs.

pub mod archs;
pub mod bytes;
mod entries;
pub mod extra;
mod groups;
pub mod kits;
pub mod launchers;
pub mod linkage;
pub mod make;
pub mod options;
pub mod provision;
pub mod request;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_host::HostPath;
use serde::{Deserialize, Serialize};

use self::provision::Provision;
use crate::artifacts::ModuleLoader;
use crate::plan::extra::PlannedExtra;
use crate::project::profile::{Abi, WantedOption};
use crate::project::{Linkage, SourceCopy};

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
    pub loader: Option<ModuleLoader>,
    /// Backends that were asked for (or would be in `auto`) and will not be built.
    pub dropped: Vec<Dropped>,
    /// Toolkits that are missing here and will be installed first.
    pub provision: Vec<Provision>,
    /// Tools that are missing here and will be fetched into the cache.
    pub fetch: Vec<Fetch>,
    /// Backends of the project that gpubuild has no toolkit for.
    pub extra: Vec<PlannedExtra>,
    /// The copy of the sources that is built, where it is not the sources themselves.
    pub copy: Option<SourceCopy>,
    /// CMake packages that are written first: libraries of other projects.
    pub packages: Vec<CmakePackage>,
    /// The CMake trees, in an order that respects nothing: they are independent.
    pub trees: Vec<PlannedTree>,
    /// Other projects whose libraries go into the same program.
    pub with: Vec<crate::project::together::With>,
    /// The Rust binary that links the result, if the project names one.
    pub binary: Option<PlannedBinary>,
    /// Remarks for people, each one line.
    pub notes: Vec<String>,
    /// What may go wrong and could not be settled here, each one line that ends in the id of its finding.
    pub warnings: Vec<String>,
}

/// A backend that will not be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Which.
    pub id: Backend,
    /// Why, the root cause first; each line ends in the id of its finding.
    pub reasons: Vec<String>,
}

/// A CMake package that is written into the build folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmakePackage {
    /// Its file.
    pub file: HostPath,
    /// What stands in it.
    pub text: String,
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
pub struct PlannedTree {
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
    /// Targets with other names in other versions of the project, or that are not in all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<WantedOption>,
    /// Backends of the project in it that gpubuild has no toolkit for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// Entries that a version of the project need not know.
    #[serde(skip)]
    pub may_be_unknown: BTreeSet<String>,
    /// What is read of the project to compare it with another copy of itself.
    #[serde(skip)]
    pub abi: Option<Abi>,
    /// Headers that stand before those of a toolkit that is too old for the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shims: Vec<Shim>,
    /// Variables for configuring and building.
    pub env: BTreeMap<String, String>,
    /// How much runs at once.
    pub jobs: Jobs,
    /// Whether every backend in it (other than `cpu`) was asked for by name: then a failure fails the build.
    pub named: Vec<Backend>,
}

/// A header that is written into the build folder and found before the toolkit's own, to which it leads on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shim {
    /// The name under which sources include it.
    pub header: String,
    /// Its text.
    #[serde(skip)]
    pub text: String,
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
pub struct PlannedBinary {
    /// Folder of the package.
    pub package: HostPath,
    /// `release` or `dev`.
    pub profile: String,
    /// What cargo is told so that the program has the features of the backends that were named, and of no others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}
