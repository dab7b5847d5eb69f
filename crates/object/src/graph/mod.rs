//! What the loader makes of a file: every library that it needs, by whom, where from, and which is missing.
//!
//! Thin: it asks [`library`](gpubuild_host::library) for the places and looks into what lies there. Nothing is loaded.

mod elf;
mod macho;
mod pe;

use std::collections::BTreeMap;

use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::library::LibraryLoader;
use gpubuild_host::library::search::{LinuxLoader, Match, Via};
use gpubuild_host::{HostPath, Os, ReadFiles};

use super::{NeededObject, ObjectFile, ObjectFormat, UnreadableObject, When, read};

/// More libraries than any program loads.
const MOST: usize = 2000;

/// A file with everything that it loads.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The file itself first, then libraries in the order in which they are loaded.
    pub objects: Vec<LoadedObject>,
    /// Who names which library, and what that comes to.
    pub links: Vec<GraphEdge>,
    /// The program that loads a Linux program, and whether it is there.
    pub interpreter: Option<(HostPath, bool)>,
    /// Whose loader it is, on Linux.
    pub loader: Option<LinuxLoader>,
    /// Whether the machine's own libraries are known: a recording need not hold them.
    pub knows_system: bool,
}

/// A file that is loaded.
#[derive(Debug, Clone)]
pub struct LoadedObject {
    /// Where it was found.
    pub path: HostPath,
    /// The same with all links resolved.
    pub real: HostPath,
    /// By which rule; `None` for the file itself.
    pub via: Option<Via>,
    /// What it says about itself, or why it says nothing.
    pub contents: Result<ObjectFile, UnreadableObject>,
    /// Who asked for it first.
    pub parent: Option<usize>,
    /// The names under which it is known by now.
    names: Vec<String>,
}

impl LoadedObject {
    /// What it says about itself, if it does.
    #[must_use]
    pub fn binary(&self) -> Option<&ObjectFile> {
        self.contents.as_ref().ok()
    }

    /// Its name among libraries, or the file's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.first().map(String::as_str).or(self.path.file_name()).unwrap_or_default()
    }
}

/// A library that an object names.
#[derive(Debug, Clone)]
pub struct GraphEdge {
    /// Which object.
    pub from: usize,
    /// What it names.
    pub needed: NeededObject,
    /// What becomes of it.
    pub target: EdgeTarget,
    /// Where this object alone would get it from, if it is another file than the one that is loaded.
    pub own: Option<LibraryCopy>,
    /// Files of that name that come later in the search.
    pub later: Vec<LibraryCopy>,
}

/// A file that is not loaded because another one of its name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryCopy {
    /// Where it lies.
    pub path: HostPath,
    /// By which rule it is come by.
    pub via: Via,
    /// The same with all links resolved: it tells the release.
    pub real: HostPath,
}

/// What becomes of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeTarget {
    /// This object.
    Loaded(usize),
    /// The system has it without a file.
    System,
    /// Nobody knows: the recording does not hold such libraries.
    Unknown,
    /// There is none.
    Missing,
    /// Only files for another processor are there.
    Foreign(Vec<Match>),
}

impl Graph {
    /// A file alone, for a machine whose loader does not take it.
    #[must_use]
    pub fn of_file(path: &HostPath, binary: ObjectFile) -> Self {
        let names = binary.name.clone().into_iter().collect();
        let real = path.clone();
        let file =
            LoadedObject { path: path.clone(), real, via: None, contents: Ok(binary), parent: None, names };
        Self { objects: vec![file], links: Vec::new(), interpreter: None, loader: None, knows_system: false }
    }

    /// The object of a name that somebody asks for.
    #[must_use]
    pub fn loaded(&self, link: &GraphEdge) -> Option<&LoadedObject> {
        match link.target {
            EdgeTarget::Loaded(index) => self.objects.get(index),
            _ => None,
        }
    }

    /// How one object came to be loaded: the file first.
    #[must_use]
    pub fn chain(&self, index: usize) -> Vec<&LoadedObject> {
        let mut chain = Vec::new();
        let mut at = Some(index);
        while let Some(object) = at.and_then(|index| self.objects.get(index)) {
            chain.push(object);
            at = object.parent.filter(|_| chain.len() <= MOST);
        }
        chain.reverse();
        chain
    }
}

/// Follows a file through the loader of its platform.
#[must_use]
pub fn resolve(host: &dyn ReadFiles, path: &HostPath, binary: ObjectFile) -> Graph {
    let format = binary.format;
    let mut graph = Graph::of_file(path, binary);
    graph.objects[0].real = host.canonical(path).unwrap_or_else(|_| path.clone());
    let mut walk = GraphWalk { host, loader: LibraryLoader::new(host), graph, read: BTreeMap::new() };
    match format {
        ObjectFormat::Elf => elf::walk(&mut walk),
        ObjectFormat::Pe => pe::walk(&mut walk),
        ObjectFormat::MachO => macho::walk(&mut walk),
    }
    walk.graph
}

/// A search under way.
struct GraphWalk<'a> {
    host: &'a dyn ReadFiles,
    loader: LibraryLoader<'a>,
    graph: Graph,
    /// Files that were looked into and not loaded.
    read: BTreeMap<String, Result<ObjectFile, UnreadableObject>>,
}

impl GraphWalk<'_> {
    /// The object that answers to a name already.
    fn known(&self, name: &str) -> Option<usize> {
        self.graph.objects.iter().position(|object| object.names.iter().any(|known| known == name))
    }

    /// Loads a file that was found, or finds that it is loaded.
    fn load(&mut self, found: &Match, name: &str, from: usize) -> Option<usize> {
        let real = self.host.canonical(&found.path).unwrap_or_else(|_| found.path.clone());
        let same = self.graph.objects.iter().position(|object| object.real.key() == real.key());
        if let Some(index) = same {
            self.graph.objects[index].names.push(name.to_owned());
            return Some(index);
        }
        if self.graph.objects.len() >= MOST {
            return None;
        }
        let contents = self.look(&found.path);
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

    /// A file that is not loaded.
    fn copy(&self, found: Match) -> LibraryCopy {
        let real = self.host.canonical(&found.path).unwrap_or_else(|_| found.path.clone());
        LibraryCopy { path: found.path, via: found.via, real }
    }

    /// Looks into a file, once.
    fn look(&mut self, path: &HostPath) -> Result<ObjectFile, UnreadableObject> {
        let arch = self.host.platform().arch;
        let host = self.host;
        self.read.entry(path.key()).or_insert_with(|| read(host, path, arch)).clone()
    }

    /// What is said of a name that nothing was found under.
    fn absent(&self, name: &str, foreign: Vec<Match>) -> EdgeTarget {
        if !foreign.is_empty() {
            return EdgeTarget::Foreign(foreign);
        }
        let os = self.host.platform().os;
        let is_of_system = libraries::is_of_system(os, name);
        // What Windows and macOS have without files; libraries of Linux are files.
        if is_of_system && (os != Os::Linux || !self.graph.knows_system) {
            return EdgeTarget::System;
        }
        // Recordings hold what belongs to GPUs.
        let is_recorded = libraries::find(name).is_some_and(|library| library.role != LibraryRole::System);
        if self.graph.knows_system || is_recorded { EdgeTarget::Missing } else { EdgeTarget::Unknown }
    }

    /// Libraries that are opened by the program while it runs, as far as that is known: a CUDA runtime, also one that is
    /// part of the file, opens the driver.
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

/// Whether a library is one that opens a driver.
fn is_runtime(name: &str) -> bool {
    libraries::find(name).is_some_and(|library| !library.opens.is_empty())
}

/// A library that is opened while the program runs.
fn opened(name: &str) -> NeededObject {
    NeededObject { when: When::Opened, ..NeededObject::at_start(name) }
}
