//! The `binary` object of `doctor --binary --json`: the libraries that a file needs, how each is resolved, and its device code.

use gpubuild_doctor::binary::Examined;
use gpubuild_doctor::binary::verdicts::DeviceCover;
use gpubuild_host::HostPath;
use gpubuild_host::library::search::Via;
use gpubuild_object::graph::{EdgeTarget, Graph, GraphEdge};
use gpubuild_object::{ObjectFile as Contents, ObjectFormat, ObjectKind, When};
use serde::Serialize;

/// An executable or library, and the libraries that the loader finds for it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BinaryReport {
    /// Its path on the examined machine.
    pub path: String,
    /// Its file format.
    pub format: ObjectFormat,
    /// Its architecture: `x86_64`, `aarch64`.
    pub machine: &'static str,
    /// Other architectures that a universal file contains code for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<&'static str>,
    /// Executable or library.
    pub kind: ObjectKind,
    /// The loader that it names, on Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// Its search path for libraries (`DT_RPATH`), as written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rpath: Vec<String>,
    /// Its search path of the newer kind (`DT_RUNPATH`), as written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runpath: Vec<String>,
    /// Every library that the file and its libraries need, in load order.
    pub libraries: Vec<LibraryReport>,
    /// Device code by file.
    pub kernels: Vec<KernelsReport>,
}

/// A needed library and how it is resolved.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LibraryReport {
    /// Its name in the file that needs it.
    pub name: String,
    /// How it is resolved.
    pub state: LibraryState,
    /// Path of the file that is loaded, or of a file for another architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The search rule that found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// When it is loaded.
    pub when: When,
    /// The files that need it.
    pub needed_by: Vec<String>,
}

/// How a needed library is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum LibraryState {
    /// A file is loaded.
    Found,
    /// The system provides it without a file.
    System,
    /// It was not found.
    Missing,
    /// Only files for another architecture were found.
    WrongProcessor,
    /// The recording lacks the information.
    Unknown,
}

/// The device code of a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelsReport {
    /// The file.
    pub path: String,
    /// CUDA code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cuda: Vec<KernelReport>,
    /// HIP targets: `gfx90a`, `gfx11-generic`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hip: Vec<String>,
    /// Whether the file contains device code whose target is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// How it runs on each device of the machine.
    pub devices: Vec<DeviceCodeReport>,
}

/// CUDA code for one architecture.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelReport {
    /// Machine code, PTX, or an intermediate form.
    pub kind: gpubuild_object::KernelKind,
    /// Architecture: `90`, `90a`, `120f`.
    pub arch: String,
    /// Version of the PTX language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptx: Option<String>,
}

/// A device and how device code runs on it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceCodeReport {
    /// Its name.
    pub name: String,
    /// Its architecture: `sm_90`, `gfx1100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// How the code runs on it.
    pub cover: DeviceCover,
}

impl BinaryReport {
    /// The report of an examined file; `None` if the file could not be parsed.
    #[must_use]
    pub fn new(examined: &Examined) -> Option<Self> {
        let file = examined.graph.objects.first()?;
        let contents = file.binary()?;
        Some(Self {
            path: file.path.to_string(),
            format: contents.format,
            machine: contents.machine.name,
            also: contents.also.clone(),
            kind: contents.kind,
            interpreter: contents.interpreter.clone(),
            rpath: contents.rpath.clone(),
            runpath: contents.runpath.clone(),
            libraries: libraries(&examined.graph),
            kernels: kernels(examined),
        })
    }
}

fn libraries(graph: &Graph) -> Vec<LibraryReport> {
    let mut list: Vec<LibraryReport> = Vec::new();
    for link in &graph.links {
        let from = graph.objects[link.from].path.to_string();
        match list.iter_mut().find(|known| known.name == link.needed.name && known.when == link.needed.when) {
            Some(known) if known.needed_by.contains(&from) => {}
            Some(known) => known.needed_by.push(from),
            None => list.push(library(graph, link, from)),
        }
    }
    list
}

fn library(graph: &Graph, link: &GraphEdge, from: String) -> LibraryReport {
    let object = graph.loaded(link);
    let foreign =
        |found: &[gpubuild_host::library::search::Match]| found.first().map(|found| found.path.to_string());
    let (state, path) = match &link.target {
        EdgeTarget::Loaded(_) => (LibraryState::Found, object.map(|object| object.path.to_string())),
        EdgeTarget::System => (LibraryState::System, None),
        EdgeTarget::Missing => (LibraryState::Missing, None),
        EdgeTarget::Unknown => (LibraryState::Unknown, None),
        EdgeTarget::Foreign(found) => (LibraryState::WrongProcessor, foreign(found)),
    };
    LibraryReport {
        name: link.needed.name.clone(),
        state,
        path,
        via: object.and_then(|object| object.via),
        when: link.needed.when,
        needed_by: vec![from],
    }
}

fn kernels(examined: &Examined) -> Vec<KernelsReport> {
    let mut list = Vec::new();
    for (index, object) in examined.graph.objects.iter().enumerate() {
        let Some(contents) = object.binary() else { continue };
        if contents.cuda.is_empty() && contents.hip.is_empty() {
            continue;
        }
        let devices = examined.coverage.iter().filter(|one| one.object == index);
        let devices = devices.map(|one| DeviceCodeReport {
            name: one.name.clone(),
            arch: Some(one.device.clone()).filter(|arch| !arch.is_empty()),
            cover: one.cover,
        });
        list.push(of_file(&object.path, contents, devices.collect()));
    }
    list
}

fn of_file(path: &HostPath, contents: &Contents, devices: Vec<DeviceCodeReport>) -> KernelsReport {
    let cuda = contents.cuda.kernels.iter().map(|kernel| KernelReport {
        kind: kernel.kind,
        arch: kernel.arch.to_string(),
        ptx: kernel.ptx.map(|(major, minor)| format!("{major}.{minor}")),
    });
    // Code for one architecture can come from several compilers; it is listed once.
    let mut cuda: Vec<KernelReport> = cuda.collect();
    cuda.dedup_by(|left, right| left.kind == right.kind && left.arch == right.arch && left.ptx == right.ptx);
    KernelsReport {
        path: path.to_string(),
        cuda,
        hip: contents.hip.targets.iter().cloned().collect(),
        incomplete: contents.cuda.incomplete || contents.hip.incomplete || contents.hip.compressed > 0,
        devices,
    }
}
