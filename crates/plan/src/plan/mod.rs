//! Plans: everything that a build will do, computed before it starts.
//!
//! Pure: computes a [`Plan`] from verdicts, project and request. `--dry-run` shows exactly what a build executes.

pub mod archs;
pub mod bytes;
mod entries;
pub mod extra;
mod folders;
mod groups;
pub mod jobs;
pub mod kits;
pub mod launchers;
pub mod libclang;
pub mod linkage;
pub mod make;
mod msvc;
pub mod options;
pub mod provision;
pub mod request;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_host::{HostPath, Platform};
use serde::Serialize;

pub use self::jobs::Jobs;
use self::provision::Provision;
use crate::artifacts::ModuleLoader;
use crate::plan::extra::PlannedExtra;
use crate::project::profile::{Abi, WantedOption};
use crate::project::{Linkage, SourceCopy};
use crate::target::PlannedTarget;
use crate::wheels::tag::{self, TagFit, WheelLibc};

/// Everything that a build will do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Origin of the backend request: `--backends`, `GPUBUILD_BACKENDS`, `GGML_CUDA`, `gpubuild.toml`, `auto`.
    pub origin: String,
    /// The backends that will be built, in the order of [`Backend::ALL`].
    pub backends: Vec<Backend>,
    /// How a program links the libraries.
    pub linkage: Linkage,
    /// Functions of the project that load modules, if its backends are modules.
    pub loader: Option<ModuleLoader>,
    /// The platform to build for; `None` for the build machine.
    pub target: Option<PlannedTarget>,
    /// Backends that were requested, or are candidates of `auto`, and will not be built.
    pub dropped: Vec<Dropped>,
    /// Missing toolkits that are installed first.
    pub provision: Vec<Provision>,
    /// Missing tools that are fetched into the cache.
    pub fetch: Vec<Fetch>,
    /// Extra backends: those of the project that gpubuild has no toolkit for.
    pub extra: Vec<PlannedExtra>,
    /// The copy of the sources to build from; `None` builds the sources in place.
    pub copy: Option<SourceCopy>,
    /// CMake packages for libraries of other projects, written before CMake runs.
    pub packages: Vec<CmakePackage>,
    /// The CMake trees. They are independent, so their order is irrelevant.
    pub trees: Vec<PlannedTree>,
    /// Other projects whose libraries are linked into the same program.
    pub with: Vec<crate::project::together::With>,
    /// The Rust program that links the result, if gpubuild.toml names one.
    pub binary: Option<PlannedBinary>,
    /// The environment that receives the run-time libraries, if gpubuild.toml names one.
    pub environment: Option<PlannedEnvironment>,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
    /// Possible problems that the planner cannot rule out, one line each, ending with the finding's id.
    pub warnings: Vec<String>,
}

/// A backend that will not be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dropped {
    /// The backend.
    pub id: Backend,
    /// The reasons, one line each, ending with the finding's id; the root cause first.
    pub reasons: Vec<String>,
}

/// A Python environment into which a build installs wheels. Which ones is known only after the libraries are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedEnvironment {
    /// Its folder.
    pub path: String,
}

/// A CMake package that is written into the build folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmakePackage {
    /// Path of the file.
    pub file: HostPath,
    /// Content of the file.
    pub text: String,
}

/// A tool to fetch as a wheel; `toolkits/` pins version and hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fetch {
    /// Description id: `cmake`, `ninja`; or `libclang`, `zig`.
    pub tool: String,
    /// The pinned version.
    pub version: String,
    /// The wheel's package name.
    pub package: String,
    /// The accepted sha256 hashes, one per platform.
    pub sha256: Vec<String>,
    /// What makes the download unnecessary, if an installed copy of the tool is not used.
    #[serde(skip)]
    pub instead: Option<String>,
    /// The file names of the wheels, whose tags name the supported platforms.
    #[serde(skip)]
    pub wheels: Vec<String>,
    /// The path of the used file in the wheel, by operating system. Empty: the program with the tool's name.
    #[serde(skip)]
    pub file: BTreeMap<String, String>,
}

impl Fetch {
    /// Whether one of the wheels supports a machine.
    #[must_use]
    pub fn fits(&self, platform: Platform, libc: &WheelLibc) -> bool {
        self.wheels.iter().any(|name| tag::fit(name, platform, libc) == TagFit::Yes)
    }
}

/// One configured and built CMake tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedTree {
    /// Name of the tree: its backends joined by `-`, `cpu-vulkan`.
    pub id: String,
    /// The backends built in it.
    pub backends: Vec<Backend>,
    /// CMake generator, `Ninja`.
    pub generator: String,
    /// Folder with the top-level `CMakeLists.txt`.
    pub source: HostPath,
    /// CMake's binary folder.
    pub build: HostPath,
    /// All entries of the initial-cache file, by name.
    pub cache: BTreeMap<String, String>,
    /// CMake targets that a program links. CMake determines the link order.
    pub targets: Vec<String>,
    /// How a program links the targets.
    #[serde(default, skip_serializing_if = "Linkage::is_static")]
    pub linkage: Linkage,
    /// Targets that a program loads at run time. A target can have variants with a longer name: `ggml-cpu-haswell` for
    /// `ggml-cpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<String>,
    /// Subfolder for its modules, if another tree has modules of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Why these backends have a separate tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// Targets whose name depends on the project's version, or that some versions lack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<WantedOption>,
    /// Extra backends built in it: those of the project that gpubuild has no toolkit for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
    /// The platform to build for; absent for the build machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<PlannedTarget>,
    /// Names of cache entries that a version of the project may lack.
    #[serde(skip)]
    pub may_be_unknown: BTreeSet<String>,
    /// Where to read the properties that are compared with another copy of the project's library.
    #[serde(skip)]
    pub abi: Option<Abi>,
    /// Headers that extend those of an old toolkit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shims: Vec<Shim>,
    /// Environment variables for configuring and building.
    pub env: BTreeMap<String, String>,
    /// Where the languages with a distributing launcher are compiled, by CMake's name of the language.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub farms: BTreeMap<String, PlannedFarm>,
    /// Limits on parallel compilers.
    pub jobs: Jobs,
    /// The backends in it that were requested by name. If one of them fails, the build fails.
    pub named: Vec<Backend>,
}

/// A header that is written into the build folder, and that the compiler finds before the toolkit's header of the same
/// name. It includes that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shim {
    /// The path by which sources include it.
    pub header: String,
    /// Content of the header.
    #[serde(skip)]
    pub text: String,
}

/// How a launcher distributes the compilations of one language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedFarm {
    /// Name of the launcher as it was requested: `distcc`, `sccache-dist`.
    pub launcher: String,
    /// The program and the arguments that print its number of slots.
    pub status: Vec<String>,
    /// The scheduler that is asked instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<PlannedQuestion>,
    /// Whether distribution was requested, and not only configured for the launcher.
    pub required: bool,
    /// The variable with which a test file is compiled again, to see whether it leaves this machine.
    #[serde(skip)]
    pub recompile: Option<String>,
    /// Why this language is compiled on this machine; absent if it is distributed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
}

/// A question to a server with a text protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedQuestion {
    /// The server: `host:port`.
    pub address: String,
    /// The text that is sent.
    pub text: String,
}

/// A cargo package that links the artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedBinary {
    /// Folder of the package.
    pub package: HostPath,
    /// Cargo profile: `release` or `dev`.
    pub profile: String,
    /// Arguments for cargo that enable the features of the requested backends and disable those of other backends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}
