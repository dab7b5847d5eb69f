//! A host with another environment: everything else is the host's own.

use std::io;
use std::time::Duration;

use super::{
    Command, Counts, Environment, Host, HostPath, Identity, JobPool, Line, Lock, NewFile, Output, Platform,
    ProbeAnswer, RegistryValue, RunError, Stat, Wait, net,
};

/// A host as it would be with these variables.
pub struct Overlay<'a> {
    host: &'a dyn Host,
    env: Environment,
}

impl<'a> Overlay<'a> {
    /// A host with another environment.
    #[must_use]
    pub fn new(host: &'a dyn Host, env: Environment) -> Self {
        Self { host, env }
    }
}

// What is not passed on would be answered as a recording does.
#[deny(clippy::missing_trait_methods)]
impl Host for Overlay<'_> {
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
    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        self.host.list(folder)
    }
    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.host.open_device(path)
    }
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        self.host.registry_value(key, name)
    }
    fn registry_keys(&self, key: &str) -> Vec<String> {
        self.host.registry_keys(key)
    }
    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        self.host.registry_values(key)
    }
    fn visual_studio_tool(&self, name: &str) -> Option<HostPath> {
        self.host.visual_studio_tool(name)
    }
    fn run(&self, command: &Command) -> Result<Output, RunError> {
        self.host.run(command)
    }
    fn run_lines(&self, command: &Command, on_line: &mut dyn FnMut(Line<'_>)) -> Result<Output, RunError> {
        self.host.run_lines(command, on_line)
    }
    fn recorded_output(&self, command: &Command) -> Option<Output> {
        self.host.recorded_output(command)
    }
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.host.probe(id, deadline)
    }
    fn probe_with(&self, id: &str, arguments: &[String], deadline: Duration) -> ProbeAnswer {
        self.host.probe_with(id, arguments, deadline)
    }
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()> {
        self.host.write(path, content)
    }
    fn create(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.host.create(path)
    }
    fn append(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.host.append(path)
    }
    fn set_executable(&self, path: &HostPath) -> io::Result<()> {
        self.host.set_executable(path)
    }
    fn create_dir_all(&self, path: &HostPath) -> io::Result<()> {
        self.host.create_dir_all(path)
    }
    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.host.rename(from, to)
    }
    fn exchange(&self, one: &HostPath, other: &HostPath) -> io::Result<()> {
        self.host.exchange(one, other)
    }
    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.host.copy(from, to)
    }
    fn link(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.host.link(from, to)
    }
    fn duplicate(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.host.duplicate(from, to)
    }
    fn is_same_file(&self, one: &HostPath, other: &HostPath) -> bool {
        self.host.is_same_file(one, other)
    }
    fn flush(&self, path: &HostPath) -> io::Result<()> {
        self.host.flush(path)
    }
    fn symlink(&self, text: &str, link: &HostPath) -> io::Result<()> {
        self.host.symlink(text, link)
    }
    fn remove(&self, path: &HostPath) -> io::Result<()> {
        self.host.remove(path)
    }
    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath> {
        self.host.temporary_dir(parent)
    }
    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<Lock>> {
        self.host.lock(path, wait)
    }
    fn job_pool(&self, pipe: &HostPath, jobs: u32) -> io::Result<Option<JobPool>> {
        self.host.job_pool(pipe, jobs)
    }
    fn free_space(&self, path: &HostPath) -> Option<u64> {
        self.host.free_space(path)
    }
    fn fetch(&self, request: &net::Request) -> Result<net::Response, net::NetError> {
        self.host.fetch(request)
    }
    fn set_variable(&self, name: &str, value: &str) -> io::Result<()> {
        self.host.set_variable(name, value)
    }
    fn pause(&self, time: Duration) {
        self.host.pause(time);
    }
    fn now(&self) -> u64 {
        self.host.now()
    }
    fn elapsed(&self) -> Duration {
        self.host.elapsed()
    }
    fn counts(&self) -> Counts {
        self.host.counts()
    }
    fn path(&self, text: &str) -> HostPath {
        self.host.path(text)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Os, RecordedHost, find_program};

    #[test]
    fn only_the_environment_is_another() {
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
