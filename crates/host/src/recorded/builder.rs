//! Builds recorded hosts in tests, with one call per fact.

use super::{
    CommandResult, HostRecording, RecordedCommand, RecordedEntry, RecordedFile, RecordedHost, RecordedKey,
};
use crate::{
    Arch, CommandOutput, Identity, Os, Owner, Platform, ProbeAnswer, ProbeStatus, RegistryType, RegistryValue,
};

/// A recorded host under construction.
#[derive(Debug, Clone)]
pub struct RecordedHostBuilder {
    recording: HostRecording,
}

impl RecordedHostBuilder {
    pub(super) fn new(os: Os, arch: Arch) -> Self {
        Self { recording: HostRecording::new(Platform { os, arch }) }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.recording.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds a text file.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> Self {
        self.entry(path, RecordedEntry::file(Some(text.as_bytes())))
    }

    /// Adds a binary file.
    #[must_use]
    pub fn bytes(self, path: &str, content: &[u8]) -> Self {
        self.entry(path, RecordedEntry::file(Some(content)))
    }

    /// Adds a file without content, such as a library. Reading it fails.
    #[must_use]
    pub fn opaque(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::file(None))
    }

    /// Adds an executable file without content.
    #[must_use]
    pub fn executable(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::executable(None))
    }

    /// Adds a folder. Only needed for empty folders.
    #[must_use]
    pub fn directory(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::folder())
    }

    /// Adds a link; its target is absolute or relative to the link's folder.
    #[must_use]
    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, RecordedEntry::Link(target.to_owned()))
    }

    /// Adds a device that can be opened.
    #[must_use]
    pub fn device(self, path: &str) -> Self {
        self.entry(path, RecordedEntry::Device { open_error: None, owner: None })
    }

    /// Adds a device that cannot be opened, with its owning group.
    #[must_use]
    pub fn closed_device(self, path: &str, open_error: &str, gid: u32) -> Self {
        let owner = Some(Owner { uid: 0, gid });
        self.entry(path, RecordedEntry::Device { open_error: Some(open_error.to_owned()), owner })
    }

    /// Adds an entry of any kind.
    #[must_use]
    pub fn entry(mut self, path: &str, entry: RecordedEntry) -> Self {
        self.recording.files.push(RecordedFile { path: path.to_owned(), entry });
        self
    }

    /// Adds a program that prints `stdout` and exits with status 0.
    #[must_use]
    pub fn command(self, argv: &[&str], stdout: &str) -> Self {
        self.command_result(
            argv,
            CommandResult::Ended(CommandOutput {
                stdout: stdout.to_owned(),
                exit: Some(0),
                ..CommandOutput::default()
            }),
        )
    }

    /// Adds a program with any result.
    #[must_use]
    pub fn command_result(mut self, argv: &[&str], result: CommandResult) -> Self {
        let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
        self.recording.commands.push(RecordedCommand { argv, result });
        self
    }

    /// Adds the successful answer of a backend's probe.
    #[must_use]
    pub fn probe(self, id: &str, answer: &str) -> Self {
        let answer = answer.to_owned();
        self.probe_answer(id, ProbeAnswer { status: ProbeStatus::Ok, error: String::new(), answer })
    }

    /// Adds the result of a backend's probe.
    #[must_use]
    pub fn probe_answer(mut self, id: &str, answer: ProbeAnswer) -> Self {
        self.recording.probes.push((id.to_owned(), answer));
        self
    }

    /// Adds a text value to the registry.
    #[must_use]
    pub fn registry(mut self, key: &str, name: &str, text: &str) -> Self {
        let value = RegistryValue { kind: RegistryType::Sz, text: text.to_owned() };
        self.recording
            .registry
            .push(RecordedKey { key: key.to_owned(), value: Some((name.to_owned(), value)) });
        self
    }

    /// Adds a number to the registry.
    #[must_use]
    pub fn registry_number(mut self, key: &str, name: &str, number: u64) -> Self {
        let value = RegistryValue { kind: RegistryType::Dword, text: number.to_string() };
        self.recording
            .registry
            .push(RecordedKey { key: key.to_owned(), value: Some((name.to_owned(), value)) });
        self
    }

    /// Sets the user and groups.
    #[must_use]
    pub fn identity(mut self, uid: u32, groups: &[u32]) -> Self {
        self.recording.identity = Identity { uid: Some(uid), groups: groups.to_vec() };
        self
    }

    /// Builds the host.
    ///
    /// # Panics
    /// If entries contradict each other.
    #[must_use]
    pub fn build(self) -> RecordedHost {
        match RecordedHost::new(self.recording) {
            Ok(host) => host,
            Err(problem) => panic!("{problem}"),
        }
    }
}
