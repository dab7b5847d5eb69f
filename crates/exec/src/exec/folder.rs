//! The folder that a project is built into: where its lock is, and which links in it are refused.
//!
//! A repository may contain a prepared `.gpubuild`. A symbolic link in it would make a build write, and `clean` delete,
//! wherever the link leads, so nothing is done in a build folder that has one.

use gpubuild_host::links::{LinkRefused, refuse_link, refuse_links_below};
use gpubuild_host::{HostPath, ReadFiles};

use super::stage;
use crate::cmake;

/// The lock of a build folder is beside it: `clean` removes the folder while it holds the lock.
#[must_use]
pub fn lock_path(root: &HostPath) -> HostPath {
    beside(root, "lock")
}

/// The name that a build folder has while it is removed. A kill leaves it; the next `clean` removes it.
#[must_use]
pub fn removed_path(root: &HostPath) -> HostPath {
    beside(root, "removed")
}

/// `.NAME.suffix` in the same folder.
fn beside(root: &HostPath, suffix: &str) -> HostPath {
    let name = root.file_name().unwrap_or("build");
    let folder = root.parent().unwrap_or_else(|| root.clone());
    folder.join(&format!(".{name}.{suffix}"))
}

/// Folders of a build folder that gpubuild fills by itself: copies of sources and of libraries, never links.
const OURS: [&str; 3] = [stage::FOLDER, "source", "with"];

/// Names in the folder of a tree that gpubuild, CMake and Ninja write to.
const IN_TREE: [&str; 6] =
    [".cmake", ".ninja_deps", ".ninja_log", "CMakeCache.txt", "CMakeFiles", "build.ninja"];

/// Refuses a build folder in which something that a build writes to is a link: the folder that contains `lock`, the folders
/// from there to `root`, everything directly in `root`, and in each of its trees what gpubuild, CMake and Ninja write.
///
/// # Errors
/// The first link.
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
        if OURS.contains(&name.as_str()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::PathRules;

    #[test]
    fn the_lock_is_beside_the_folder() {
        let root = HostPath::new(PathRules::Unix, "/p/.gpubuild/demo");
        assert_eq!(lock_path(&root).as_str(), "/p/.gpubuild/.demo.lock");
        assert_eq!(removed_path(&root).as_str(), "/p/.gpubuild/.demo.removed");
    }
}
