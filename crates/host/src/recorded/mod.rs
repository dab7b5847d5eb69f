//! A machine from a recording: format 1 of `docs/recorded-hosts.md`, or built in memory by a test.
//!
//! What is not recorded does not exist there. Nothing can be changed: every changing call answers
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
pub(super) mod write;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::real::lines::LineSplitter;
use super::{
    Arch, Command, Counts, Environment, FileKind, Host, HostPath, Identity, Line, Lock, Os, Output, Platform,
    ProbeAnswer, ProbeStatus, RegistryValue, RunError, Stat, Stream, Wait, search,
};
pub use builder::RecordedHostBuilder;
pub use error::{Place, RecordingError};
pub use recording::{CommandResult, Entry, RecordedCommand, RecordedFile, RecordedKey, Recording};
use tree::{Location, Tree};

/// A recorded host.
#[derive(Debug)]
pub struct RecordedHost {
    platform: Platform,
    env: Environment,
    identity: Identity,
    tree: Tree,
    commands: Vec<RecordedCommand>,
    probes: BTreeMap<String, ProbeAnswer>,
    registry: registry::Registry,
    processes: AtomicU64,
    files: AtomicU64,
}

/// A part of a recording that contradicts the rest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{what}` can't be recorded: {why}")]
pub struct Contradiction {
    /// The path or key.
    pub what: String,
    /// Why not.
    pub why: String,
    /// Which file or key of the recording it is.
    pub item: Item,
}

/// A part of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// The file with this index.
    File(usize),
    /// The registry key with this index.
    Key(usize),
}

impl RecordedHost {
    /// A machine that a test builds.
    #[must_use]
    pub fn builder(os: Os, arch: Arch) -> RecordedHostBuilder {
        RecordedHostBuilder::new(os, arch)
    }

    /// The machine of a recording.
    ///
    /// # Errors
    /// When two parts of it contradict each other.
    pub fn new(recording: Recording) -> Result<Self, Contradiction> {
        let rules = recording.platform.path_rules();
        let mut tree = Tree::new(rules);
        // Links first and those near the root before all, so that files recorded below a link land where it points.
        let mut order: Vec<usize> = (0..recording.files.len()).collect();
        order.sort_by_key(|&index| {
            let file = &recording.files[index];
            let is_link = matches!(file.entry, Entry::Link(_));
            (!is_link, if is_link { tree::depth(&HostPath::new(rules, &file.path)) } else { 0 })
        });
        for index in order {
            let RecordedFile { path, entry } = &recording.files[index];
            tree.insert(&HostPath::new(rules, path), entry.clone()).map_err(|why| Contradiction {
                what: path.clone(),
                why,
                item: Item::File(index),
            })?;
        }
        let mut keys = registry::Registry::default();
        for (index, key) in recording.registry.iter().enumerate() {
            keys.insert(key).map_err(|why| Contradiction {
                what: key.key.clone(),
                why,
                item: Item::Key(index),
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
        })
    }

    /// Reads a recording from its text, or from a report that has one inside; `file` is its name in messages.
    ///
    /// # Errors
    /// With the place of the mistake.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecordingError> {
        let pasted = report::recording(text);
        let text = pasted.as_deref().unwrap_or(text);
        let read = read::read(file, text)?;
        Self::new(read.recording).map_err(|problem| {
            let span = match problem.item {
                Item::File(index) => read.file_spans.get(index),
                Item::Key(index) => read.key_spans.get(index),
            };
            let hint = "what is recorded twice must be alike, and a path is a file, a folder or a link";
            RecordingError::new(file, text, span.cloned(), problem.to_string(), hint)
        })
    }

    /// Reads a recording from a file of another host, which is the real one outside of tests.
    ///
    /// # Errors
    /// When the file can't be read, and as [`Self::parse`].
    pub fn load(host: &dyn Host, path: &HostPath) -> Result<Self, RecordingError> {
        let bytes = host.read(path).map_err(|error| RecordingError {
            file: path.as_str().to_owned(),
            what: format!("failed to read the recorded host: {error}"),
            place: None,
            hint: "`gpubuild host record FILE` makes one".to_owned(),
        })?;
        let text = String::from_utf8(bytes).map_err(|error| RecordingError {
            file: path.as_str().to_owned(),
            what: format!("the recorded host is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()),
            place: None,
            hint: "save it as UTF-8; bytes of a file go into `base64`".to_owned(),
        })?;
        Self::parse(path.as_str(), text.strip_prefix('\u{feff}').unwrap_or(&text))
    }

    fn find(&self, path: &HostPath) -> io::Result<(Location, &Entry)> {
        let location = self.tree.resolve(path)?;
        let entry = self.tree.entry(&location)?;
        Ok((location, entry))
    }

    /// What a program's name means: its path with all links resolved, or the name itself where there is no such file.
    fn program_key(&self, name: &str) -> String {
        let found = search::find_program(self, name).into_iter().next();
        let path = found.unwrap_or_else(|| self.path(name));
        self.tree.resolve(&path).map_or_else(|_| path.key(), |location| self.tree.path(&location).key())
    }

    /// Starts a program, as far as a recording can.
    fn started(&self, command: &Command) -> Result<Output, RunError> {
        let found = self.answer(command);
        if !matches!(found, Err(RunError::NotFound { .. })) {
            self.processes.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn answer(&self, command: &Command) -> Result<Output, RunError> {
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

/// The error that a recording's word stands for.
fn open_error(word: &str, path: &HostPath) -> io::Error {
    let kind = match word {
        "permission-denied" => ErrorKind::PermissionDenied,
        "not-found" => ErrorKind::NotFound,
        "busy" => ErrorKind::ResourceBusy,
        "timed-out" => ErrorKind::TimedOut,
        "invalid-input" => ErrorKind::InvalidInput,
        "unsupported" => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, format!("failed to open `{path}`: {}", word.replace('-', " ")))
}

fn read_only() -> io::Error {
    io::Error::new(ErrorKind::ReadOnlyFilesystem, "a recorded host can't be changed")
}

impl Host for RecordedHost {
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

    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        let (location, entry) = self.find(path)?;
        let (kind, size, executable, owner) = match entry {
            Entry::Directory { owner, .. } => (FileKind::Directory, 0, false, *owner),
            Entry::Device { owner, .. } => (FileKind::Device, 0, false, *owner),
            Entry::File { content, executable, owner, .. } => {
                let by_name = self.platform.os == Os::Windows
                    && search::has_extension(&self.tree.path(&location), search::extensions(&self.env));
                let size = content.as_ref().map_or(0, |content| content.len() as u64);
                (FileKind::File, size, *executable || by_name, *owner)
            }
            // Links are followed before.
            Entry::Link(_) => (FileKind::Other, 0, false, None),
        };
        Ok(Stat { kind, size, executable, owner, modified: None, changed: None })
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        Ok(self.tree.path(&self.tree.resolve(path)?))
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        match self.tree.at_link(path)? {
            Entry::Link(target) => Ok(target.clone()),
            _ => Err(io::Error::new(ErrorKind::InvalidInput, format!("`{path}` is no link"))),
        }
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.read_start(path, usize::MAX)
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.files.fetch_add(1, Ordering::Relaxed);
        match self.find(path)?.1 {
            Entry::File { open_error: Some(error), .. } | Entry::Device { open_error: Some(error), .. } => {
                Err(open_error(error, path))
            }
            Entry::File { content: Some(content), .. } => Ok(content[..content.len().min(limit)].to_vec()),
            Entry::File { content: None, .. } => Err(io::Error::new(
                ErrorKind::Unsupported,
                format!("the content of `{path}` was not recorded"),
            )),
            Entry::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
            Entry::Device { .. } | Entry::Link(_) => Ok(Vec::new()),
        }
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        let (location, entry) = self.find(folder)?;
        match entry {
            Entry::Directory { open_error: Some(error), .. } => Err(open_error(error, folder)),
            Entry::Directory { .. } => Ok(self.tree.names(&location)),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.files.fetch_add(1, Ordering::Relaxed);
        match self.find(path)?.1 {
            Entry::Device { open_error: Some(error), .. } | Entry::File { open_error: Some(error), .. } => {
                Err(open_error(error, path))
            }
            Entry::Device { .. } | Entry::File { .. } | Entry::Link(_) => Ok(()),
            Entry::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        self.registry.value(key, name)
    }

    fn registry_keys(&self, key: &str) -> Vec<String> {
        self.registry.keys(key)
    }

    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        self.registry.values(key)
    }

    fn run(&self, command: &Command) -> Result<Output, RunError> {
        self.started(command)
    }

    fn run_lines(&self, command: &Command, on_line: &mut dyn FnMut(Line<'_>)) -> Result<Output, RunError> {
        let output = self.started(command)?;
        for (stream, text) in [(Stream::Stdout, &output.stdout), (Stream::Stderr, &output.stderr)] {
            let mut lines = LineSplitter::default();
            lines.feed(text.as_bytes(), |text| on_line(Line { stream, text }));
            lines.finish(|text| on_line(Line { stream, text }));
        }
        Ok(output)
    }

    fn recorded_output(&self, command: &Command) -> Option<Output> {
        self.answer(command).ok()
    }

    fn probe(&self, id: &str, _deadline: Duration) -> ProbeAnswer {
        self.probes.get(id).cloned().unwrap_or_else(|| ProbeAnswer {
            status: ProbeStatus::Failed,
            error: format!("no probe of `{id}` was recorded"),
            answer: String::new(),
        })
    }

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

    fn lock(&self, _path: &HostPath, _wait: Wait) -> io::Result<Option<Lock>> {
        Err(read_only())
    }

    fn free_space(&self, _path: &HostPath) -> Option<u64> {
        None
    }

    fn now(&self) -> u64 {
        0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn counts(&self) -> Counts {
        Counts {
            processes: self.processes.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
        }
    }
}
