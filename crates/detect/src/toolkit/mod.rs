//! Toolkits: SDKs and tools described by files in `toolkits/`, and the copies of them found on a host.
//!
//! Vendor knowledge is data: paths, names, versions, limits and install hints are in the TOML files. This module only
//! implements the kinds of places that can be searched.

mod ask;
pub mod catalogue;
mod choose;
pub mod description;
pub mod libclang;
pub mod libraries;
pub mod pattern;
pub mod places;
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
use gpubuild_core::version::Version;
use gpubuild_host::HostPath;
use serde::Serialize;

use crate::diagnostic::DiagnosticId;
use crate::facts::Fact;
pub use ask::ask_drivers;
pub use catalogue::{Catalogue, CatalogueError};
pub use description::Description;
pub use probe::probe_one;
pub use probe::{ask_archs, ask_programs, probe};
pub use search::OWN;
pub use tools::InstalledTools;
pub use versions::Ask;

/// One copy of a toolkit or tool on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// The id of its description: `cuda`, `rocm`, `vulkan`, `cmake`, `gcc`.
    pub toolkit: String,
    /// Its version, if a file (or, if the description allows it, the program) contains it.
    pub version: Option<Fact<Version>>,
    /// Limits that this copy contains, by id: `gcc-max`, `clang-below`, `msvc-min`, `msvc-below`.
    pub limits: BTreeMap<String, Fact<Version>>,
    /// Device architectures for which its libraries were built, if files show it: `gfx942`.
    pub device_archs: Vec<String>,
    /// Device architectures that its compiler reports, if it was queried or a recording has its answer: `90`.
    pub compiler_archs: Vec<String>,
    /// Ids of the problems that are fixed in this copy (`[[mended]]` of the description).
    pub mended: Vec<String>,
    /// Its root folder; for a tool that is a single program, the folder that contains it.
    pub root: HostPath,
    /// Every way in which it was found, best first: `env:CUDA_PATH`, `path`, `known:/usr/local/cuda-*`, `registry`.
    pub found_via: Vec<String>,
    /// The parts of the description, by id: `compiler`, `headers`, `runtime-static`, `loader`.
    pub parts: BTreeMap<String, ToolkitPart>,
    /// Whether a build uses this copy.
    pub chosen: bool,
    /// Why it was chosen, or why another copy was.
    pub reason: String,
}

impl Installation {
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
    /// Its path; `None` if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HostPath>,
    /// Whether a build for the toolkit's backend needs it.
    pub required: bool,
    /// The paths that were tried, for messages about a missing part.
    pub looked_for: Vec<String>,
    /// Id of the finding if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<DiagnosticId>,
}

/// What a backend needs on the host at run time: loader, driver libraries, device nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolkitRuntime {
    /// The backend.
    pub backend: Backend,
    /// The library that programs open: `libcuda.so.1`, `libvulkan.so.1`; `None` if the loader does not find it.
    pub loader: Option<Fact<HostPath>>,
    /// The version of the user-mode driver, from a file name or file.
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
    /// The library in the manifest's spelling.
    pub library: String,
    /// Whether the library was found.
    pub found: bool,
    /// Its name, if it is known to run on the CPU: `llvmpipe`, `SwiftShader`, `PoCL`.
    pub software: Option<String>,
    /// The vendors whose GPUs it supports, if its name shows them; any if empty.
    pub vendors: Vec<crate::facts::Vendor>,
    /// Kernel drivers that it works with; any if empty.
    pub kernel_drivers: Vec<String>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceNode {
    /// `/dev/nvidiactl`, `/dev/kfd`, `/dev/dri/renderD128`.
    pub path: HostPath,
    /// The result of opening it for reading and writing.
    pub state: NodeState,
    /// The numeric group, for the remedy.
    pub gid: Option<u32>,
    /// Nodes of one group are alternatives: one that opens is enough.
    pub group: usize,
    /// Id of the finding if it is missing; `None` if that is not a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if it cannot be opened.
    pub denied: DiagnosticId,
}

/// The result of opening a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It opens.
    Opens,
    /// It exists, but this user has no permission.
    Denied,
    /// It does not exist.
    Missing,
    /// It exists, but opening it failed for another reason.
    Failed,
}

/// An explicit choice without a result: a variable that points to a folder without the toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadEnd {
    /// The id of the description.
    pub toolkit: String,
    /// The variable: `env:CUDA_PATH`.
    pub found_via: String,
    /// The path in it.
    pub place: HostPath,
    /// Why the path is not a copy.
    pub why: String,
}

/// All toolkits and runtimes of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// Every copy of every toolkit and tool, by description id, the chosen one first.
    pub installations: BTreeMap<String, Vec<Installation>>,
    /// The runtimes by backend.
    pub runtimes: BTreeMap<Backend, ToolkitRuntime>,
    /// Variables that point to a place without the toolkit.
    pub dead_ends: Vec<DeadEnd>,
}

impl Inventory {
    /// The copy of a toolkit that a build uses.
    #[must_use]
    pub fn chosen(&self, toolkit: &str) -> Option<&Installation> {
        self.of(toolkit).iter().find(|installation| installation.chosen)
    }

    /// Every copy of a toolkit, the chosen one first.
    #[must_use]
    pub fn of(&self, toolkit: &str) -> &[Installation] {
        self.installations.get(toolkit).map_or(&[], Vec::as_slice)
    }

    /// The best chosen copy among the tools that fill a role (`host-compiler`): a copy that a variable names before one on PATH,
    /// then in the order of the descriptions (`gcc` before `clang`).
    #[must_use]
    pub fn for_role<'a>(&'a self, catalogue: &Catalogue, role: &str) -> Option<&'a Installation> {
        let mut tools: Vec<&Description> = catalogue.with_role(role).collect();
        tools.sort_by_key(|tool| tool.preference);
        tools.iter().find_map(|tool| self.chosen(&tool.id))
    }
}
