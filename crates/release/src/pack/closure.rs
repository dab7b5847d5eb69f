//! Every library that a packed program needs and no machine is sure to have.
//!
//! The loader is followed as `doctor --binary` follows it. What belongs to a driver, finds one, or is of the system itself stays
//! with the machine: a second copy of it would fail, or break the drivers that are loaded beside it.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::{HostInfo, HostPath, Os, ReadFiles};
use gpubuild_object::graph::{self, EdgeTarget, Graph, GraphEdge};
use gpubuild_object::{self, When};
use gpubuild_toolchain::venv::table::WheelTable;

/// What a program takes along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closure {
    /// Third-party libraries: requested name and path.
    pub taken: BTreeMap<String, HostPath>,
    /// Names that are left to the machine, but for those of the C library.
    pub left: BTreeSet<String>,
    /// What such libraries would open while they run, and is not here.
    pub not_found: BTreeSet<String>,
}

/// Why the closure cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClosureError {
    /// Something that is needed is not here.
    #[error("`{by}` needs `{name}`, which is not found here")]
    Missing {
        /// The library.
        name: String,
        /// Who names it.
        by: String,
    },
    /// Two of one name.
    #[error("`{name}` is two libraries: `{one}` and `{other}`")]
    Two {
        /// The name.
        name: String,
        /// The first.
        one: String,
        /// The second.
        other: String,
    },
    /// A file that no loader takes.
    #[error("`{path}`: {what}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        what: String,
    },
}

/// Whom a name is left to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The C library and what the loader itself is.
    System,
    /// The machine has it, or can't use ours.
    Machine,
    /// It comes along.
    Ours,
}

fn whose(os: Os, name: &str, leave: &[String]) -> Whose {
    if libraries::is_of_system(os, name) {
        return Whose::System;
    }
    if leave.iter().any(|pattern| gpubuild_host::search::star_matches(pattern, file_name(name))) {
        return Whose::Machine;
    }
    match libraries::find(name) {
        Some(library)
            if matches!(library.role, LibraryRole::Driver | LibraryRole::Loader) || library.core =>
        {
            Whose::Machine
        }
        _ => Whose::Ours,
    }
}

/// What is followed, and by which rules.
pub struct ClosureRules<'a> {
    /// The real paths of what comes along anyway.
    pub own: BTreeSet<String>,
    /// Names that are left to the machine.
    pub leave: &'a [String],
    /// Folders in which libraries are looked for that the loader does not find: those that were linked.
    pub folders: Vec<HostPath>,
}

/// Follows the programs, libraries and modules that were built.
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
        let contents = gpubuild_object::read(host, &root, host.platform().arch)
            .map_err(|error| ClosureError::Unreadable { path: root.to_string(), what: error.to_string() })?;
        walk.take(&graph::resolve(host, &root, contents))?;
    }
    Ok(walk.closure)
}

struct ClosureWalk<'a> {
    host: &'a dyn ReadFiles,
    rules: &'a ClosureRules<'a>,
    closure: Closure,
    /// Files that are still to be followed.
    open: Vec<HostPath>,
}

impl ClosureWalk<'_> {
    /// Takes what a file needs. What the loader does not find is followed by itself.
    fn take(&mut self, graph: &Graph) -> Result<(), ClosureError> {
        let os = self.host.platform().os;
        let mut reached = vec![0];
        let mut at = 0;
        while let Some(&from) = reached.get(at) {
            at += 1;
            for link in graph.links.iter().filter(|link| link.from == from) {
                let name = &link.needed.name;
                match whose(os, name, self.rules.leave) {
                    Whose::System => continue,
                    Whose::Machine => {
                        self.closure.left.insert(name.clone());
                        continue;
                    }
                    Whose::Ours => {}
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
                } else if let Some(path) = self.elsewhere(graph, link)? {
                    self.find(name, path)?;
                }
            }
        }
        Ok(())
    }

    /// A library that the loader does not find from here: in the folders of what was linked.
    fn elsewhere(&self, graph: &Graph, link: &GraphEdge) -> Result<Option<HostPath>, ClosureError> {
        let name = &link.needed.name;
        if link.target == EdgeTarget::System {
            return Ok(None);
        }
        let mut places = self.rules.folders.iter().map(|folder| folder.join(file_name(name)));
        if let Some(path) = places.find(|path| self.host.is_file(path)) {
            return Ok(Some(path));
        }
        // What a program opens by itself, or can do without, may be missing.
        if matches!(link.needed.when, When::Opened | When::IfThere) {
            return Ok(None);
        }
        let by = graph.objects[link.from].path.to_string();
        Err(ClosureError::Missing { name: name.clone(), by })
    }

    fn find(&mut self, name: &str, path: HostPath) -> Result<(), ClosureError> {
        let real = self.host.canonical(&path).unwrap_or_else(|_| path.clone());
        if self.add(name, &real)? {
            // Under the path where it was found: libraries beside it are searched from there.
            self.open.push(path);
        }
        Ok(())
    }

    /// Whether it was not known yet.
    fn add(&mut self, name: &str, real: &HostPath) -> Result<bool, ClosureError> {
        if self.rules.own.contains(&real.key()) {
            return Ok(false);
        }
        let file = file_name(name).to_owned();
        if let Some(before) = self.closure.taken.get(&file) {
            if before.key() == real.key() {
                return Ok(false);
            }
            let (one, other) = (before.to_string(), real.to_string());
            return Err(ClosureError::Two { name: file, one, other });
        }
        self.closure.taken.insert(file.clone(), real.clone());
        self.opened(&file, real)?;
        Ok(true)
    }

    /// Libraries that a CUDA library opens at run time, from the table of wheels. They are beside it or in their own folder.
    fn opened(&mut self, name: &str, real: &HostPath) -> Result<(), ClosureError> {
        let os = self.host.platform().os;
        let wheels = WheelTable::embedded().releases.iter().filter_map(|release| release.wheel_of(os, name));
        let names: BTreeSet<&String> =
            wheels.flat_map(|wheel| wheel.opens(os)).filter(|opened| opened.as_str() != name).collect();
        let mut missing = Vec::new();
        let mut any = false;
        for opened in names {
            let folders = real.parent().into_iter().chain(self.rules.folders.iter().cloned());
            let found = folders.map(|folder| folder.join(opened)).find(|path| self.host.is_file(path));
            match found {
                Some(path) => {
                    any = true;
                    self.find(opened, path)?;
                }
                None => missing.push(opened.clone()),
            }
        }
        // Releases number them differently: one of the names is enough.
        self.closure.not_found.extend(missing.into_iter().filter(|_| !any));
        Ok(())
    }
}

fn file_name(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// Whether a library came with Windows: no list names all of those.
fn is_of_windows(host: &dyn HostInfo, path: &HostPath) -> bool {
    let root = host.env().get("SystemRoot").filter(|_| host.platform().os == Os::Windows);
    root.is_some_and(|root| path.is_inside(&host.path(root)))
}

/// Follows a staged copy: what it needs has to come out of the copy, or be the machine's.
///
/// # Errors
/// [`ClosureError::Missing`] for what would come from elsewhere, with the place.
pub fn verify(
    host: &dyn ReadFiles,
    roots: &[HostPath],
    inside: &HostPath,
    leave: &[String],
) -> Result<(), ClosureError> {
    let rules = ClosureRules { own: BTreeSet::new(), leave, folders: Vec::new() };
    let closure = follow(host, roots, &rules)?;
    let outside = closure.taken.iter().find(|(_, path)| !path.is_inside(inside));
    match outside {
        None => Ok(()),
        Some((name, path)) => Err(ClosureError::Unreadable {
            path: roots.first().map(ToString::to_string).unwrap_or_default(),
            what: format!("`{name}` is packed, and the loader takes `{path}` nevertheless"),
        }),
    }
}
