//! The files of a prefix with their hashes.

use std::collections::BTreeMap;
use std::io;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::store;
use gpubuild_host::{FileKind, HostPath, ReadFiles};

/// The content of a folder as relative paths, sorted.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Regular files.
    pub(crate) files: Vec<String>,
    /// Symbolic links with their targets.
    pub(crate) links: Vec<(String, String)>,
}

/// Lists everything below a folder without following links.
pub(crate) fn walk(host: &dyn ReadFiles, folder: &HostPath) -> io::Result<Tree> {
    let mut tree = Tree::default();
    let mut pending = vec![String::new()];
    while let Some(inside) = pending.pop() {
        for name in host.list(&folder.join(&inside))? {
            let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            let full = folder.join(&path);
            if let Ok(target) = host.read_link(&full) {
                tree.links.push((path, target));
                continue;
            }
            match host.stat(&full)?.kind {
                FileKind::Directory => pending.push(path),
                FileKind::File => tree.files.push(path),
                _ => {
                    return Err(io::Error::other(format!("`{full}` is neither a file, a folder nor a link")));
                }
            }
        }
    }
    tree.files.sort_indirect();
    tree.links.sort_indirect();
    Ok(tree)
}

/// The file with the hashes, in the folder of the installation.
pub(crate) const FILES: &str = "files.json";

/// The content of [`FILES`].
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PrefixFiles {
    /// The sha256 of every file by its path in the prefix.
    pub(crate) files: BTreeMap<String, String>,
    /// The target of every link.
    pub(crate) links: BTreeMap<String, String>,
}

/// Hashes a prefix. Returns the total size of its files, too.
pub(crate) fn hash(host: &dyn ReadFiles, prefix: &HostPath) -> io::Result<(PrefixFiles, u64)> {
    let tree = walk(host, prefix)?;
    let mut found = PrefixFiles { links: tree.links.into_iter().collect(), ..PrefixFiles::default() };
    let mut bytes = 0;
    for path in tree.files {
        let (sha256, size) = store::hash_file(host, &prefix.join(&path))?;
        bytes += size;
        found.files.insert(path, sha256);
    }
    Ok((found, bytes))
}
