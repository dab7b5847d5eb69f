//! The files below a folder of a Python project.

use std::collections::BTreeMap;

use gpubuild_host::links::LinkTrail;
use gpubuild_host::{HostPath, ReadFiles};

use super::WheelError;
use crate::pack::PackError;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 32;
/// The most files and folders, counting those behind links.
const MAX_FILES: usize = 100_000;

/// A walk through folders, which follows links.
pub(super) struct FolderWalk<'a> {
    host: &'a dyn ReadFiles,
    /// Whether a file or folder with this name in a folder is left out.
    skips: &'a dyn Fn(&HostPath, &str) -> bool,
    seen: usize,
    /// The files that were found, by path in the archive.
    pub(super) files: BTreeMap<String, HostPath>,
}

impl<'a> FolderWalk<'a> {
    pub(super) fn new(host: &'a dyn ReadFiles, skips: &'a dyn Fn(&HostPath, &str) -> bool) -> Self {
        Self { host, skips, seen: 0, files: BTreeMap::new() }
    }

    /// Adds the files below a folder, whose path in the archive is `path`.
    ///
    /// # Errors
    /// A folder cannot be listed, or has too many levels or files.
    pub(super) fn add(&mut self, folder: &HostPath, path: &str) -> Result<(), WheelError> {
        self.visit(folder, path, &LinkTrail::default(), 0)
    }

    fn visit(
        &mut self,
        folder: &HostPath,
        path: &str,
        trail: &LinkTrail,
        depth: usize,
    ) -> Result<(), WheelError> {
        let host = self.host;
        let invalid = |what: String| WheelError::Package { path: folder.to_string(), what };
        if depth > MAX_DEPTH {
            return Err(invalid(format!("has more than {MAX_DEPTH} levels of folders")));
        }
        let names = host.list(folder).map_err(|error| PackError::io("read", folder, &error))?;
        self.seen += names.len();
        if self.seen > MAX_FILES {
            return Err(invalid(format!("is one of more than {MAX_FILES} files and folders")));
        }
        for name in names {
            if (self.skips)(folder, &name) {
                continue;
            }
            let from = folder.join(&name);
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            if host.is_file(&from) {
                self.files.insert(path, from);
            } else if host.is_dir(&from)
                && let Some(inside) = trail.enter(host, &from)
            {
                self.seen += inside.weight_since(trail);
                self.visit(&from, &path, &inside, depth + 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use gpubuild_host::{HostInfo as _, RealHost, WriteFiles as _};

    use super::*;

    #[test]
    fn links_to_folders_above_are_followed_once() {
        let folder = tempfile::tempdir().unwrap();
        let host = RealHost::new();
        let root = host.canonical(&host.path(folder.path().to_str().unwrap())).unwrap();
        host.write(&root.join("a.py"), b"").unwrap();
        host.write(&root.join("left-out/b.py"), b"").unwrap();
        for name in ["same", "again"] {
            host.symlink(".", &root.join(name)).unwrap();
        }
        let skips = |_: &HostPath, name: &str| name == "left-out";
        let mut walk = FolderWalk::new(&host, &skips);
        walk.add(&root, "demo").unwrap();
        let found: Vec<&str> = walk.files.keys().map(String::as_str).collect();
        assert_eq!(found, ["demo/a.py", "demo/again/a.py", "demo/same/a.py"]);
    }

    #[test]
    fn folders_with_too_many_levels_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let host = RealHost::new();
        let root = host.path(folder.path().to_str().unwrap());
        host.write(&root.join(&"d/".repeat(MAX_DEPTH + 1)).join("a.py"), b"").unwrap();
        let mut walk = FolderWalk::new(&host, &|_, _| false);
        let error = walk.add(&root, "demo").unwrap_err();
        assert!(error.to_string().contains("32 levels"), "{error}");
    }
}
