//! A host with different environment variables. All other queries are forwarded to the original host.

use std::io;
use std::sync::Arc;

use super::forward::forward_to_host;
use super::{Environment, HostCounts, HostInfo, HostPath, Identity, InspectHost, Platform, ReadFiles, Stat};

/// A host with replaced environment variables.
pub struct Overlay<'a> {
    host: &'a dyn InspectHost,
    env: Environment,
}

impl<'a> Overlay<'a> {
    /// Replaces the environment of `host` with `env`.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost, env: Environment) -> Self {
        Self { host, env }
    }
}

// Default implementations would return the values of a recorded host, so every method must be forwarded.
#[deny(clippy::missing_trait_methods)]
impl HostInfo for Overlay<'_> {
    fn platform(&self) -> Platform {
        self.host.platform()
    }

    fn env(&self) -> &Environment {
        &self.env
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

impl ReadFiles for Overlay<'_> {
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

forward_to_host!(Overlay);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, HostInfo, Os, ReadFiles, RecordedHost, find_program};

    #[test]
    fn only_the_environment_differs() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("PATH", "/usr/bin")
            .executable("/usr/bin/nvcc")
            .executable("/opt/cuda/bin/nvcc")
            .build();
        let env = host.env().with("PATH", Some("/opt/cuda/bin:/usr/bin"));
        let overlay = Overlay::new(&host, env);
        assert_eq!(find_program(&host, "nvcc")[0].as_str(), "/usr/bin/nvcc");
        assert_eq!(find_program(&overlay, "nvcc")[0].as_str(), "/opt/cuda/bin/nvcc");
        assert!(overlay.is_file(&overlay.path("/usr/bin/nvcc")));
    }
}
