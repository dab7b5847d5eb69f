//! What a file's graph means on a machine: pure, graph x case -> drafts.

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

/// What is judged.
#[derive(Clone, Copy)]
pub struct BinarySubject<'a> {
    /// The file and everything that it loads.
    pub graph: &'a Graph,
    /// The machine.
    pub case: &'a DiagnosisCase<'a>,
    /// What was looked for beside.
    pub sights: &'a Sights,
}

/// What is looked for because of a graph.
#[derive(Debug, Clone, Default)]
pub struct Sights {
    /// Folders in which a missing library lies although the loader does not look there.
    pub elsewhere: BTreeMap<String, HostPath>,
    /// The devices that rocBLAS' own files are for, by the library.
    pub rocblas: BTreeMap<String, BTreeSet<String>>,
    /// macOS can translate programs for Intel's processors.
    pub translates: bool,
}

/// Everything that is to be said.
#[must_use]
pub fn all(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let Some(binary) = subject.file() else { return Vec::new() };
    let mut drafts = start::platform(subject, binary);
    // Whatever a loader would do that does not take the file at all is beside the point.
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
    // Where the driver itself is missing that is told by the name of its library.
    if !drafts
        .iter()
        .any(|draft| matches!(draft.id.as_str(), "binary.driver-missing" | "binary.driver-absent"))
    {
        drafts.extend(machine::blocked(subject));
    }
    drafts
}

/// Object code that a loader never runs says nothing about devices.
fn is_loaded_here(subject: &BinarySubject<'_>) -> bool {
    let platform = subject.case.facts.platform;
    subject.file().is_some_and(|file| file.format.os() == platform.os)
}

impl BinarySubject<'_> {
    /// The file itself.
    fn file(&self) -> Option<&ObjectFile> {
        self.graph.objects.first()?.binary()
    }

    /// Its name for people.
    fn file_name(&self) -> String {
        let object = self.graph.objects.first();
        object.and_then(|object| object.path.file_name()).unwrap_or_default().to_owned()
    }

    /// Objects with their links.
    fn link_of(&self, index: usize) -> Option<&GraphEdge> {
        self.graph.links.iter().find(|link| link.target == EdgeTarget::Loaded(index))
    }

    /// The release of the CUDA runtime that the file works with, and what tells it: a linked runtime, else its kernels.
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

    /// The version of NVIDIA's driver that programs get: that of its library, else that of the kernel's part.
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
            let stand_in = || Evidence::file("driver", version.as_str());
            let evidence = same.cloned().unwrap_or_else(stand_in);
            Some((version, evidence))
        })
    }

    /// The release of CUDA that the driver knows: its own word, else the table by its version.
    fn driver_release(&self) -> Option<(Version, Evidence)> {
        #[derive(serde::Deserialize)]
        struct BinaryAnswer {
            driver_version: Option<u32>,
        }
        let cuda = self.case.catalogue.get("cuda")?;
        let library = self.driver_version();
        // A newer library than the kernel's part (forward compatibility) was not asked by the probe.
        let answer = self.case.probes.get(&gpubuild_core::backend::Backend::Cuda);
        let said = answer
            .and_then(|answer| serde_json::from_str::<BinaryAnswer>(&answer.answer).ok())
            .and_then(|answer| answer.driver_version)
            .filter(|number| (1000..100_000).contains(number));
        if let Some(number) = said {
            let release = format!("{}.{}", number / 1000, number % 1000 / 10).parse().ok()?;
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

/// That a file names a library.
fn needs(from: &HostPath, name: &str) -> Evidence {
    Evidence::file(from.as_str(), format!("needs {name}"))
}

/// The version behind a file name's start: `libcuda.so.550.54.14`.
fn file_version(path: &HostPath, start: &str) -> Option<Version> {
    path.file_name()?.strip_prefix(start)?.parse().ok()
}

/// The version at the end of a library's real name: `libcudart.so.12.4.127`, `libcudnn.so.9.1.0`.
fn real_version(path: &HostPath) -> Option<Version> {
    let (_, version) = path.file_name()?.split_once(".so.")?;
    version.parse().ok()
}

/// By which rule a library was found, as evidence.
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

/// `a`, `b` and `c` in one line, each in backticks.
fn quoted<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
