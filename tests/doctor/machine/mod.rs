//! A builder for recorded hosts: each function adds one thing that exists on real hosts. Later layers replace earlier
//! ones at the same path, and `without` removes a path, so that a fault takes one line.

mod amd;
mod cuda;
mod intel;
mod linux;
mod mac;
mod nvidia;
mod plant;
mod vulkan;
mod windows;

pub use amd::*;
pub use intel::*;
pub use linux::{RENDER, VIDEO};
pub use nvidia::*;
pub use plant::Step;

use std::collections::BTreeMap;

use gpubuild_host::recorded::{
    CommandResult, HostRecording, RecordedCommand, RecordedEntry, RecordedFile, RecordedKey,
};
use gpubuild_host::{
    Arch, CommandOutput, Identity, Os, Owner, Platform, ProbeAnswer, ProbeStatus, RecordedHost, RegistryType,
    RegistryValue,
};

/// A host under construction.
#[derive(Debug, Clone)]
pub struct Machine {
    platform: Platform,
    env: BTreeMap<String, String>,
    files: BTreeMap<String, RecordedEntry>,
    commands: Vec<RecordedCommand>,
    probes: BTreeMap<String, ProbeAnswer>,
    registry: Vec<RecordedKey>,
    identity: Identity,
    /// The library folder of the distribution: `/usr/lib/x86_64-linux-gnu`, `/usr/lib64`.
    pub lib: String,
}

impl Machine {
    /// An empty host.
    pub fn new(os: Os, arch: Arch) -> Self {
        Self {
            platform: Platform { os, arch },
            env: BTreeMap::new(),
            files: BTreeMap::new(),
            commands: Vec::new(),
            probes: BTreeMap::new(),
            registry: Vec::new(),
            identity: Identity { uid: Some(1000), groups: vec![1000] },
            lib: "/usr/lib".to_owned(),
        }
    }

    pub fn os(&self) -> Os {
        self.platform.os
    }

    pub fn arch(&self) -> Arch {
        self.platform.arch
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Prepends a folder to PATH.
    pub fn path_first(mut self, folder: &str) -> Self {
        let separator = if self.platform.os == Os::Windows { ";" } else { ":" };
        let name = if self.platform.os == Os::Windows { "Path" } else { "PATH" };
        let old = self.env.get(name).cloned().unwrap_or_default();
        self.env.insert(name.to_owned(), format!("{folder}{separator}{old}"));
        self
    }

    /// Adds a text file.
    pub fn file(self, path: &str, text: &str) -> Self {
        self.entry(path, RecordedEntry::file(Some(text.as_bytes())))
    }

    /// Adds a binary file.
    pub fn bytes(self, path: &str, content: &[u8]) -> Self {
        self.entry(path, RecordedEntry::file(Some(content)))
    }

    /// Adds a file whose content is not read, such as a library.
    pub fn opaque(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::file(None))
    }

    /// Adds an executable.
    pub fn program(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::executable(None))
    }

    pub fn folder(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::folder())
    }

    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, RecordedEntry::Link(target.to_owned()))
    }

    /// Adds a device node that can be opened.
    pub fn device(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::Device { open_error: None, owner: None })
    }

    /// Adds a device node of a group; `open_error` is the error of opening it, or empty.
    pub fn device_of(self, path: &str, gid: u32, open_error: &str) -> Self {
        let open_error = (!open_error.is_empty()).then(|| open_error.to_owned());
        self.entry(path, RecordedEntry::Device { open_error, owner: Some(Owner { uid: 0, gid }) })
    }

    pub fn entry(mut self, path: &str, entry: RecordedEntry) -> Self {
        self.files.insert(path.to_owned(), entry);
        self
    }

    /// Removes a path and everything below it.
    pub fn without(mut self, path: &str) -> Self {
        let below = format!("{path}/");
        let before = self.files.len();
        self.files.retain(|name, _| name != path && !name.starts_with(&below));
        assert!(before > self.files.len(), "`{path}` does not exist");
        self
    }

    /// Removes an environment variable.
    pub fn without_env(mut self, name: &str) -> Self {
        assert!(self.env.remove(name).is_some(), "`{name}` is not set");
        self
    }

    /// Adds a command that prints this and exits with status 0.
    pub fn command(self, argv: &[&str], stdout: &str) -> Self {
        let output = CommandOutput { stdout: stdout.to_owned(), exit: Some(0), ..CommandOutput::default() };
        self.command_result(argv, CommandResult::Ended(output))
    }

    pub fn command_result(mut self, argv: &[&str], result: CommandResult) -> Self {
        let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
        self.commands.push(RecordedCommand { argv, result });
        self
    }

    /// Sets the probe result of a backend's driver.
    pub fn probe(self, id: &str, answer: &str) -> Self {
        let answer = answer.to_owned();
        self.answers(id, ProbeAnswer { status: ProbeStatus::Ok, error: String::new(), answer })
    }

    /// Makes the probe of a backend's driver fail with this error.
    pub fn probe_fails(self, id: &str, error: &str) -> Self {
        let error = error.to_owned();
        self.answers(id, ProbeAnswer { status: ProbeStatus::Failed, error, answer: String::new() })
    }

    pub fn answers(mut self, id: &str, answer: ProbeAnswer) -> Self {
        self.probes.insert(id.to_owned(), answer);
        self
    }

    /// Removes the recorded probe result of a backend.
    pub fn without_probe(mut self, id: &str) -> Self {
        self.probes.remove(id);
        self
    }

    pub fn registry(mut self, key: &str, name: &str, text: &str) -> Self {
        let value = RegistryValue { kind: RegistryType::Sz, text: text.to_owned() };
        self.registry.push(RecordedKey { key: key.to_owned(), value: Some((name.to_owned(), value)) });
        self
    }

    pub fn registry_number(mut self, key: &str, name: &str, number: u64) -> Self {
        let value = RegistryValue { kind: RegistryType::Dword, text: number.to_string() };
        self.registry.push(RecordedKey { key: key.to_owned(), value: Some((name.to_owned(), value)) });
        self
    }

    /// Sets the user.
    pub fn user(mut self, uid: u32, groups: &[u32]) -> Self {
        self.identity = Identity { uid: Some(uid), groups: groups.to_vec() };
        self
    }

    /// Applies a function that adds a layer: `machine.with(nvidia_for_datacentre)`.
    pub fn with(self, layer: impl FnOnce(Self) -> Self) -> Self {
        layer(self)
    }

    /// The recording of the host.
    pub fn recording(&self) -> HostRecording {
        let mut recording = HostRecording::new(self.platform);
        recording.env = self.env.clone();
        recording.identity = self.identity.clone();
        recording.files = self
            .files
            .iter()
            .map(|(path, entry)| RecordedFile { path: path.clone(), entry: entry.clone() })
            .collect();
        recording.commands.clone_from(&self.commands);
        recording.probes = self.probes.iter().map(|(id, answer)| (id.clone(), answer.clone())).collect();
        recording.registry.clone_from(&self.registry);
        recording
    }

    /// The host itself.
    pub fn host(&self) -> RecordedHost {
        RecordedHost::new(self.recording()).unwrap_or_else(|problem| panic!("{problem}"))
    }
}
