//! Remembers what was asked about files, for a process that examines the machine once and changes nothing.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{files, reading, stat};
use crate::{DOCUMENT_LIMIT, HostPath, Stat};

/// The answers so far.
#[derive(Debug)]
pub(super) struct FileMemo {
    stats: Answers<Stat>,
    canonical: Answers<HostPath>,
    names: Answers<Arc<Vec<String>>>,
    contents: Answers<Arc<Vec<u8>>>,
}

impl FileMemo {
    /// For the number of paths that `detect` asks for: a table that grows hashes all of them again.
    pub(super) fn new() -> Self {
        Self {
            stats: Answers::with_capacity(800),
            canonical: Answers::with_capacity(200),
            names: Answers::with_capacity(50),
            contents: Answers::with_capacity(50),
        }
    }

    pub(super) fn stat(&self, path: &HostPath, extensions: &str) -> io::Result<Stat> {
        self.stats.get(path, || stat::stat(path, extensions))
    }

    pub(super) fn list(&self, folder: &HostPath) -> io::Result<Arc<Vec<String>>> {
        // `/lib` is a link to `/usr/lib` on most systems: its folders are read once.
        let real = self.canonical(folder)?;
        self.names.get(&real, || files::list(&real).map(Arc::new))
    }

    /// The content of a file that is read completely: such files are small.
    pub(super) fn read(&self, path: &HostPath) -> io::Result<Arc<Vec<u8>>> {
        self.contents.get(path, || reading::read(path, DOCUMENT_LIMIT).map(Arc::new))
    }

    /// Resolves a path through its parent folder, so that each folder is examined once.
    pub(super) fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        let whole = || files::canonical(path);
        if !cfg!(target_os = "linux") || !path.is_normalized() {
            return self.canonical.get(path, whole);
        }
        self.canonical.get(path, || {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return whole() };
            let folder = if folder.parent().is_none() { folder } else { self.canonical(&folder)? };
            let place = folder.join(name);
            match files::read_link(&place) {
                // It exists and is not a link.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(place),
                Err(error) => Err(error),
                Ok(_) => whole(),
            }
        })
    }
}

/// Answers by path. Errors are remembered by their number.
#[derive(Debug)]
struct Answers<T>(Mutex<HashMap<HostPath, Result<T, i32>>>);

impl<T> Answers<T> {
    fn with_capacity(paths: usize) -> Self {
        Self(Mutex::new(HashMap::with_capacity(paths)))
    }
}

impl<T: Clone> Answers<T> {
    fn get(&self, path: &HostPath, query: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if let Some(known) = self.known().get(path) {
            return known.clone().map_err(io::Error::from_raw_os_error);
        }
        // Not locked meanwhile: the query may need answers about other paths.
        let answer = query();
        let known = match &answer {
            Ok(value) => Some(Ok(value.clone())),
            Err(error) => error.raw_os_error().map(Err),
        };
        if let Some(known) = known {
            self.known().insert(path.clone(), known);
        }
        answer
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<HostPath, Result<T, i32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
