//! Finds the libraries that a packed program needs and that a user's machine may lack.
//!
//! Libraries are resolved like in `doctor --binary`. Driver libraries, loaders that find drivers, and system libraries are not packed: a
//! second copy would not work, or would break the drivers that the process also loads.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::{HostInfo, HostPath, Os, Platform, ReadFiles};
use gpubuild_object::graph::{self, EdgeTarget, Graph, GraphEdge};
use gpubuild_object::{self, ObjectFile, When};
use gpubuild_toolchain::venv::table::WheelTable;

/// The dependencies of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closure {
    /// The libraries to pack, by the name with which they are loaded.
    pub packed: BTreeMap<String, HostPath>,
    /// Libraries that the user's machine must provide, except the C library.
    pub left: BTreeSet<String>,
    /// Libraries that a packed library opens at run time and that were not found.
    pub not_found: BTreeSet<String>,
}

/// Why the closure cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClosureError {
    /// A required library was not found.
    #[error("`{by}` needs `{name}`, which was not found")]
    Missing {
        /// The required library.
        name: String,
        /// The file that requires it.
        by: String,
    },
    /// Two different libraries have the same name.
    #[error("two different libraries are named `{name}`: `{one}` and `{other}`")]
    Two {
        /// The name.
        name: String,
        /// The path of the first library.
        one: String,
        /// The path of the second library.
        other: String,
    },
    /// A file cannot be read as a program or library.
    #[error("`{path}`: {what}")]
    Unreadable {
        /// The file.
        path: String,
        /// The cause.
        what: String,
    },
}

/// Who provides a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    /// The operating system: the C library or the loader itself.
    System,
    /// The user's machine: drivers, their loaders, and libraries in `leave`.
    Machine,
    /// The release.
    Release,
}

fn provider(os: Os, name: &str, leave: &[String]) -> Provider {
    if libraries::is_of_system(os, name) {
        return Provider::System;
    }
    if leave.iter().any(|pattern| gpubuild_host::search::star_matches(pattern, file_name(name))) {
        return Provider::Machine;
    }
    match libraries::find(name) {
        Some(library)
            if matches!(library.role, LibraryRole::Driver | LibraryRole::Loader) || library.core =>
        {
            Provider::Machine
        }
        _ => Provider::Release,
    }
}

/// Whether the machine of the user provides a library.
#[must_use]
pub fn is_left(os: Os, name: &str, leave: &[String]) -> bool {
    provider(os, name, leave) != Provider::Release
}

/// The rules for a search of dependencies.
pub struct ClosureRules<'a> {
    /// The platform of the files.
    pub platform: Platform,
    /// The resolved paths of the project's own files, which are packed anyway.
    pub own: BTreeSet<String>,
    /// Patterns for libraries that the user's machine provides.
    pub leave: &'a [String],
    /// The folders of linked libraries, which are searched for libraries that the loader does not find.
    pub folders: Vec<HostPath>,
}

/// Finds the dependencies of programs, libraries and modules.
///
/// # Errors
/// See [`ClosureError`].
pub fn follow(
    host: &dyn ReadFiles,
    roots: &[HostPath],
    rules: &ClosureRules<'_>,
) -> Result<Closure, ClosureError> {
    let mut walk = ClosureWalk { host, rules, closure: Closure::default(), open: roots.to_vec() };
    while let Some(root) = walk.open.pop() {
        let contents = gpubuild_object::read(host, &root, rules.platform.arch)
            .map_err(|error| ClosureError::Unreadable { path: root.to_string(), what: error.to_string() })?;
        if rules.platform == host.platform() {
            walk.add_dependencies(&graph::resolve(host, &root, contents))?;
        } else {
            walk.add_by_name(&root, &contents)?;
        }
    }
    Ok(walk.closure)
}

struct ClosureWalk<'a> {
    host: &'a dyn ReadFiles,
    rules: &'a ClosureRules<'a>,
    closure: Closure,
    /// Files whose dependencies are still to be found.
    open: Vec<HostPath>,
}

impl ClosureWalk<'_> {
    /// Adds the dependencies that the loader finds. A library that only this search finds is added to `open`.
    fn add_dependencies(&mut self, graph: &Graph) -> Result<(), ClosureError> {
        let os = self.rules.platform.os;
        let mut reached = vec![0];
        let mut at = 0;
        while let Some(&from) = reached.get(at) {
            at += 1;
            for link in graph.links.iter().filter(|link| link.from == from) {
                let name = &link.needed.name;
                match provider(os, name, self.rules.leave) {
                    Provider::System => continue,
                    Provider::Machine => {
                        self.closure.left.insert(name.clone());
                        continue;
                    }
                    Provider::Release => {}
                }
                if let EdgeTarget::Loaded(index) = link.target {
                    let real = &graph.objects[index].real;
                    if is_of_windows(self.host, real) {
                        self.closure.left.insert(name.clone());
                        continue;
                    }
                    if !reached.contains(&index) {
                        reached.push(index);
                    }
                    self.add(name, real)?;
                } else if let Some(path) = self.find_linked(graph, link)? {
                    self.add_linked(name, path)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the dependencies of a file for another platform, whose loader and libraries this machine lacks: only the folders of linked
    /// libraries are searched. Windows has no complete list of its libraries, so the rest is regarded as part of it.
    fn add_by_name(&mut self, root: &HostPath, contents: &ObjectFile) -> Result<(), ClosureError> {
        let os = self.rules.platform.os;
        let is_own = |name: &str| self.rules.own.iter().any(|own| file_name(own) == file_name(name));
        for needed in contents.needed.iter().filter(|needed| !is_own(&needed.name)) {
            let name = &needed.name;
            let provider = provider(os, name, self.rules.leave);
            if provider == Provider::System {
                continue;
            }
            let mut candidates = self.rules.folders.iter().map(|folder| folder.join(file_name(name)));
            let found = candidates.find(|path| self.host.is_file(path) && provider == Provider::Release);
            if let Some(path) = found {
                self.add_linked(name, path)?;
            } else if provider == Provider::Machine || os == Os::Windows {
                self.closure.left.insert(name.clone());
            } else if !matches!(needed.when, When::Opened | When::IfThere) {
                return Err(ClosureError::Missing { name: name.clone(), by: root.to_string() });
            }
        }
        Ok(())
    }

    /// Searches the folders of linked libraries for a library that the loader does not find.
    fn find_linked(&self, graph: &Graph, link: &GraphEdge) -> Result<Option<HostPath>, ClosureError> {
        let name = &link.needed.name;
        if link.target == EdgeTarget::System {
            return Ok(None);
        }
        let mut candidates = self.rules.folders.iter().map(|folder| folder.join(file_name(name)));
        if let Some(path) = candidates.find(|path| self.host.is_file(path)) {
            return Ok(Some(path));
        }
        // Libraries that are opened at run time or are optional may be missing.
        if matches!(link.needed.when, When::Opened | When::IfThere) {
            return Ok(None);
        }
        let by = graph.objects[link.from].path.to_string();
        Err(ClosureError::Missing { name: name.clone(), by })
    }

    fn add_linked(&mut self, name: &str, path: HostPath) -> Result<(), ClosureError> {
        let real = self.host.canonical(&path).unwrap_or_else(|_| path.clone());
        if self.add(name, &real)? {
            // Use the unresolved path, because the loader searches for its dependencies beside it.
            self.open.push(path);
        }
        Ok(())
    }

    /// Adds a library. Returns whether it is new.
    fn add(&mut self, name: &str, real: &HostPath) -> Result<bool, ClosureError> {
        if self.rules.own.contains(&real.key()) {
            return Ok(false);
        }
        let file = file_name(name).to_owned();
        if let Some(before) = self.closure.packed.get(&file) {
            if before.key() == real.key() {
                return Ok(false);
            }
            let (one, other) = (before.to_string(), real.to_string());
            return Err(ClosureError::Two { name: file, one, other });
        }
        self.closure.packed.insert(file.clone(), real.clone());
        self.add_opened(&file, real)?;
        Ok(true)
    }

    /// Adds the libraries that a CUDA library opens at run time, according to the table of wheels. They are beside it or in the folder of
    /// another linked library.
    fn add_opened(&mut self, name: &str, real: &HostPath) -> Result<(), ClosureError> {
        let os = self.rules.platform.os;
        let wheels = WheelTable::embedded().releases.iter().filter_map(|release| release.wheel_of(os, name));
        let names: BTreeSet<&String> =
            wheels.flat_map(|wheel| wheel.opens(os)).filter(|opened| opened.as_str() != name).collect_set();
        let mut missing = Vec::new();
        let mut any = false;
        for opened in names {
            let folders = real.parent().into_iter().chain(self.rules.folders.iter().cloned());
            let found = folders.map(|folder| folder.join(opened)).find(|path| self.host.is_file(path));
            match found {
                Some(path) => {
                    any = true;
                    self.add_linked(opened, path)?;
                }
                None => missing.push(opened.clone()),
            }
        }
        // The names contain the version of different CUDA releases, so one of them is sufficient.
        self.closure.not_found.extend(missing.into_iter().filter(|_| !any));
        Ok(())
    }
}

fn file_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// Whether a library is part of Windows: it is below `SystemRoot`. No complete list of their names exists.
fn is_of_windows(host: &dyn HostInfo, path: &HostPath) -> bool {
    let root = host.env().get("SystemRoot").filter(|_| host.platform().os == Os::Windows);
    root.is_some_and(|root| path.is_inside(&host.path(root)))
}

/// Checks that the loader finds all packed libraries inside the staged copy.
///
/// # Errors
/// A library is missing, or the loader would use one outside of the copy.
pub fn verify(
    host: &dyn ReadFiles,
    roots: &[HostPath],
    inside: &HostPath,
    (platform, leave): (Platform, &[String]),
) -> Result<(), ClosureError> {
    let is_foreign = platform != host.platform();
    let folders = ["bin", "lib"].iter().filter(|_| is_foreign).map(|folder| inside.join(folder)).collect();
    let rules = ClosureRules { platform, own: BTreeSet::new(), leave, folders };
    let closure = follow(host, roots, &rules)?;
    let outside = closure.packed.iter().find(|(_, path)| !path.is_inside(inside));
    match outside {
        None => Ok(()),
        Some((name, path)) => Err(ClosureError::Unreadable {
            path: roots.first().map(ToString::to_string).unwrap_or_default(),
            what: format!("`{name}` is packed, but the loader would use `{path}`"),
        }),
    }
}
