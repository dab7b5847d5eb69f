//! The build folder of a project: the path of its lock, and the check for symbolic links.
//!
//! A repository may contain a malicious `.gpubuild` folder. A symbolic link in it would redirect writes of a build and
//! deletions of `clean`, so gpubuild refuses build folders with links.

use gpubuild_host::links::{LinkRefused, refuse_link, refuse_links_below};
use gpubuild_host::{FileKind, HostPath, ReadFiles};

use super::stage;
use crate::cmake;

/// The lock file of a build folder. It is next to the folder because `clean` removes the folder while holding the lock.
#[must_use]
pub fn lock_path(root: &HostPath) -> HostPath {
    sibling(root, "lock")
}

/// The path to which a build folder is renamed before it is removed. If `clean` is killed, the next `clean` removes it.
#[must_use]
pub fn removed_path(root: &HostPath) -> HostPath {
    sibling(root, "removed")
}

/// The path `.NAME.suffix` in the same folder.
fn sibling(root: &HostPath, suffix: &str) -> HostPath {
    let name = root.file_name().unwrap_or("build");
    let folder = root.parent().unwrap_or_else(|| root.clone());
    folder.join(&format!(".{name}.{suffix}"))
}

/// Subfolders that only gpubuild writes: copies of sources and libraries, never links.
const OWN_FOLDERS: [&str; 3] = [stage::FOLDER, "source", "with"];

/// Files and folders of a tree that CMake and Ninja write.
const IN_TREE: [&str; 6] =
    [".cmake", ".ninja_deps", ".ninja_log", "CMakeCache.txt", "CMakeFiles", "build.ninja"];

/// Rejects a build folder if a build would write through a link. Checks the folder that contains `lock`, the folders from
/// there to `root`, all entries of `root`, and in each tree the files that gpubuild, CMake and Ninja write.
///
/// # Errors
/// The first link that is found.
pub fn refuse_links(host: &dyn ReadFiles, lock: &HostPath, root: &HostPath) -> Result<(), LinkRefused> {
    let base = lock.parent().unwrap_or_else(|| root.clone());
    let mut chain = Vec::new();
    let mut at = Some(root.clone());
    while let Some(folder) = at.filter(|folder| folder.is_inside(&base)) {
        at = if folder == base { None } else { folder.parent() };
        chain.push(folder);
    }
    chain.reverse();
    for folder in &chain {
        refuse_link(host, folder)?;
    }
    refuse_link(host, lock)?;
    for name in host.list(root).unwrap_or_default() {
        let child = root.join(&name);
        refuse_link(host, &child)?;
        if OWN_FOLDERS.contains(&name.as_str()) {
            refuse_links_below(host, child)?;
        } else if host.is_dir(&child) {
            for name in IN_TREE {
                refuse_link(host, &child.join(name))?;
            }
            refuse_links_below(host, cmake::own_folder_in(&child))?;
            refuse_links_below(host, child.join(".cmake/api"))?;
        }
    }
    Ok(())
}

/// Number and total size of the files below a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderContent {
    /// Number of files, including links.
    pub files: u64,
    /// Total size in bytes; links count as empty.
    pub bytes: u64,
}

/// Counts the files below a folder without following links. What cannot be listed counts as empty.
#[must_use]
pub fn content(host: &dyn ReadFiles, folder: &HostPath) -> FolderContent {
    let mut content = FolderContent::default();
    let mut pending = vec![folder.clone()];
    while let Some(folder) = pending.pop() {
        for path in host.list(&folder).unwrap_or_default().iter().map(|name| folder.join(name)) {
            match (refuse_link(host, &path), host.stat(&path)) {
                (Ok(()), Ok(stat)) if stat.kind == FileKind::Directory => pending.push(path),
                (Ok(()), Ok(stat)) => {
                    content.files += 1;
                    content.bytes += stat.size;
                }
                _ => content.files += 1,
            }
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::PathRules;

    #[test]
    fn lock_is_next_to_the_folder() {
        let root = HostPath::new(PathRules::Unix, "/p/.gpubuild/demo");
        assert_eq!(lock_path(&root).as_str(), "/p/.gpubuild/.demo.lock");
        assert_eq!(removed_path(&root).as_str(), "/p/.gpubuild/.demo.removed");
    }
}
