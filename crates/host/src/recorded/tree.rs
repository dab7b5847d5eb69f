//! An in-memory file system with links that follows the rules of the recorded platform.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};

use gpubuild_core::order::SortIndirect as _;

use super::RecordedEntry;
use crate::{HostPath, PathRules};

/// Maximum number of links in a path; more are treated as a loop. Linux has the same limit.
const MAX_LINKS: usize = 40;

/// Maximum number of names in a path.
const MAX_NAMES: usize = 200;

/// The file system of a recorded host.
#[derive(Debug, Clone)]
pub(super) struct RecordedTree {
    rules: PathRules,
    roots: BTreeMap<String, (String, TreeNode)>,
}

#[derive(Debug, Clone)]
struct TreeNode {
    entry: RecordedEntry,
    /// Entries by case-folded name, with the original name.
    children: BTreeMap<String, (String, TreeNode)>,
}

/// What a path leads to, after all links.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeEntry<'tree> {
    /// Its name, as it was recorded.
    pub(super) name: &'tree str,
    node: &'tree TreeNode,
}

impl<'tree> TreeEntry<'tree> {
    pub(super) fn entry(self) -> &'tree RecordedEntry {
        &self.node.entry
    }

    /// Names in this folder, sorted.
    pub(super) fn names(self) -> Vec<String> {
        let mut names: Vec<String> = self.node.children.values().map(|(name, _)| name.clone()).collect();
        names.sort_indirect();
        names
    }
}

/// A resolved path: its root and the names below it, none of which is a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeLocation {
    root: String,
    names: Vec<String>,
}

impl RecordedTree {
    pub(super) fn new(rules: PathRules) -> Self {
        let mut tree = Self { rules, roots: BTreeMap::new() };
        if rules == PathRules::Unix {
            tree.make_root("/");
        }
        tree
    }

    fn make_root(&mut self, root: &str) {
        let node =
            || (root.to_owned(), TreeNode { entry: RecordedEntry::folder(), children: BTreeMap::new() });
        self.roots.entry(self.fold(root).into_owned()).or_insert_with(node);
    }

    fn fold<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.rules {
            PathRules::Unix => name.into(),
            PathRules::Windows => name.to_lowercase().into(),
        }
    }

    /// Inserts an entry. Creates missing parent folders and follows links in the path. Fails with a message if the entry
    /// contradicts another one.
    pub(super) fn insert(&mut self, path: &HostPath, entry: RecordedEntry) -> Result<(), String> {
        let (root, names) = split(path).ok_or("the path is not absolute")?;
        let is_long = |text: &str| pieces(self.rules, text).len() > MAX_NAMES;
        if names.len() > MAX_NAMES || matches!(&entry, RecordedEntry::Link(target) if is_long(target)) {
            return Err(format!("a path has at most {MAX_NAMES} names"));
        }
        self.make_root(&root);
        let Some((name, folders)) = names.split_last() else {
            return match entry {
                RecordedEntry::Directory { .. } => Ok(()),
                _ => Err("the root is a folder".to_owned()),
            };
        };
        let parent = self.resolve_making(&root, folders)?;
        let key = self.fold(name).into_owned();
        let node = self.node_mut(&parent).ok_or("its parent folder is missing")?;
        if !matches!(node.entry, RecordedEntry::Directory { .. }) {
            return Err("a path above it is a file".to_owned());
        }
        match node.children.get_mut(&key) {
            None => {
                node.children
                    .insert(key, ((*name).to_owned(), TreeNode { entry, children: BTreeMap::new() }));
                Ok(())
            }
            // The folder was created implicitly; add its properties.
            Some((_, existing))
                if existing.entry == RecordedEntry::folder()
                    && matches!(entry, RecordedEntry::Directory { .. }) =>
            {
                existing.entry = entry;
                Ok(())
            }
            Some((_, existing)) if existing.entry == entry => Ok(()),
            Some((_, existing)) if matches!(existing.entry, RecordedEntry::Directory { .. }) => {
                Err("it is also a folder, because it contains other files".to_owned())
            }
            Some(_) => Err("it is recorded twice with different content".to_owned()),
        }
    }

    /// Resolves names below a root, creating missing folders.
    fn resolve_making(&mut self, root: &str, names: &[&str]) -> Result<TreeLocation, String> {
        for _ in 0..=MAX_LINKS + names.len() {
            match self.walk(root, names) {
                Ok(location) => return Ok(location),
                Err(WalkStop::Loop) => return Err("the links above it form a loop".to_owned()),
                Err(WalkStop::NotAFolder) => return Err("a path above it is a file".to_owned()),
                Err(WalkStop::Missing(at, name)) => {
                    self.make_root(&at.root);
                    let key = self.fold(&name).into_owned();
                    if let Some(node) = self.node_mut(&at) {
                        node.children.insert(
                            key,
                            (name, TreeNode { entry: RecordedEntry::folder(), children: BTreeMap::new() }),
                        );
                    }
                }
            }
        }
        Err("the links above it form a loop".to_owned())
    }

    /// Resolves a path, following all links.
    pub(super) fn resolve(&self, path: &HostPath) -> io::Result<TreeLocation> {
        let (root, names) = split(path).ok_or_else(|| not_found(path))?;
        self.walk(&root, &names).map_err(|stop| match stop {
            WalkStop::Missing(..) => not_found(path),
            WalkStop::NotAFolder => {
                io::Error::new(ErrorKind::NotADirectory, format!("a part of `{path}` is not a folder"))
            }
            WalkStop::Loop => io::Error::other(format!("the links of `{path}` form a loop")),
        })
    }

    /// The entry at a path. Follows links in parent folders, but not the last component.
    pub(super) fn at_link(&self, path: &HostPath) -> io::Result<&RecordedEntry> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(not_found(path));
        };
        let folder = self.node(&self.resolve(&parent)?).ok_or_else(|| not_found(path))?;
        folder.children.get(&*self.fold(name)).map(|(_, node)| &node.entry).ok_or_else(|| not_found(path))
    }

    /// What a path leads to, following all links.
    pub(super) fn find(&self, path: &HostPath) -> io::Result<TreeEntry<'_>> {
        if let Some(found) = self.find_without_links(path) {
            return found;
        }
        let location = self.resolve(path)?;
        let (name, node) = self.named(&location).ok_or_else(|| not_found(path))?;
        Ok(TreeEntry { name, node })
    }

    /// What a path leads to, or that it does not exist. `None` if a link, `..` or a file is on the way. Fast, because a run asks for
    /// thousands of paths, most of which do not exist.
    fn find_without_links(&self, path: &HostPath) -> Option<io::Result<TreeEntry<'_>>> {
        let (root, names) = split(path)?;
        let mut found = self.roots.get(&*self.fold(&root))?;
        for name in names {
            let is_folder = matches!(found.1.entry, RecordedEntry::Directory { .. });
            if name == ".." || !is_folder {
                return None;
            }
            let Some(child) = found.1.children.get(&*self.fold(name)) else {
                return Some(Err(not_found(path)));
            };
            found = child;
        }
        let is_link = matches!(found.1.entry, RecordedEntry::Link(_));
        (!is_link).then_some(Ok(TreeEntry { name: &found.0, node: &found.1 }))
    }

    /// Converts a resolved path to text, with names as they were recorded.
    pub(super) fn path(&self, location: &TreeLocation) -> HostPath {
        let names = location.names.join(&self.rules.separator().to_string());
        HostPath::new(self.rules, &format!("{}{names}", location.root))
    }

    fn walk(&self, root: &str, names: &[&str]) -> Result<TreeLocation, WalkStop> {
        let mut at = TreeLocation { root: root.to_owned(), names: Vec::new() };
        let mut node = self.node(&at);
        let mut pending: VecDeque<Cow<'_, str>> = names.iter().map(|name| Cow::Borrowed(*name)).collect();
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                at.names.pop();
                node = self.node(&at);
                continue;
            }
            let Some(folder) = node else { return Err(WalkStop::Missing(at, name.into_owned())) };
            if !matches!(folder.entry, RecordedEntry::Directory { .. }) {
                return Err(WalkStop::NotAFolder);
            }
            let Some((written, child)) = folder.children.get(&*self.fold(&name)) else {
                return Err(WalkStop::Missing(at, name.into_owned()));
            };
            let RecordedEntry::Link(target) = &child.entry else {
                at.names.push(written.clone());
                node = Some(child);
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(WalkStop::Loop);
            }
            let target = HostPath::new(self.rules, target);
            let relative = match split(&target) {
                Some((root, names)) => {
                    at = TreeLocation { root, names: Vec::new() };
                    node = self.node(&at);
                    names
                }
                None => pieces(self.rules, target.as_str()),
            };
            relative.into_iter().rev().for_each(|name| pending.push_front(name.to_owned().into()));
        }
        if node.is_none() {
            // The root does not exist.
            return Err(WalkStop::Missing(at, String::new()));
        }
        Ok(at)
    }

    fn node(&self, location: &TreeLocation) -> Option<&TreeNode> {
        self.named(location).map(|(_, node)| node)
    }

    fn named(&self, location: &TreeLocation) -> Option<(&str, &TreeNode)> {
        let mut named = self.roots.get(&*self.fold(&location.root))?;
        for name in &location.names {
            named = named.1.children.get(&*self.fold(name))?;
        }
        Some((&named.0, &named.1))
    }

    fn node_mut(&mut self, location: &TreeLocation) -> Option<&mut TreeNode> {
        let root = self.fold(&location.root).into_owned();
        let keys: Vec<String> = location.names.iter().map(|name| self.fold(name).into_owned()).collect();
        let mut node = &mut self.roots.get_mut(&root)?.1;
        for key in &keys {
            node = &mut node.children.get_mut(key)?.1;
        }
        Some(node)
    }
}

/// Why a path cannot be resolved.
enum WalkStop {
    Missing(TreeLocation, String),
    NotAFolder,
    Loop,
}

fn not_found(path: &HostPath) -> io::Error {
    io::Error::new(ErrorKind::NotFound, format!("`{path}` does not exist"))
}

/// Splits an absolute path into its root and names. `None` for a relative path.
fn split(path: &HostPath) -> Option<(String, Vec<&str>)> {
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

/// Splits a text at separators, omitting `.` and empty names.
fn pieces(rules: PathRules, text: &str) -> Vec<&str> {
    let separators: &[char] = match rules {
        PathRules::Unix => &['/'],
        PathRules::Windows => &['\\', '/'],
    };
    text.split(separators).filter(|name| !name.is_empty() && *name != ".").collect()
}

/// Whether a path is absolute, which is required for entries.
pub(super) fn is_absolute(path: &HostPath) -> bool {
    split(path).is_some()
}

/// The number of names in a path.
pub(super) fn depth(path: &HostPath) -> usize {
    split(path).map_or(0, |(_, names)| names.len())
}
