//! The folder that a project is built into: where its lock is.

use crate::host::HostPath;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::PathRules;

    #[test]
    fn the_lock_is_beside_the_folder() {
        let root = HostPath::new(PathRules::Unix, "/p/.gpubuild/demo");
        assert_eq!(lock_path(&root).as_str(), "/p/.gpubuild/.demo.lock");
        assert_eq!(removed_path(&root).as_str(), "/p/.gpubuild/.demo.removed");
    }
}
