//! Toolkits: SDKs and tools described by files in `toolkits/`, and the copies of them found on a host.
//!
//! Vendors are data: paths, names, versions, limits and install hints stand in the TOML files; this module knows
//! only the kinds of places that can be searched.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::backend::Backend;
use crate::facts::Fact;
use crate::host::HostPath;
use crate::version::Version;

/// One copy of a toolkit or tool on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installation {
    /// Id of the description: `cuda`, `rocm`, `vulkan`, `cmake`, `gcc`.
    pub toolkit: String,
    /// Its version, where a file (or, if the description says so, the program) tells it.
    pub version: Option<Fact<Version>>,
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
    /// Whether it is known to run on the processor (llvmpipe, `SwiftShader`, `PoCL`).
    pub software: bool,
    /// The makers whose cards it drives, where its name tells.
    pub vendors: Vec<crate::facts::Vendor>,
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

/// Everything of toolkits and runtimes on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// Every copy of every toolkit and tool, by description id, the chosen one first.
    pub installations: BTreeMap<String, Vec<Installation>>,
    /// By backend.
    pub runtimes: BTreeMap<Backend, Runtime>,
}

impl Inventory {
    /// The copy of a toolkit that a build takes.
    #[must_use]
    pub fn chosen(&self, toolkit: &str) -> Option<&Installation> {
        self.installations.get(toolkit)?.iter().find(|installation| installation.chosen)
    }
}
