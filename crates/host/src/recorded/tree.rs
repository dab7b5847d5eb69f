//! A file system in memory, with links, by the rules of the platform that was recorded.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

use super::Entry;
use crate::{HostPath, PathRules};

/// More links than this in one path are a loop. Linux has the same limit.
const MOST_LINKS: usize = 40;

/// All files of a host.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    rules: PathRules,
    roots: BTreeMap<String, (String, Node)>,
}

#[derive(Debug, Clone)]
struct Node {
    entry: Entry,
    /// By folded name: the name as it was written, and what stands there.
    children: BTreeMap<String, (String, Node)>,
}

/// A place in the tree: its root and the names that lead there, no link among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    root: String,
    names: Vec<String>,
}

impl Tree {
    pub(super) fn new(rules: PathRules) -> Self {
        let mut tree = Self { rules, roots: BTreeMap::new() };
        if rules == PathRules::Unix {
            tree.make_root("/");
        }
        tree
    }

    fn make_root(&mut self, root: &str) {
        let node = || (root.to_owned(), Node { entry: Entry::folder(), children: BTreeMap::new() });
        self.roots.entry(self.fold(root)).or_insert_with(node);
    }

    fn fold(&self, name: &str) -> String {
        match self.rules {
            PathRules::Unix => name.to_owned(),
            PathRules::Windows => name.to_lowercase(),
        }
    }

    /// Puts an entry at a path. Folders above it are made, links among them are followed. Says what is wrong where it
    /// can't stand.
    pub(super) fn insert(&mut self, path: &HostPath, entry: Entry) -> Result<(), String> {
        let (root, names) = split(path).ok_or("the path is not absolute")?;
        self.make_root(&root);
        let Some((name, folders)) = names.split_last() else {
            return match entry {
                Entry::Directory { .. } => Ok(()),
                _ => Err("the root is a folder".to_owned()),
            };
        };
        let parent = self.resolve_making(&root, folders)?;
        let key = self.fold(name);
        let node = self.node_mut(&parent).ok_or("the folder above it is missing")?;
        if !matches!(node.entry, Entry::Directory { .. }) {
            return Err("the place above it is a file".to_owned());
        }
        match node.children.get_mut(&key) {
            None => {
                node.children.insert(key, (name.clone(), Node { entry, children: BTreeMap::new() }));
                Ok(())
            }
            // A folder that is already there by implication, now with its details.
            Some((_, existing))
                if existing.entry == Entry::folder() && matches!(entry, Entry::Directory { .. }) =>
            {
                existing.entry = entry;
                Ok(())
            }
            Some((_, existing)) if existing.entry == entry => Ok(()),
            Some((_, existing)) if matches!(existing.entry, Entry::Directory { .. }) => {
                Err("it is a folder too, because other files lie in it".to_owned())
            }
            Some(_) => Err("it is recorded twice, and not alike".to_owned()),
        }
    }

    /// Follows names from a root and makes the folders that are missing.
    fn resolve_making(&mut self, root: &str, names: &[String]) -> Result<Location, String> {
        for _ in 0..=MOST_LINKS + names.len() {
            match self.walk(root, names) {
                Ok(location) => return Ok(location),
                Err(Stop::Loop) => return Err("the links above it form a loop".to_owned()),
                Err(Stop::NoFolder) => return Err("a place above it is a file".to_owned()),
                Err(Stop::Missing(at, name)) => {
                    self.make_root(&at.root);
                    let key = self.fold(&name);
                    if let Some(node) = self.node_mut(&at) {
                        node.children
                            .insert(key, (name, Node { entry: Entry::folder(), children: BTreeMap::new() }));
                    }
                }
            }
        }
        Err("the links above it form a loop".to_owned())
    }

    /// Where a path leads when every link is followed.
    pub(super) fn resolve(&self, path: &HostPath) -> io::Result<Location> {
        let (root, names) = split(path).ok_or_else(|| not_found(path))?;
        self.walk(&root, &names).map_err(|stop| match stop {
            Stop::Missing(..) => not_found(path),
            Stop::NoFolder => {
                io::Error::new(ErrorKind::NotADirectory, format!("a part of `{path}` is no folder"))
            }
            Stop::Loop => io::Error::other(format!("the links of `{path}` form a loop")),
        })
    }

    /// What stands at a path itself: links above it are followed, the last one is not.
    pub(super) fn at_link(&self, path: &HostPath) -> io::Result<&Entry> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(not_found(path));
        };
        let folder = self.node(&self.resolve(&parent)?).ok_or_else(|| not_found(path))?;
        folder.children.get(&self.fold(name)).map(|(_, node)| &node.entry).ok_or_else(|| not_found(path))
    }

    /// What stands at a resolved place.
    pub(super) fn entry(&self, location: &Location) -> io::Result<&Entry> {
        self.node(location).map(|node| &node.entry).ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Names in a folder, sorted.
    pub(super) fn names(&self, location: &Location) -> Vec<String> {
        let mut names: Vec<String> = self
            .node(location)
            .map(|node| node.children.values().map(|(name, _)| name.clone()).collect())
            .unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// The path of a resolved place, in the spelling of the recording.
    pub(super) fn path(&self, location: &Location) -> HostPath {
        let separator = match self.rules {
            PathRules::Unix => "/",
            PathRules::Windows => "\\",
        };
        HostPath::new(self.rules, &format!("{}{}", location.root, location.names.join(separator)))
    }

    fn walk(&self, root: &str, names: &[String]) -> Result<Location, Stop> {
        let mut at = Location { root: root.to_owned(), names: Vec::new() };
        let mut pending: VecDeque<String> = names.iter().cloned().collect();
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                at.names.pop();
                continue;
            }
            let Some(folder) = self.node(&at) else { return Err(Stop::Missing(at, name)) };
            if !matches!(folder.entry, Entry::Directory { .. }) {
                return Err(Stop::NoFolder);
            }
            let Some((written, child)) = folder.children.get(&self.fold(&name)) else {
                return Err(Stop::Missing(at, name));
            };
            match &child.entry {
                Entry::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Stop::Loop);
                    }
                    let target = HostPath::new(self.rules, target);
                    let relative = match split(&target) {
                        Some((root, names)) => {
                            at = Location { root, names: Vec::new() };
                            names
                        }
                        None => pieces(self.rules, target.as_str()),
                    };
                    relative.into_iter().rev().for_each(|name| pending.push_front(name));
                }
                _ => at.names.push(written.clone()),
            }
        }
        if self.node(&at).is_none() {
            // A root that nothing was recorded on.
            return Err(Stop::Missing(at, String::new()));
        }
        Ok(at)
    }

    fn node(&self, location: &Location) -> Option<&Node> {
        let mut node = &self.roots.get(&self.fold(&location.root))?.1;
        for name in &location.names {
            node = &node.children.get(&self.fold(name))?.1;
        }
        Some(node)
    }

    fn node_mut(&mut self, location: &Location) -> Option<&mut Node> {
        let root = self.fold(&location.root);
        let keys: Vec<String> = location.names.iter().map(|name| self.fold(name)).collect();
        let mut node = &mut self.roots.get_mut(&root)?.1;
        for key in &keys {
            node = &mut node.children.get_mut(key)?.1;
        }
        Some(node)
    }
}

/// Why a path leads nowhere.
enum Stop {
    Missing(Location, String),
    NoFolder,
    Loop,
}

fn not_found(path: &HostPath) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("`{path}` does not exist"))
}

/// Root and names of an absolute path; `None` for a relative one.
fn split(path: &HostPath) -> Option<(String, Vec<String>)> {
    let rules = path.rules();
    let text = path.as_str();
    match rules {
        PathRules::Unix => text.strip_prefix('/').map(|rest| ("/".to_owned(), pieces(rules, rest))),
        PathRules::Windows => {
            let text = text.strip_prefix(r"\\?\").unwrap_or(text);
            if let Some(share) = text.strip_prefix(r"\\") {
                let mut names = pieces(rules, share);
                if names.len() < 2 {
                    return None;
                }
                let rest = names.split_off(2);
                return Some((format!(r"\\{}\", names.join("\\")), rest));
            }
            let (drive, rest) = text.split_at_checked(3)?;
            let bytes = drive.as_bytes();
            let absolute = bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && bytes[2] == b'\\';
            absolute.then(|| (drive.to_ascii_uppercase(), pieces(rules, rest)))
        }
    }
}

/// Names between separators, without `.` and empty ones.
fn pieces(rules: PathRules, text: &str) -> Vec<String> {
    let separators: &[char] = match rules {
        PathRules::Unix => &['/'],
        PathRules::Windows => &['\\', '/'],
    };
    text.split(separators).filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect()
}

/// Whether a path can be put into a tree.
pub(super) fn is_absolute(path: &HostPath) -> bool {
    split(path).is_some()
}

/// How deep a path lies.
pub(super) fn depth(path: &HostPath) -> usize {
    split(path).map_or(0, |(_, names)| names.len())
}
