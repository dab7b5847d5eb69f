//! Every library that a packed program needs and no machine is sure to have.
//!
//! The loader is followed as `doctor --binary` follows it. What belongs to a driver, finds one, or is of the system itself stays
//! with the machine: a second copy of it would fail, or break the drivers that are loaded beside it.

use std::collections::{BTreeMap, BTreeSet};

use crate::doctor::binary::graph::{self, Graph, Link, Target};
use crate::doctor::binary::{self, When};
use crate::host::{Host, HostPath, Os};
use crate::toolkit::libraries::{self, Role};

/// What a program takes along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closure {
    /// Libraries of others by the name under which they are asked for, and where they lie.
    pub taken: BTreeMap<String, HostPath>,
    /// Names that are left to the machine, but for those of the C library.
    pub left: BTreeSet<String>,
}

/// Why there is no closure.
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
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    if leave.iter().any(|pattern| crate::host::search::star_matches(pattern, file)) {
        return Whose::Machine;
    }
    match libraries::find(name) {
        Some(library) if matches!(library.role, Role::Driver | Role::Loader) || library.core => {
            Whose::Machine
        }
        _ => Whose::Ours,
    }
}

/// Follows the programs, libraries and modules that were built. `own` are the real paths of those that come along anyway.
///
/// # Errors
/// See [`ClosureError`].
pub fn follow(
    host: &dyn Host,
    roots: &[HostPath],
    own: &BTreeSet<String>,
    leave: &[String],
) -> Result<Closure, ClosureError> {
    let mut closure = Closure::default();
    for root in roots {
        let contents = binary::read(host, root, host.platform().arch)
            .map_err(|error| ClosureError::Unreadable { path: root.to_string(), what: error.to_string() })?;
        let graph = graph::resolve(host, root, contents);
        take(host, &graph, own, leave, &mut closure)?;
    }
    Ok(closure)
}

fn take(
    host: &dyn Host,
    graph: &Graph,
    own: &BTreeSet<String>,
    leave: &[String],
    closure: &mut Closure,
) -> Result<(), ClosureError> {
    let mut reached = vec![0];
    let mut at = 0;
    while let Some(&from) = reached.get(at) {
        at += 1;
        for link in graph.links.iter().filter(|link| link.from == from) {
            let name = &link.needed.name;
            match whose(host.platform().os, name, leave) {
                Whose::System => continue,
                Whose::Machine => {
                    closure.left.insert(name.clone());
                    continue;
                }
                Whose::Ours => {}
            }
            let Some(index) = found(graph, link)? else { continue };
            if !reached.contains(&index) {
                reached.push(index);
            }
            let object = &graph.objects[index];
            if own.contains(&object.real.key()) {
                continue;
            }
            if is_of_windows(host, &object.real) {
                closure.left.insert(name.clone());
                continue;
            }
            let file = name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned();
            let before = closure.taken.entry(file.clone()).or_insert_with(|| object.real.clone());
            if before.key() != object.real.key() {
                return Err(ClosureError::Two {
                    name: file,
                    one: before.to_string(),
                    other: object.real.to_string(),
                });
            }
        }
    }
    Ok(())
}

/// The object that a name leads to. What a program opens by itself, or can do without, may be missing.
fn found(graph: &Graph, link: &Link) -> Result<Option<usize>, ClosureError> {
    let forgiven = matches!(link.needed.when, When::Opened | When::IfThere);
    match &link.target {
        Target::Loaded(index) => Ok(Some(*index)),
        Target::System => Ok(None),
        Target::Missing | Target::Foreign(_) | Target::Unknown if forgiven => Ok(None),
        Target::Missing | Target::Foreign(_) | Target::Unknown => Err(ClosureError::Missing {
            name: link.needed.name.clone(),
            by: graph.objects[link.from].path.to_string(),
        }),
    }
}

/// Whether a library came with Windows: no list names all of those.
fn is_of_windows(host: &dyn Host, path: &HostPath) -> bool {
    let root = host.env().get("SystemRoot").filter(|_| host.platform().os == Os::Windows);
    root.is_some_and(|root| path.is_inside(&host.path(root)))
}

/// Follows a staged copy: what it needs has to come out of the copy, or be the machine's.
///
/// # Errors
/// [`ClosureError::Missing`] for what would come from elsewhere, with the place.
pub fn verify(
    host: &dyn Host,
    roots: &[HostPath],
    inside: &HostPath,
    leave: &[String],
) -> Result<(), ClosureError> {
    let closure = follow(host, roots, &BTreeSet::new(), leave)?;
    let outside = closure.taken.iter().find(|(_, path)| !path.is_inside(inside));
    match outside {
        None => Ok(()),
        Some((name, path)) => Err(ClosureError::Unreadable {
            path: roots.first().map(ToString::to_string).unwrap_or_default(),
            what: format!("`{name}` is packed, and the loader takes `{path}` nevertheless"),
        }),
    }
}
