//! A host that refuses every change. All other queries are forwarded to the original host.

use std::io;
use std::sync::Arc;

use super::forward::forward_to_host;
use super::{
    Environment, FileLock, Host, HostCounts, HostInfo, HostPath, Identity, InspectHost, NetworkAccess,
    Platform, ReadFiles, Stat, Wait, WriteFiles,
};

/// A host that writes no file and opens no connection: every such call fails, as on a recorded host. Programs and probes run.
///
/// Documents and inputs that the user names must be regular files. Standard input of this process and its other open pipes have another
/// purpose.
pub struct ReadOnlyHost<'a> {
    host: &'a dyn InspectHost,
}

impl<'a> ReadOnlyHost<'a> {
    /// Refuses changes through `host`.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost) -> Self {
        Self { host }
    }
}

// Default implementations would return the values of a recorded host, so every method must be forwarded.
#[deny(clippy::missing_trait_methods)]
impl HostInfo for ReadOnlyHost<'_> {
    fn platform(&self) -> Platform {
        self.host.platform()
    }

    fn env(&self) -> &Environment {
        self.host.env()
    }

    fn own_program(&self) -> Option<HostPath> {
        self.host.own_program()
    }

    fn identity(&self) -> &Identity {
        self.host.identity()
    }

    fn current_dir(&self) -> io::Result<HostPath> {
        self.host.current_dir()
    }

    fn counts(&self) -> HostCounts {
        self.host.counts()
    }

    fn path(&self, text: &str) -> HostPath {
        self.host.path(text)
    }
}

/// The default implementations of `read_input` and `open_input` accept regular files only.
impl ReadFiles for ReadOnlyHost<'_> {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        self.host.stat(path)
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        self.host.canonical(path)
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        self.host.read_link(path)
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.host.read(path)
    }

    fn read_up_to(&self, path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
        self.host.read_up_to(path, limit)
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.host.read_start(path, limit)
    }

    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.host.read_part(path, start, limit)
    }

    fn open(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        self.host.open(path)
    }

    fn search_folders(&self, search_path: &str) -> Arc<Vec<HostPath>> {
        self.host.search_folders(search_path)
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        self.host.list(folder)
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.host.open_device(path)
    }

    fn is_same_file(&self, one: &HostPath, other: &HostPath) -> bool {
        self.host.is_same_file(one, other)
    }

    fn read_text(&self, path: &HostPath) -> io::Result<String> {
        self.host.read_text(path)
    }

    fn list_matching(&self, folder: &HostPath, pattern: &str) -> io::Result<Vec<String>> {
        self.host.list_matching(folder, pattern)
    }

    fn exists(&self, path: &HostPath) -> bool {
        self.host.exists(path)
    }

    fn is_file(&self, path: &HostPath) -> bool {
        self.host.is_file(path)
    }

    fn is_dir(&self, path: &HostPath) -> bool {
        self.host.is_dir(path)
    }
}

forward_to_host!(ReadOnlyHost);

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

/// The default implementations of the other methods refuse as well.
impl WriteFiles for ReadOnlyHost<'_> {
    fn write(&self, _path: &HostPath, _content: &[u8]) -> io::Result<()> {
        refused()
    }

    fn set_executable(&self, _path: &HostPath) -> io::Result<()> {
        refused()
    }

    fn create_dir_all(&self, _path: &HostPath) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        refused()
    }

    fn copy(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &HostPath) -> io::Result<()> {
        refused()
    }

    fn temporary_dir(&self, _parent: &HostPath) -> io::Result<HostPath> {
        refused()
    }

    fn lock(&self, _path: &HostPath, _wait: Wait) -> io::Result<Option<FileLock>> {
        refused()
    }

    fn free_space(&self, _path: &HostPath) -> Option<u64> {
        None
    }
}

/// The default implementations answer that there is no network.
impl NetworkAccess for ReadOnlyHost<'_> {}

impl Host for ReadOnlyHost<'_> {}
