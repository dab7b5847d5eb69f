//! Resolves the libraries of a file as the loader would: which libraries are loaded, by which file, from where, and which are
//! missing.
//!
//! [`library`](gpubuild_host::library) provides the search order. The files are only read, never loaded.

mod elf;
mod macho;
mod pe;

use std::collections::BTreeMap;

use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::library::LibraryLoader;
use gpubuild_host::library::search::{LinuxLoader, Match, Via};
use gpubuild_host::{HostPath, Os, ReadFiles};

use super::{NeededObject, ObjectFile, ObjectFormat, UnreadableObject, When, read};

/// The limit of libraries in a graph.
const MAX_OBJECTS: usize = 2000;

/// A file with all libraries that it loads.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The file itself first, then the libraries in load order.
    pub objects: Vec<LoadedObject>,
    /// The dependencies between the objects, including those that are not resolved.
    pub links: Vec<GraphEdge>,
    /// The path of the loader that a Linux program names, and whether the loader exists.
    pub interpreter: Option<(HostPath, bool)>,
    /// The kind of loader, on Linux.
    pub loader: Option<LinuxLoader>,
    /// Whether the host contains its system libraries. A recorded host may not.
    pub knows_system: bool,
}

/// A file in the graph.
#[derive(Debug, Clone)]
pub struct LoadedObject {
    /// The path where it was found.
    pub path: HostPath,
    /// The path with all symbolic links resolved.
    pub real: HostPath,
    /// The search rule that found it; `None` for the file itself.
    pub via: Option<Via>,
    /// The parsed content, or why the file can't be read.
    pub contents: Result<ObjectFile, UnreadableObject>,
    /// The index of the object that loads it first.
    pub parent: Option<usize>,
    /// The names under which it was requested so far, and its own name.
    names: Vec<String>,
}

impl LoadedObject {
    /// The parsed content, if the file can be read.
    #[must_use]
    pub fn binary(&self) -> Option<&ObjectFile> {
        self.contents.as_ref().ok()
    }

    /// The first name under which it was requested, or else the file name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.first().map(String::as_str).or(self.path.file_name()).unwrap_or_default()
    }
}

/// A dependency of an object.
#[derive(Debug, Clone)]
pub struct GraphEdge {
    /// The index of the object that has the dependency.
    pub from: usize,
    /// The library that it needs.
    pub needed: NeededObject,
    /// The result of the search.
    pub target: EdgeTarget,
    /// The file that this object would load on its own, if another file was loaded under this name before.
    pub own: Option<LibraryCopy>,
    /// Files with the same name later in the search order.
    pub later: Vec<LibraryCopy>,
}

/// A file that is not loaded because another file with its name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryCopy {
    /// The path of the file.
    pub path: HostPath,
    /// The search rule that finds it.
    pub via: Via,
    /// The path with all symbolic links resolved, which often contains the release.
    pub real: HostPath,
}

/// The result of searching a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeTarget {
    /// The object with this index is loaded.
    Loaded(usize),
    /// The system provides it without a file.
    System,
    /// Unknown: the recorded host does not contain system libraries, or the graph is too large.
    Unknown,
    /// No file with this name is found.
    Missing,
    /// Only files for other architectures are found.
    Foreign(Vec<Match>),
}

impl Graph {
    /// A graph of only the file, for a host whose loader does not accept its format.
    #[must_use]
    pub fn of_file(path: &HostPath, binary: ObjectFile) -> Self {
        let names = binary.name.clone().into_iter().collect();
        let real = path.clone();
        let file =
            LoadedObject { path: path.clone(), real, via: None, contents: Ok(binary), parent: None, names };
        Self { objects: vec![file], links: Vec::new(), interpreter: None, loader: None, knows_system: false }
    }

    /// The object that a dependency resolves to, if one is loaded.
    #[must_use]
    pub fn loaded(&self, link: &GraphEdge) -> Option<&LoadedObject> {
        match link.target {
            EdgeTarget::Loaded(index) => self.objects.get(index),
            _ => None,
        }
    }

    /// The chain of objects that leads to an object, starting with the file itself.
    #[must_use]
    pub fn chain(&self, index: usize) -> Vec<&LoadedObject> {
        let mut chain = Vec::new();
        let mut at = Some(index);
        while let Some(object) = at.and_then(|index| self.objects.get(index)) {
            chain.push(object);
            at = object.parent.filter(|_| chain.len() <= MAX_OBJECTS);
        }
        chain.reverse();
        chain
    }
}

/// Resolves the libraries of a file with the rules of its platform's loader.
#[must_use]
pub fn resolve(host: &dyn ReadFiles, path: &HostPath, binary: ObjectFile) -> Graph {
    let format = binary.format;
    let mut graph = Graph::of_file(path, binary);
    graph.objects[0].real = host.canonical(path).unwrap_or_else(|_| path.clone());
    let mut walk = GraphWalk { host, loader: LibraryLoader::new(host), graph, contents: BTreeMap::new() };
    match format {
        ObjectFormat::Elf => elf::walk(&mut walk),
        ObjectFormat::Pe => pe::walk(&mut walk),
        ObjectFormat::MachO => macho::walk(&mut walk),
    }
    walk.graph
}

/// The state while a graph is built.
struct GraphWalk<'a> {
    host: &'a dyn ReadFiles,
    loader: LibraryLoader<'a>,
    graph: Graph,
    /// The files that were read, by path.
    contents: BTreeMap<String, Result<ObjectFile, UnreadableObject>>,
}

impl GraphWalk<'_> {
    /// The index of a loaded object with this name.
    fn known(&self, name: &str) -> Option<usize> {
        self.graph.objects.iter().position(|object| object.names.iter().any(|known| known == name))
    }

    /// Adds a file to the graph, or only its name if the file is loaded already. `None` if the graph is too large.
    fn load(&mut self, found: &Match, name: &str, from: usize) -> Option<usize> {
        let real = self.host.canonical(&found.path).unwrap_or_else(|_| found.path.clone());
        let same = self.graph.objects.iter().position(|object| object.real.key() == real.key());
        if let Some(index) = same {
            self.graph.objects[index].names.push(name.to_owned());
            return Some(index);
        }
        if self.graph.objects.len() >= MAX_OBJECTS {
            return None;
        }
        let contents = self.read(&found.path);
        let own = contents.as_ref().ok().and_then(|binary| binary.name.clone());
        let names = [Some(name.to_owned()), own.filter(|own| own != name)].into_iter().flatten().collect();
        self.graph.objects.push(LoadedObject {
            path: found.path.clone(),
            real,
            via: Some(found.via),
            contents,
            parent: Some(from),
            names,
        });
        Some(self.graph.objects.len() - 1)
    }

    fn copy(&self, found: Match) -> LibraryCopy {
        let real = self.host.canonical(&found.path).unwrap_or_else(|_| found.path.clone());
        LibraryCopy { path: found.path, via: found.via, real }
    }

    /// Reads a file, or returns the earlier result.
    fn read(&mut self, path: &HostPath) -> Result<ObjectFile, UnreadableObject> {
        let arch = self.host.platform().arch;
        let host = self.host;
        self.contents.entry(path.key()).or_insert_with(|| read(host, path, arch)).clone()
    }

    /// The result for a name without a matching file.
    fn absent(&self, name: &str, foreign: Vec<Match>) -> EdgeTarget {
        if !foreign.is_empty() {
            return EdgeTarget::Foreign(foreign);
        }
        let os = self.host.platform().os;
        let is_of_system = libraries::is_of_system(os, name);
        // Windows and macOS provide system libraries without files. On Linux, they are files.
        if is_of_system && (os != Os::Linux || !self.graph.knows_system) {
            return EdgeTarget::System;
        }
        // Recorded hosts contain all GPU libraries.
        let is_recorded = libraries::find(name).is_some_and(|library| library.role != LibraryRole::System);
        if self.graph.knows_system || is_recorded { EdgeTarget::Missing } else { EdgeTarget::Unknown }
    }

    /// The known libraries that are opened at run time, with the object that opens each: a CUDA runtime, also a static one, opens
    /// the driver.
    fn opened_later(&self) -> Vec<(usize, String)> {
        let os = self.host.platform().os;
        let mut list = Vec::new();
        for (index, object) in self.graph.objects.iter().enumerate() {
            let by_name = object.names.iter().find_map(|name| libraries::find(name)?.opens.get(&os));
            let runtime = || libraries::find("libcudart.so.12").and_then(|runtime| runtime.opens.get(&os));
            let has_own_runtime = object.binary().is_some_and(|binary| {
                binary.cuda.registers && !binary.needed.iter().any(|needed| is_runtime(&needed.name))
            });
            let opens = by_name.or_else(|| has_own_runtime.then(runtime).flatten());
            list.extend(opens.into_iter().flatten().map(|name| (index, name.clone())));
        }
        list
    }
}

/// Whether a library opens a driver at run time.
fn is_runtime(name: &str) -> bool {
    libraries::find(name).is_some_and(|library| !library.opens.is_empty())
}

fn opened(name: &str) -> NeededObject {
    NeededObject { when: When::Opened, ..NeededObject::at_start(name) }
}
