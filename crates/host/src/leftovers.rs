//! Temporary files and folders, which are removed if a signal ends the process.
#![expect(clippy::disallowed_methods, reason = "files are only accessed in this crate")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::HostPath;

static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A folder or file that is removed if a signal ends the process before this value is dropped.
#[derive(Debug)]
#[must_use]
pub struct Leftover(PathBuf);

impl Leftover {
    /// Registers a path, which need not exist yet.
    pub fn new(path: &HostPath) -> Self {
        let path = path.as_std().to_path_buf();
        hold().insert(path.clone());
        Self(path)
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        hold().remove(&self.0);
    }
}

/// The registered paths. While they are held, no signal ends the process; when a signal is ending it, this waits for the end.
pub(crate) fn hold() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all registered files and folders. Call it only immediately before the process ends.
#[cfg(feature = "command")]
pub(crate) fn remove_all() {
    let paths = hold();
    paths.iter().for_each(|path| remove(path));
    // Other threads must not change files any more.
    std::mem::forget(paths);
}

/// Removes a file or folder, in which another thread may just be creating a file.
#[cfg(feature = "command")]
fn remove(path: &std::path::Path) {
    use std::{fs, io, thread, time::Duration};

    const ATTEMPTS: u32 = 20;
    for _ in 0..ATTEMPTS {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
}

#[cfg(all(test, feature = "command"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_and_folders_are_removed_and_missing_ones_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/c"), "x").unwrap();
        fs::write(path("d"), "x").unwrap();
        for name in ["a", "d", "e"] {
            remove(&path(name));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
