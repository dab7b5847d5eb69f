//! Folders of unpacked packages.

use std::io;

use gpubuild_host::{FileKind, HostPath, ReadFiles, WriteFiles};

/// The content of a folder as relative paths, sorted.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Regular files.
    pub(super) files: Vec<String>,
    /// Symbolic links with their targets.
    pub(super) links: Vec<(String, String)>,
}

/// Lists everything below a folder without following links.
pub(super) fn walk(host: &dyn ReadFiles, folder: &HostPath) -> io::Result<Tree> {
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
    tree.files.sort_unstable();
    tree.links.sort_unstable();
    Ok(tree)
}

/// Moves the content of a folder into another one. Existing files are kept.
pub(super) fn merge(host: &dyn WriteFiles, from: &HostPath, to: &HostPath) -> io::Result<()> {
    let is_link = |path: &HostPath| host.read_link(path).is_ok();
    host.create_dir_all(to)?;
    for name in host.list(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if !is_link(&target) && !host.exists(&target) {
            host.rename(&source, &target)?;
        } else if !is_link(&source) && host.is_dir(&source) && host.is_dir(&target) {
            merge(host, &source, &target)?;
        }
    }
    Ok(())
}
