//! Makes recorded hosts in tests, a line per fact.

use super::{CommandResult, Entry, RecordedCommand, RecordedFile, RecordedHost, RecordedKey, Recording};
use crate::{
    Arch, Identity, Os, Output, Owner, Platform, ProbeAnswer, ProbeStatus, RegistryType, RegistryValue,
};

/// A machine under construction.
#[derive(Debug, Clone)]
pub struct RecordedHostBuilder {
    recording: Recording,
}

impl RecordedHostBuilder {
    pub(super) fn new(os: Os, arch: Arch) -> Self {
        Self { recording: Recording::new(Platform { os, arch }) }
    }

    /// A variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.recording.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A text file.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> Self {
        self.entry(path, Entry::file(Some(text.as_bytes())))
    }

    /// A file of bytes.
    #[must_use]
    pub fn bytes(self, path: &str, content: &[u8]) -> Self {
        self.entry(path, Entry::file(Some(content)))
    }

    /// A file that is there and whose content is not known, like a library.
    #[must_use]
    pub fn opaque(self, path: &str) -> Self {
        self.entry(path, Entry::file(None))
    }

    /// A program whose content is not known.
    #[must_use]
    pub fn executable(self, path: &str) -> Self {
        self.entry(path, Entry::executable(None))
    }

    /// A folder. Only needed where nothing lies in it.
    #[must_use]
    pub fn directory(self, path: &str) -> Self {
        self.entry(path, Entry::folder())
    }

    /// A link; its target is absolute or relative to its own folder.
    #[must_use]
    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(path, Entry::Link(target.to_owned()))
    }

    /// A device that opens.
    #[must_use]
    pub fn device(self, path: &str) -> Self {
        self.entry(path, Entry::Device { open_error: None, owner: None })
    }

    /// A device that does not open, with the group that owns it.
    #[must_use]
    pub fn closed_device(self, path: &str, open_error: &str, gid: u32) -> Self {
        let owner = Some(Owner { uid: 0, gid });
        self.entry(path, Entry::Device { open_error: Some(open_error.to_owned()), owner })
    }

    /// Anything at a path.
    #[must_use]
    pub fn entry(mut self, path: &str, entry: Entry) -> Self {
        self.recording.files.push(RecordedFile { path: path.to_owned(), entry });
        self
    }

    /// A program that ends with status 0 and prints this.
    #[must_use]
    pub fn command(self, argv: &[&str], stdout: &str) -> Self {
        self.command_result(
            argv,
            CommandResult::Ended(Output { stdout: stdout.to_owned(), exit: Some(0), ..Output::default() }),
        )
    }

    /// A program and what comes of it.
    #[must_use]
    pub fn command_result(mut self, argv: &[&str], result: CommandResult) -> Self {
        let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
        self.recording.commands.push(RecordedCommand { argv, result });
        self
    }

    /// The probe of a backend succeeds with this answer.
    #[must_use]
    pub fn probe(self, id: &str, answer: &str) -> Self {
        let answer = answer.to_owned();
        self.probe_answer(id, ProbeAnswer { status: ProbeStatus::Ok, error: String::new(), answer })
    }

    /// The probe of a backend answers this.
    #[must_use]
    pub fn probe_answer(mut self, id: &str, answer: ProbeAnswer) -> Self {
        self.recording.probes.push((id.to_owned(), answer));
        self
    }

    /// A text value of the registry.
    #[must_use]
    pub fn registry(mut self, key: &str, name: &str, text: &str) -> Self {
        let value = RegistryValue { kind: RegistryType::Sz, text: text.to_owned() };
        self.recording
            .registry
            .push(RecordedKey { key: key.to_owned(), value: Some((name.to_owned(), value)) });
        self
    }

    /// A number in the registry.
    #[must_use]
    pub fn registry_number(mut self, key: &str, name: &str, number: u64) -> Self {
        let value = RegistryValue { kind: RegistryType::Dword, text: number.to_string() };
        self.recording
            .registry
            .push(RecordedKey { key: key.to_owned(), value: Some((name.to_owned(), value)) });
        self
    }

    /// Who asks.
    #[must_use]
    pub fn identity(mut self, uid: u32, groups: &[u32]) -> Self {
        self.recording.identity = Identity { uid: Some(uid), groups: groups.to_vec() };
        self
    }

    /// The machine.
    ///
    /// # Panics
    /// When what was added contradicts itself.
    #[must_use]
    pub fn build(self) -> RecordedHost {
        match RecordedHost::new(self.recording) {
            Ok(host) => host,
            Err(problem) => panic!("{problem}"),
        }
    }
}
