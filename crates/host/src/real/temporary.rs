//! Temporary files and folders with unused names.
#![expect(clippy::disallowed_methods, reason = "files are only accessed in this crate")]

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use crate::leftovers;

/// Number of names to try. All of them exist only if a folder was filled deliberately.
const ATTEMPTS: u32 = 1 << 16;
/// Number of random characters after the prefix. `gpubuild install` recognizes leftover temporary files by this length.
const LENGTH: usize = 6;

/// A file that is removed on drop unless it was renamed.
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// Creates an empty file in an existing folder.
    pub(super) fn file_in(folder: &Path) -> io::Result<Self> {
        let (path, file) = in_folder(folder, |path| File::create_new(path))?;
        Ok(Self { path, file })
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the file, replacing an existing file.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        let mut leftovers = leftovers::hold();
        fs::rename(&self.path, to)?;
        leftovers.remove(&self.path);
        drop(leftovers);
        // Prevent the drop from removing the renamed file.
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        leftovers::hold().remove(&self.path);
    }
}

/// Creates a folder in an existing folder.
pub(super) fn folder_in(folder: &Path) -> io::Result<PathBuf> {
    in_folder(folder, |path| fs::create_dir(path)).map(|(path, ())| path)
}

fn in_folder<T>(folder: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(PathBuf, T)> {
    let mut leftovers = leftovers::hold();
    for _ in 0..ATTEMPTS {
        let path = folder.join(name());
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => {
                leftovers.insert(path.clone());
                return result.map(|made| (path, made));
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all temporary names exist already"))
}

fn name() -> String {
    let mut random = RandomState::new().build_hasher().finish();
    let letters = (0..LENGTH).map(|_| {
        let digit = u32::try_from(random % 36).unwrap_or_default();
        random /= 36;
        char::from_digit(digit, 36).unwrap_or('0')
    });
    format!(".gpubuild-{}", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_dropped_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let entries = || fs::read_dir(folder.path()).unwrap().count();
        let first = Temporary::file_in(folder.path()).unwrap();
        let second = Temporary::file_in(folder.path()).unwrap();
        assert_ne!(first.path(), second.path());
        assert_eq!(name().len(), ".gpubuild-".len() + LENGTH);
        drop(first);
        second.rename(&folder.path().join("kept")).unwrap();
        assert_eq!(entries(), 1);
        folder_in(folder.path()).unwrap();
        assert_eq!(entries(), 2);
        assert!(Temporary::file_in(&folder.path().join("missing")).is_err());
    }
}
