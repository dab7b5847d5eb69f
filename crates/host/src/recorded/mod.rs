//! A host from a recording (format 1 in `docs/reference/recorded-hosts.md`), or built in memory by a test.
//!
//! Files, programs and registry keys that are not recorded do not exist on it. It is read-only: every write fails with
//! [`ErrorKind::ReadOnlyFilesystem`].

mod builder;
mod error;
mod format;
mod read;
mod recording;
mod registry;
mod report;
#[cfg(test)]
mod tests;
mod tree;
mod visible;
pub(super) mod write;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::real::lines::LineSplitter;
use super::{
    Arch, Clock, Command, CommandOutput, Environment, FileKind, FileLock, Host, HostCounts, HostInfo,
    HostPath, Identity, NetworkAccess, Os, OutputLine, Platform, ProbeAnswer, ProbeLibraries, ProbeStatus,
    ReadFiles, ReadRegistry, RegistryValue, RunError, RunPrograms, Stat, Stream, Wait, WriteFiles, search,
};
pub use builder::RecordedHostBuilder;
pub use error::{RecordingError, RecordingPlace};
use gpubuild_core::order::SortIndirect as _;
pub use recording::{
    CommandResult, HostRecording, RecordedCommand, RecordedEntry, RecordedFile, RecordedKey,
};
use tree::RecordedTree;

/// Largest recording in bytes. Several copies of it are in memory while it is parsed.
const RECORDING_LIMIT: u64 = 16 << 20;

/// A recorded host.
#[derive(Debug)]
pub struct RecordedHost {
    platform: Platform,
    env: Environment,
    identity: Identity,
    tree: RecordedTree,
    commands: Vec<RecordedCommand>,
    probes: BTreeMap<String, ProbeAnswer>,
    registry: registry::RecordedRegistry,
    processes: AtomicU64,
    files: AtomicU64,
    /// The existing folders of PATH.
    path_folders: OnceLock<Arc<Vec<HostPath>>>,
}

/// An entry of a recording that contradicts another entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{what}` cannot be recorded: {why}")]
pub struct Contradiction {
    /// The path or registry key.
    pub what: String,
    /// The contradiction.
    pub why: String,
    /// The entry's position in the recording.
    pub item: RecordedItem,
}

/// An entry of a recording, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedItem {
    /// Index in [`HostRecording::files`].
    File(usize),
    /// Index in [`HostRecording::registry`].
    Key(usize),
}

impl RecordedHost {
    /// Creates a builder, for tests.
    #[must_use]
    pub fn builder(os: Os, arch: Arch) -> RecordedHostBuilder {
        RecordedHostBuilder::new(os, arch)
    }

    /// Creates a host from a recording.
    ///
    /// # Errors
    /// Two entries of the recording contradict each other.
    pub fn new(recording: HostRecording) -> Result<Self, Contradiction> {
        let rules = recording.platform.path_rules();
        let mut tree = RecordedTree::new(rules);
        // Insert links first, in order of depth, so that files recorded below a link are stored at its target.
        let mut order: Vec<usize> = (0..recording.files.len()).collect();
        order.sort_indirect_by_key(|&index| {
            let file = &recording.files[index];
            let is_link = matches!(file.entry, RecordedEntry::Link(_));
            (!is_link, if is_link { tree::depth(&HostPath::new(rules, &file.path)) } else { 0 })
        });
        for index in order {
            let RecordedFile { path, entry } = &recording.files[index];
            tree.insert(&HostPath::new(rules, path), entry.clone()).map_err(|why| Contradiction {
                what: path.clone(),
                why,
                item: RecordedItem::File(index),
            })?;
        }
        let mut keys = registry::RecordedRegistry::default();
        for (index, key) in recording.registry.iter().enumerate() {
            keys.insert(key).map_err(|why| Contradiction {
                what: key.key.clone(),
                why,
                item: RecordedItem::Key(index),
            })?;
        }
        Ok(Self {
            platform: recording.platform,
            env: Environment::new(recording.platform.os, recording.env),
            identity: recording.identity,
            tree,
            commands: recording.commands,
            probes: recording.probes.into_iter().collect(),
            registry: keys,
            processes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            path_folders: OnceLock::new(),
        })
    }

    /// Parses a recording, or a report that contains one. `file` is its name in messages.
    ///
    /// # Errors
    /// The first invalid entry, with line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecordingError> {
        let pasted = report::recording(text);
        let text = pasted.as_deref().unwrap_or(text);
        let read = read::read(file, text)?;
        Self::new(read.recording).map_err(|problem| {
            let span = match problem.item {
                RecordedItem::File(index) => read.file_spans.get(index),
                RecordedItem::Key(index) => read.key_spans.get(index),
            };
            let hint =
                "entries for the same path must be equal, and a path is either a file, a folder or a link";
            RecordingError::new(file, text, span.cloned(), problem.to_string(), hint)
        })
    }

    /// Reads a recording from a file on `host`, which is the real host except in tests.
    ///
    /// # Errors
    /// The file cannot be read or is invalid.
    pub fn load(host: &dyn ReadFiles, path: &HostPath) -> Result<Self, RecordingError> {
        let bytes = host.read_input(path, RECORDING_LIMIT).map_err(|error| RecordingError {
            file: path.as_str().to_owned(),
            what: format!("failed to read the recorded host: {error}"),
            place: None,
            hint: "create one with `gpubuild host record FILE`".to_owned(),
        })?;
        let text = String::from_utf8(bytes).map_err(|error| RecordingError {
            file: path.as_str().to_owned(),
            what: format!(
                "the recorded host is not valid UTF-8 at byte {}",
                error.utf8_error().valid_up_to()
            ),
            place: None,
            hint: "save it as UTF-8, and write binary file content as `base64`".to_owned(),
        })?;
        Self::parse(path.as_str(), text.strip_prefix('\u{feff}').unwrap_or(&text))
    }

    /// The key that identifies a program: its path with all links resolved, or its name if no such file exists.
    fn program_key(&self, name: &str) -> String {
        let found = search::find_program(self, name).into_iter().next();
        let path = found.unwrap_or_else(|| self.path(name));
        self.tree.resolve(&path).map_or_else(|_| path.key(), |location| self.tree.path(&location).key())
    }

    /// Returns the recorded result of a command and counts a process.
    fn run_recorded(&self, command: &Command) -> Result<CommandOutput, RunError> {
        let found = self.result_of(command);
        if !matches!(found, Err(RunError::NotFound { .. })) {
            self.processes.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn result_of(&self, command: &Command) -> Result<CommandOutput, RunError> {
        let program = command.argv.first().cloned().unwrap_or_default();
        let key = self.program_key(&program);
        let recorded = self.commands.iter().find(|recorded| {
            recorded.argv[1..] == command.argv[1.min(command.argv.len())..]
                && self.program_key(&recorded.argv[0]) == key
        });
        let Some(recorded) = recorded else { return Err(RunError::NotFound { program }) };
        match &recorded.result {
            CommandResult::Ended(output) => Ok(output.clone()),
            CommandResult::Hangs => Err(RunError::Timeout { program, deadline: command.deadline }),
        }
    }
}

/// Converts the `open_error` of an entry to an error.
fn open_error(code: &str, path: &HostPath) -> io::Error {
    let kind = match code {
        "permission-denied" => ErrorKind::PermissionDenied,
        "not-found" => ErrorKind::NotFound,
        "busy" => ErrorKind::ResourceBusy,
        "timed-out" => ErrorKind::TimedOut,
        "invalid-input" => ErrorKind::InvalidInput,
        "unsupported" => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, format!("failed to open `{path}`: {}", code.replace('-', " ")))
}

fn read_only() -> io::Error {
    io::Error::new(ErrorKind::ReadOnlyFilesystem, "a recorded host cannot be changed")
}

impl HostInfo for RecordedHost {
    fn platform(&self) -> Platform {
        self.platform
    }

    fn env(&self) -> &Environment {
        &self.env
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn current_dir(&self) -> io::Result<HostPath> {
        Ok(self.path(match self.platform.os {
            Os::Windows => "C:\\",
            Os::Linux | Os::Macos => "/",
        }))
    }

    fn counts(&self) -> HostCounts {
        HostCounts {
            processes: self.processes.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
        }
    }
}

impl ReadFiles for RecordedHost {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        let found = self.tree.find(path)?;
        let (kind, size, executable, owner) = match found.entry() {
            RecordedEntry::Directory { owner, .. } => (FileKind::Directory, 0, false, *owner),
            RecordedEntry::Device { owner, .. } => (FileKind::Device, 0, false, *owner),
            RecordedEntry::File { content, executable, owner, .. } => {
                let by_name = self.platform.os == Os::Windows
                    && search::has_extension(&self.path(found.name), search::extensions(&self.env));
                let size = content.as_ref().map_or(0, |content| content.len() as u64);
                (FileKind::File, size, *executable || by_name, *owner)
            }
            // Not reached, because links are followed.
            RecordedEntry::Link(_) => (FileKind::Other, 0, false, None),
        };
        Ok(Stat { kind, size, executable, owner, modified: None, changed: None })
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        Ok(self.tree.path(&self.tree.resolve(path)?))
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        match self.tree.at_link(path)? {
            RecordedEntry::Link(target) => Ok(target.clone()),
            _ => Err(io::Error::new(ErrorKind::InvalidInput, format!("`{path}` is not a link"))),
        }
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.read_start(path, usize::MAX)
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.files.fetch_add(1, Ordering::Relaxed);
        match self.tree.find(path)?.entry() {
            RecordedEntry::File { open_error: Some(error), .. }
            | RecordedEntry::Device { open_error: Some(error), .. } => Err(open_error(error, path)),
            RecordedEntry::File { content: Some(content), .. } => {
                Ok(content[..content.len().min(limit)].to_vec())
            }
            RecordedEntry::File { content: None, .. } => Err(io::Error::new(
                ErrorKind::Unsupported,
                format!("the content of `{path}` was not recorded"),
            )),
            RecordedEntry::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
            RecordedEntry::Device { .. } | RecordedEntry::Link(_) => Ok(Vec::new()),
        }
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        let found = self.tree.find(folder)?;
        match found.entry() {
            RecordedEntry::Directory { open_error: Some(error), .. } => Err(open_error(error, folder)),
            RecordedEntry::Directory { .. } => Ok(found.names()),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// A recording can have a PATH of any length, which every search for a program would walk.
    fn search_folders(&self, search_path: &str) -> Arc<Vec<HostPath>> {
        let existing = || {
            let mut folders = search::folders(self.platform, search_path);
            folders.retain(|folder| self.is_dir(folder));
            Arc::new(folders)
        };
        if self.env.get("PATH") == Some(search_path) {
            return Arc::clone(self.path_folders.get_or_init(existing));
        }
        existing()
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.files.fetch_add(1, Ordering::Relaxed);
        match self.tree.find(path)?.entry() {
            RecordedEntry::Device { open_error: Some(error), .. }
            | RecordedEntry::File { open_error: Some(error), .. } => Err(open_error(error, path)),
            RecordedEntry::Device { .. } | RecordedEntry::File { .. } | RecordedEntry::Link(_) => Ok(()),
            RecordedEntry::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
        }
    }
}

impl ReadRegistry for RecordedHost {
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        self.registry.value(key, name)
    }

    fn registry_keys(&self, key: &str) -> Vec<String> {
        self.registry.keys(key)
    }

    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        self.registry.values(key)
    }
}

impl RunPrograms for RecordedHost {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        self.run_recorded(command)
    }

    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        let output = self.run_recorded(command)?;
        for (stream, text) in [(Stream::Stdout, &output.stdout), (Stream::Stderr, &output.stderr)] {
            let mut lines = LineSplitter::default();
            lines.feed(text.as_bytes(), |text| on_line(OutputLine { stream, text }));
            lines.finish(|text| on_line(OutputLine { stream, text }));
        }
        Ok(output)
    }

    fn recorded_output(&self, command: &Command) -> Option<CommandOutput> {
        self.result_of(command).ok()
    }
}

impl ProbeLibraries for RecordedHost {
    fn probe(&self, id: &str, _deadline: Duration) -> ProbeAnswer {
        self.probes.get(id).cloned().unwrap_or_else(|| ProbeAnswer {
            status: ProbeStatus::Failed,
            error: format!("no probe of `{id}` was recorded"),
            answer: String::new(),
        })
    }
}

impl Clock for RecordedHost {
    fn now(&self) -> u64 {
        0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

impl WriteFiles for RecordedHost {
    fn write(&self, _path: &HostPath, _content: &[u8]) -> io::Result<()> {
        Err(read_only())
    }

    fn set_executable(&self, _path: &HostPath) -> io::Result<()> {
        Err(read_only())
    }

    fn create_dir_all(&self, _path: &HostPath) -> io::Result<()> {
        Err(read_only())
    }

    fn rename(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(read_only())
    }

    fn copy(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _path: &HostPath) -> io::Result<()> {
        Err(read_only())
    }

    fn temporary_dir(&self, _parent: &HostPath) -> io::Result<HostPath> {
        Err(read_only())
    }

    fn lock(&self, _path: &HostPath, _wait: Wait) -> io::Result<Option<FileLock>> {
        Err(read_only())
    }

    fn free_space(&self, _path: &HostPath) -> Option<u64> {
        None
    }
}

impl NetworkAccess for RecordedHost {}

impl Host for RecordedHost {}
