//! Faults of a disk, and which files survive a power failure.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gpubuild_host::{HostPath, NewFile};

/// What happens at the chosen change of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This change and all later ones have no effect, except that half of a file or of a folder may be left.
    Kill,
    /// This change fails with an error number, and later ones succeed.
    Once(i32),
    /// This change and all later ones fail with an error number. A full disk still allows files to be removed.
    Always(i32),
    /// A write stores half of its bytes. The rest of the file is refused because the disk is full.
    Short,
}

/// "No space left on device".
pub(crate) const ENOSPC: i32 = 28;

/// "Input/output error", "Permission denied" and "Read-only file system".
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EROFS: i32 = 30;

/// All faults except a kill.
pub(crate) const ERRORS: [Fault; 7] = [
    Fault::Once(ENOSPC),
    Fault::Once(EIO),
    Fault::Once(EACCES),
    Fault::Always(ENOSPC),
    Fault::Always(EACCES),
    Fault::Always(EROFS),
    Fault::Short,
];

/// Counts changes of the disk and decides which of them fail.
pub(super) struct Faults {
    pub(super) fault: Fault,
    pub(super) at: usize,
    pub(super) changes: AtomicUsize,
}

impl Faults {
    /// Counts a change. An error if it fails.
    pub(super) fn change(&self) -> io::Result<()> {
        let (number, error) = (self.changes.fetch_add(1, Ordering::SeqCst), io::Error::from_raw_os_error);
        match self.fault {
            Fault::Kill if number >= self.at => Err(io::Error::other("killed")),
            Fault::Once(errno) if number == self.at => Err(error(errno)),
            Fault::Always(errno) if number >= self.at => Err(error(errno)),
            Fault::Short if number == self.at => Err(error(ENOSPC)),
            _ => Ok(()),
        }
    }

    /// Whether the next change is the first one that fails.
    pub(super) fn is_next(&self) -> bool {
        self.changes.load(Ordering::SeqCst) == self.at
    }
}

/// Files whose content is on the disk and not only in memory, each with its inode, modification time and size.
#[derive(Default)]
pub(super) struct Durable(Mutex<HashSet<(u64, i64, i64, u64)>>);

pub(super) fn state(path: &Path) -> Option<(u64, i64, i64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
}

pub(super) fn files_below(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let entries = folders.iter().flat_map(|folder| walkdir::WalkDir::new(folder).into_iter());
    entries.filter_map(Result::ok).map(walkdir::DirEntry::into_path)
}

impl Durable {
    pub(super) fn add(&self, path: &Path) {
        self.0.lock().unwrap().extend(state(path));
    }

    pub(super) fn has(&self, file: (u64, i64, i64, u64)) -> bool {
        self.0.lock().unwrap().contains(&file)
    }
}

/// A file that keeps what was written before the fault.
pub(super) struct FaultyFile {
    pub(super) file: Box<dyn NewFile>,
    pub(super) path: HostPath,
    pub(super) faults: Arc<Faults>,
    pub(super) durable: Arc<Durable>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.faults.fault == Fault::Short && self.faults.is_next() && bytes.len() > 1 {
            return self.file.write(&bytes[..bytes.len() / 2]);
        }
        self.faults.change()?;
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFile for FaultyFile {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.faults.change()?;
        self.file.finish()?;
        self.durable.add(Path::new(self.path.as_str()));
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.faults.change()?;
        self.file.close()
    }
}
