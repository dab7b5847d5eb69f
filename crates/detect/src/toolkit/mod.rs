//! Toolkits: SDKs and tools that are described by files in `toolkits/`, and their copies on a host.
//!
//! Vendor knowledge is data: paths, names, versions, limits and install hints are in TOML files. This module implements the
//! searches that these files describe.

pub mod catalogue;
mod choose;
pub mod description;
mod driver_probes;
mod hardware_description;
pub mod libclang;
pub mod libraries;
pub mod pattern;
pub mod places;
mod platform_text;
mod probe;
pub mod range;
pub mod rules;
mod runtime;
mod search;
mod tables;
mod tools;
pub mod versions;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_host::HostPath;
use serde::Serialize;

use crate::diagnostic::DiagnosticId;
use crate::facts::Fact;
pub use catalogue::{Catalogue, CatalogueError};
pub use description::Description;
pub use driver_probes::probe_drivers;
pub use probe::probe_again;
pub use probe::{probe, probe_for_target, query_archs, query_programs};
pub use search::OWN;
pub use tools::InstalledTools;
pub use versions::QueryMode;

/// One copy of a toolkit or tool on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// The id of its description: `cuda`, `rocm`, `vulkan`, `cmake`, `gcc`.
    pub toolkit: String,
    /// Its version, from a file or, if the description allows it, from the program's output.
    pub version: Option<Fact<Version>>,
    /// Limits that were read from this copy, by id: `gcc-max`, `clang-below`, `msvc-min`, `msvc-max`, `msvc-below`.
    pub limits: BTreeMap<String, Fact<Version>>,
    /// Device architectures for which its libraries were built, according to file names: `gfx942`.
    pub device_archs: Vec<String>,
    /// Device architectures that its compiler lists: `90`. Empty if the compiler was not queried and its output was not recorded.
    pub compiler_archs: Vec<String>,
    /// Ids of the fixes (`[[mended]]` in the description) that this copy contains. Fixes that its release does not need are left out.
    pub mended: Vec<String>,
    /// The root folder; for a tool, the folder that contains the program.
    pub root: HostPath,
    /// All ways in which it was found, the best first: `env:CUDA_PATH`, `path`, `known:/usr/local/cuda-*`, `registry`.
    pub found_via: Vec<String>,
    /// Its parts, by id: `compiler`, `headers`, `runtime-static`, `loader`.
    pub parts: BTreeMap<String, ToolkitPart>,
    /// Whether a build uses this copy.
    pub chosen: bool,
    /// Why this copy was chosen, or why another one was.
    pub reason: String,
}

impl Installation {
    /// The copy as examined, without how it was found and whether it is used.
    fn before_choice(&self) -> Self {
        Self { found_via: Vec::new(), chosen: false, reason: String::new(), ..self.clone() }
    }

    /// The path of a part, if it was found.
    #[must_use]
    pub fn part(&self, id: &str) -> Option<&HostPath> {
        self.parts.get(id).and_then(|part| part.path.as_ref())
    }

    /// The ids of required parts that were not found.
    #[must_use]
    pub fn missing_parts(&self) -> Vec<&str> {
        let missing = |part: &ToolkitPart| part.required && part.path.is_none();
        self.parts.iter().filter(|(_, part)| missing(part)).map(|(id, _)| id.as_str()).collect()
    }

    /// Whether every required part was found.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing_parts().is_empty()
    }

    /// Whether gpubuild installed it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.found_via.iter().any(|via| via == search::OWN)
    }

    /// The version without its evidence.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref().map(|fact| &fact.value)
    }
}

/// One part of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolkitPart {
    /// The path; `None` if the part is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HostPath>,
    /// Whether a build for the toolkit's backend needs it.
    pub required: bool,
    /// The paths that were tried, for messages about a missing part.
    pub looked_for: Vec<String>,
    /// Id of the finding if the part is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<DiagnosticId>,
}

/// What a backend requires at run time, as found on the host: loader, driver libraries, device nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolkitRuntime {
    /// The backend.
    pub backend: Backend,
    /// The library that programs load: `libcuda.so.1`, `libvulkan.so.1`. `None` if it was not found.
    pub loader: Option<Fact<HostPath>>,
    /// The version of the user-mode driver, from a file name or a file.
    pub version: Option<Fact<Version>>,
    /// Drivers behind the loader: Vulkan ICDs, OpenCL ICDs, Level Zero drivers.
    pub drivers: Vec<RuntimeDriver>,
    /// Device nodes that programs must be able to open.
    pub nodes: Vec<DeviceNode>,
}

/// A driver behind a loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuntimeDriver {
    /// The manifest that names it.
    pub manifest: HostPath,
    /// The library, as written in the manifest.
    pub library: String,
    /// Whether the library was found.
    pub found: bool,
    /// The name, if it is a software driver, which runs on the CPU: `llvmpipe`, `SwiftShader`, `PoCL`.
    pub software: Option<String>,
    /// The vendors whose GPUs it supports, if known by its name; any if empty.
    pub vendors: Vec<crate::facts::Vendor>,
    /// Kernel drivers that it works with; any if empty.
    pub kernel_drivers: Vec<String>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceNode {
    /// The path: `/dev/nvidiactl`, `/dev/kfd`, `/dev/dri/renderD128`.
    pub path: HostPath,
    /// The result of opening it for reading and writing.
    pub state: NodeState,
    /// The numeric owning group.
    pub gid: Option<u32>,
    /// Nodes with the same group number are alternatives: it is enough if one of them can be opened.
    pub group: usize,
    /// Id of the finding if it is missing; `None` if it is optional.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if it cannot be opened.
    pub denied: DiagnosticId,
}

/// The result of opening a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It can be opened.
    Opens,
    /// It exists, but this user has no permission.
    Denied,
    /// It does not exist.
    Missing,
    /// It exists, but opening it failed for another reason.
    Failed,
}

/// A variable that points to a place without the toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadEnd {
    /// The id of the description.
    pub toolkit: String,
    /// The variable: `env:CUDA_PATH`.
    pub found_via: String,
    /// The path in the variable.
    pub place: HostPath,
    /// Why the path is not a copy of the toolkit.
    pub why: String,
}

/// All toolkits and runtimes of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// All copies of toolkits and tools, by description id, the chosen one first.
    pub installations: BTreeMap<String, Vec<Installation>>,
    /// The runtimes by backend.
    pub runtimes: BTreeMap<Backend, ToolkitRuntime>,
    /// Variables that point to a place without the toolkit.
    pub dead_ends: Vec<DeadEnd>,
    /// Where the toolkits were searched, by description id: folders that do not exist, and the file that identifies a copy in those
    /// that do.
    pub searched: BTreeMap<String, Vec<String>>,
}

impl Inventory {
    /// The copy of a toolkit that a build uses.
    #[must_use]
    pub fn chosen(&self, toolkit: &str) -> Option<&Installation> {
        self.of(toolkit).iter().find(|installation| installation.chosen)
    }

    /// All copies of a toolkit, the chosen one first.
    #[must_use]
    pub fn of(&self, toolkit: &str) -> &[Installation] {
        self.installations.get(toolkit).map_or(&[], Vec::as_slice)
    }

    /// The best of the chosen copies of all tools with a role (`host-compiler`). A copy from a variable precedes one on PATH; otherwise
    /// the preference in the descriptions decides (`gcc` before `clang`).
    #[must_use]
    pub fn for_role<'a>(&'a self, catalogue: &Catalogue, role: &str) -> Option<&'a Installation> {
        let mut tools: Vec<&Description> = catalogue.with_role(role).collect();
        tools.sort_indirect_by_key(|tool| tool.preference);
        tools.iter().find_map(|tool| self.chosen(&tool.id))
    }
}
