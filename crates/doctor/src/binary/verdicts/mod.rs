//! Findings about a file, derived from its dependency graph and the machine. Pure.

mod coverage;
mod driver;
mod kernels;
mod machine;
mod mixed;
mod start;
mod symbols;

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::toolkit::libraries;
use gpubuild_host::HostPath;
use gpubuild_host::library::search::Via;
use gpubuild_object::graph::{EdgeTarget, Graph, GraphEdge, LoadedObject};
use gpubuild_object::{ObjectFile, When};

use crate::DiagnosisCase;
pub use coverage::{Coverage, DeviceCover};
pub use kernels::coverage;

/// Input of the verdicts.
#[derive(Clone, Copy)]
pub struct BinarySubject<'a> {
    /// The file and everything that it loads.
    pub graph: &'a Graph,
    /// Facts, toolkits and verdicts of the machine.
    pub case: &'a DiagnosisCase<'a>,
    /// Observations that depend on the graph.
    pub observations: &'a GraphObservations,
}

/// Observations that depend on a dependency graph.
#[derive(Debug, Clone, Default)]
pub struct GraphObservations {
    /// Folders that contain a missing library but are not searched by the loader, by the library's name.
    pub elsewhere: BTreeMap<String, HostPath>,
    /// Architectures of the kernel files of rocBLAS, by the path of the library.
    pub rocblas: BTreeMap<String, BTreeSet<String>>,
    /// Whether macOS can translate programs for Intel processors (Rosetta).
    pub translates: bool,
}

/// All findings about the file.
#[must_use]
pub fn all(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let Some(binary) = subject.file() else { return Vec::new() };
    let mut drafts = start::platform(subject, binary);
    // If the loader does not accept the file, nothing else about loading it matters.
    if drafts.iter().any(|draft| !draft.id.ends_with("emulated")) {
        return drafts;
    }
    drafts.extend(start::interpreter(subject, binary));
    if drafts.is_empty() {
        drafts.extend(start::libraries(subject));
        drafts.extend(symbols::versions(subject));
    }
    drafts.extend(mixed::mixed(subject));
    drafts.extend(driver::driver(subject));
    drafts.extend(kernels::kernels(subject));
    // A missing driver is already reported by the name of its library.
    if !drafts
        .iter()
        .any(|draft| matches!(draft.id.as_str(), "binary.driver-missing" | "binary.driver-absent"))
    {
        drafts.extend(machine::blocked(subject));
    }
    drafts
}

/// Whether the file is for this operating system. Other files say nothing about the devices of this machine.
fn is_loaded_here(subject: &BinarySubject<'_>) -> bool {
    let platform = subject.case.facts.platform;
    subject.file().is_some_and(|file| file.format.os() == platform.os)
}

impl BinarySubject<'_> {
    /// The examined file.
    fn file(&self) -> Option<&ObjectFile> {
        self.graph.objects.first()?.binary()
    }

    /// Name of the file for messages.
    fn file_name(&self) -> String {
        let object = self.graph.objects.first();
        object.and_then(|object| object.path.file_name()).unwrap_or_default().to_owned()
    }

    /// The first link that leads to an object.
    fn link_of(&self, index: usize) -> Option<&GraphEdge> {
        self.graph.links.iter().find(|link| link.target == EdgeTarget::Loaded(index))
    }

    /// The CUDA release that the file uses, with evidence: from a linked runtime, otherwise from its kernels.
    fn runtime(&self) -> Option<(Version, Evidence)> {
        let named =
            self.graph.links.iter().filter(|link| link.needed.when != When::Opened).filter_map(|link| {
                let name = &link.needed.name;
                let library = libraries::find(name)?;
                let opens_driver = library.major.as_deref() == Some("cuda") && !library.opens.is_empty();
                let from = &self.graph.objects[link.from].path;
                opens_driver.then(|| Some((libraries::release(name)?, needs(from, name))))?
            });
        let linked = named.max_by(|left, right| left.0.cmp(&right.0));
        linked.or_else(|| {
            let own = self.graph.objects.iter().filter_map(|object| {
                let binary = object.binary().filter(|binary| binary.cuda.registers)?;
                let toolkit = binary.cuda.toolkit()?;
                let value = format!("kernels of CUDA {toolkit}");
                Some((toolkit, Evidence::file(object.path.as_str(), value)))
            });
            own.max_by(|left, right| left.0.cmp(&right.0))
        })
    }

    /// The driver's library that is loaded or opened.
    fn driver_library(&self) -> Option<(&GraphEdge, &LoadedObject)> {
        self.graph.links.iter().find_map(|link| {
            let is_driver = libraries::is_driver(&link.needed.name);
            is_driver.then(|| Some((link, self.graph.loaded(link)?)))?
        })
    }

    /// The version of NVIDIA's driver that programs use: from its library, otherwise from the kernel module.
    fn driver_version(&self) -> Option<(Version, Evidence)> {
        let own = self.driver_library().and_then(|(_, object)| {
            let version =
                file_version(&object.real, "libcuda.so.").filter(|version| version.major() >= 300)?;
            Some((version, Evidence::file(object.path.as_str(), object.real.file_name().unwrap_or_default())))
        });
        let verdict = self.case.matrix.verdict(gpubuild_core::backend::Backend::Cuda);
        own.or_else(|| {
            let version = verdict.driver.clone()?;
            let fact = self.case.facts.drivers.iter().find_map(|driver| driver.version.as_ref());
            let same = fact.filter(|fact| fact.value == version).and_then(|fact| fact.evidence.first());
            let default = || Evidence::file("driver", version.as_str());
            let evidence = same.cloned().unwrap_or_else(default);
            Some((version, evidence))
        })
    }

    /// The newest CUDA release that the driver supports: from the driver probe, an override, or the table row of its version.
    fn driver_release(&self) -> Option<(Version, Evidence)> {
        #[derive(serde::Deserialize)]
        struct BinaryAnswer {
            driver_version: Option<u32>,
        }
        let cuda = self.case.catalogue.get("cuda")?;
        let library = self.driver_version();
        // The probe does not cover a library that is newer than the kernel module (forward compatibility).
        let answer = self.case.probes.get(&gpubuild_core::backend::Backend::Cuda);
        let reported = answer
            .and_then(|answer| serde_json::from_str::<BinaryAnswer>(&answer.answer).ok())
            .and_then(|answer| answer.driver_version)
            .filter(|number| (1000..100_000).contains(number));
        if let Some(number) = reported {
            let release = Version::of_cuda_number(number.into());
            let evidence = Evidence::new(EvidenceKind::Dlopen, "__probe cuda", format!("CUDA {release}"));
            return Some((release, evidence));
        }
        let set = self.case.facts.overrides.iter().find(|set| set.key == "cuda.version");
        if let Some((set, release)) = set.and_then(|set| Some((set, set.value.parse().ok()?))) {
            return Some((release, Evidence::env(&set.origin, &set.value)));
        }
        let (version, evidence) = library?;
        Some((cuda.newest_for_driver(&version)?.clone(), evidence))
    }
}

/// Evidence that a file needs a library.
fn needs(from: &HostPath, name: &str) -> Evidence {
    Evidence::file(from.as_str(), format!("needs {name}"))
}

/// The version after a prefix of the file name: `libcuda.so.550.54.14`.
fn file_version(path: &HostPath, start: &str) -> Option<Version> {
    path.file_name()?.strip_prefix(start)?.parse().ok()
}

/// The version at the end of a library's real name: `libcudart.so.12.4.127`, `libcudnn.so.9.1.0`.
fn real_version(path: &HostPath) -> Option<Version> {
    let (_, version) = path.file_name()?.split_once(".so.")?;
    version.parse().ok()
}

/// Evidence of the rule by which a library was found.
fn found_by(path: &HostPath, via: Option<Via>) -> Evidence {
    match via {
        Some(Via::LibraryPath) => {
            let folder = path.parent().map(|folder| folder.to_string()).unwrap_or_default();
            Evidence::env("LD_LIBRARY_PATH", folder)
        }
        Some(Via::Rpath) => Evidence::file(path.as_str(), "by RPATH"),
        Some(Via::Runpath) => Evidence::file(path.as_str(), "by RUNPATH"),
        Some(Via::Cache) => Evidence::file(path.as_str(), "by /etc/ld.so.cache"),
        _ => Evidence::file(path.as_str(), "loaded"),
    }
}

/// The items in backticks, separated by commas.
fn quoted<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
