//! Toolkits: SDKs and tools described by files in `toolkits/`, and the copies of them found on a host.
//!
//! Vendors are data: paths, names, versions, limits and install hints stand in the TOML files; this module knows
//! only the kinds of places that can be searched.

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

use crate::facts::Fact;
pub use ask::ask_drivers;
pub use catalogue::{Catalogue, CatalogueError};
pub use description::Description;
pub use probe::probe_one;
pub use probe::{ask_archs, ask_programs, probe};
pub use search::OWN;
pub use tools::Tools;
pub use versions::Ask;

/// One copy of a toolkit or tool on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// Id of the description: `cuda`, `rocm`, `vulkan`, `cmake`, `gcc`.
    pub toolkit: String,
    /// Its version, where a file (or, if the description says so, the program) tells it.
    pub version: Option<Fact<Version>>,
    /// Limits that this copy states about itself, by id: `gcc-max`, `clang-below`, `msvc-min`, `msvc-below`.
    pub limits: BTreeMap<String, Fact<Version>>,
    /// Device architectures that its libraries were really built for, where files tell: `gfx942`.
    pub device_archs: Vec<String>,
    /// Device architectures that its compiler says it builds for, where it was asked or a recording has its answer: `90`.
    pub compiler_archs: Vec<String>,
    /// Names of what somebody mended in it (`[[mended]]` of the description).
    pub mended: Vec<String>,
    /// Its root folder; for a tool that is one program, the folder that holds it.
    pub root: HostPath,
    /// Every way that led to it, best first: `env:CUDA_PATH`, `path`, `known:/usr/local/cuda-*`, `registry`.
    pub found_via: Vec<String>,
    /// The parts that the description names, by id: `compiler`, `headers`, `runtime-static`, `loader`.
    pub parts: BTreeMap<String, Part>,
    /// Whether this is the copy that a build takes.
    pub chosen: bool,
    /// Why it was chosen, or why another one was.
    pub reason: String,
}

impl Installation {
    /// The path of a part that was found.
    #[must_use]
    pub fn part(&self, id: &str) -> Option<&HostPath> {
        self.parts.get(id).and_then(|part| part.path.as_ref())
    }

    /// The ids of required parts that were not found.
    #[must_use]
    pub fn missing_parts(&self) -> Vec<&str> {
        let missing = |part: &Part| part.required && part.path.is_none();
        self.parts.iter().filter(|(_, part)| missing(part)).map(|(id, _)| id.as_str()).collect()
    }

    /// Whether every required part was found.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing_parts().is_empty()
    }

    /// Whether gpubuild installed it itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.found_via.iter().any(|via| via == search::OWN)
    }

    /// The plain version, for comparing.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref().map(|fact| &fact.value)
    }
}

/// One part of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Where it is, `None` if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HostPath>,
    /// Whether a build for the toolkit's backend needs it.
    pub required: bool,
    /// What was looked for, for the message when it is missing.
    pub looked_for: Vec<String>,
    /// Id of the finding when it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// What running on a backend needs of the host: loader, driver libraries, device nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// The backend.
    pub backend: Backend,
    /// The library that programs open: `libcuda.so.1`, `libvulkan.so.1`; `None` if the loader does not find it.
    pub loader: Option<Fact<HostPath>>,
    /// Version of the user-mode driver, from a file name or file.
    pub version: Option<Fact<Version>>,
    /// Drivers behind the loader: Vulkan ICDs, OpenCL ICDs, Level Zero drivers.
    pub drivers: Vec<RuntimeDriver>,
    /// Device nodes that have to open.
    pub nodes: Vec<DeviceNode>,
}

/// A driver behind a loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuntimeDriver {
    /// The manifest that names it.
    pub manifest: HostPath,
    /// The library, as the manifest spells it.
    pub library: String,
    /// Whether the library was found.
    pub found: bool,
    /// Its name, if it is known to run on the processor: `llvmpipe`, `SwiftShader`, `PoCL`.
    pub software: Option<String>,
    /// The makers whose cards it drives, where its name tells.
    pub vendors: Vec<crate::facts::Vendor>,
    /// Kernel drivers that it works with; any if empty.
    pub kernel_drivers: Vec<String>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceNode {
    /// `/dev/nvidiactl`, `/dev/kfd`, `/dev/dri/renderD128`.
    pub path: HostPath,
    /// What opening it for reading and writing answered.
    pub state: NodeState,
    /// Numeric group, for the remedy.
    pub gid: Option<u32>,
    /// Nodes of one group are alternatives: one that opens is enough.
    pub group: usize,
    /// Id of the finding when it is missing; none where that is no fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Id of the finding when it may not be opened.
    pub denied: String,
}

/// What opening a device node answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It opens.
    Opens,
    /// It is there and this user may not.
    Denied,
    /// It is not there.
    Missing,
    /// It is there and opening failed otherwise.
    Failed,
}

/// An explicit choice that leads nowhere: a variable that names a folder without the toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeadEnd {
    /// Id of the description.
    pub toolkit: String,
    /// `env:CUDA_PATH`.
    pub found_via: String,
    /// What it names.
    pub place: HostPath,
    /// What is wrong with it.
    pub why: String,
}

/// Everything of toolkits and runtimes on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// Every copy of every toolkit and tool, by description id, the chosen one first.
    pub installations: BTreeMap<String, Vec<Installation>>,
    /// By backend.
    pub runtimes: BTreeMap<Backend, Runtime>,
    /// Variables that name a toolkit and lead nowhere.
    pub dead_ends: Vec<DeadEnd>,
}

impl Inventory {
    /// The copy of a toolkit that a build takes.
    #[must_use]
    pub fn chosen(&self, toolkit: &str) -> Option<&Installation> {
        self.of(toolkit).iter().find(|installation| installation.chosen)
    }

    /// Every copy of a toolkit, the chosen one first.
    #[must_use]
    pub fn of(&self, toolkit: &str) -> &[Installation] {
        self.installations.get(toolkit).map_or(&[], Vec::as_slice)
    }

    /// The chosen copy of the tools that fill a role (`host-compiler`), best first as the descriptions are ordered:
    /// a named one before one on PATH, `gcc` before `clang`.
    #[must_use]
    pub fn for_role<'a>(&'a self, catalogue: &Catalogue, role: &str) -> Option<&'a Installation> {
        let mut tools: Vec<&Description> = catalogue.with_role(role).collect();
        tools.sort_by_key(|tool| tool.preference);
        tools.iter().find_map(|tool| self.chosen(&tool.id))
    }
}
