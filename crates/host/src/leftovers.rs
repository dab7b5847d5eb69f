//! Temporary files and folders, which are removed if a signal ends the process.
#![cfg_attr(
    feature = "command",
    expect(clippy::disallowed_methods, reason = "files are only accessed in this crate")
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
#[cfg(feature = "command")]
use std::sync::TryLockError;
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

/// The registered paths. While they are held, a signal does not end the process; when one is ending it, this waits for the end.
pub(crate) fn hold() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all registered files and folders. Call it only immediately before the process ends.
#[cfg(feature = "command")]
pub(crate) fn remove_all() {
    // A thread that hangs in the file system must not keep the process from ending.
    let held = retry(|| match PATHS.try_lock() {
        Ok(paths) => Some(paths),
        Err(TryLockError::Poisoned(paths)) => Some(paths.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    });
    if let Some(paths) = held {
        paths.iter().for_each(|path| remove(path));
        // Other threads must not change files any more.
        std::mem::forget(paths);
    }
}

/// Attempts something for a second.
#[cfg(feature = "command")]
fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    (0..100).find_map(|number| {
        if number > 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        attempt()
    })
}

/// Removes a file or folder, in which another thread may just be creating a file.
#[cfg(feature = "command")]
fn remove(path: &std::path::Path) {
    use std::{fs, io};

    retry(|| {
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true).then_some(())
    });
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
