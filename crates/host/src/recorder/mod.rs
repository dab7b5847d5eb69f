//! Records a host: wraps another host, forwards every request to it and stores the result.
//!
//! A recording contains exactly what the program accessed, so the program behaves the same on the recorded host. Names of users
//! and machines and secrets are removed. Environment variables that are not recorded are hidden from the program during recording.

mod cleaner;
mod compact;
mod kept;
mod output;
mod redact;
mod secrets;
mod serials;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::recorded::{
    CommandResult, HostRecording, RecordedCommand, RecordedEntry, RecordedFile, RecordedKey,
};
use super::{
    Clock, Command, CommandOutput, Environment, FileKind, HostCounts, HostInfo, HostPath, Identity,
    InspectHost, OutputLine, Owner, PathRules, Platform, ProbeAnswer, ProbeLibraries, ReadFiles,
    ReadRegistry, RegistryValue, RunError, RunPrograms, Stat,
};
use cleaner::Cleaner;
use gpubuild_core::order::CollectSorted as _;
use kept::is_kept;
use redact::Redaction;
pub use secrets::Redactions;
use secrets::Secrets;
use serials::Serials;

/// Records everything that `inspect` accesses on a host, and lists where secrets were redacted. `more_variables` are names of
/// additional environment variables to record.
pub fn record(
    host: &dyn InspectHost,
    more_variables: &[String],
    inspect: impl FnOnce(&dyn InspectHost),
) -> (HostRecording, Redactions) {
    let recorder = HostRecorder::new(host, more_variables);
    inspect(&recorder);
    recorder.finish()
}

/// Forwards requests to the inner host and stores the results.
struct HostRecorder<'a> {
    inner: &'a dyn InspectHost,
    env: Environment,
    secrets: Secrets,
    log: Mutex<AccessLog>,
}

#[derive(Default)]
struct AccessLog {
    files: BTreeMap<String, RecordedEntry>,
    commands: Vec<RecordedCommand>,
    probes: BTreeMap<String, ProbeAnswer>,
    keys: Vec<RecordedKey>,
}

impl<'a> HostRecorder<'a> {
    fn new(inner: &'a dyn InspectHost, more_variables: &[String]) -> Self {
        let os = inner.platform().os;
        let mut secrets = Secrets::of(inner.env());
        let kept = inner.env().iter().filter(|(name, _)| is_kept(os, name, more_variables));
        // Show the program the redacted values that are recorded, so that both yield the same findings.
        let kept: Vec<_> = kept.map(|(name, value)| (name, secrets.text(name, value))).collect();
        Self { inner, env: Environment::new(os, kept), secrets, log: Mutex::default() }
    }

    fn log(&self) -> MutexGuard<'_, AccessLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records all links in a path and returns the resolved path, even if it does not exist.
    fn record_links(&self, path: &HostPath) -> HostPath {
        let mut links = 0;
        let mut at = root_of(path);
        let mut pending = names_below(path, &at);
        while let Some(name) = pending.pop() {
            if name == ".." {
                at = at.parent().unwrap_or(at);
                continue;
            }
            let next = at.join(&name);
            // This link depends on the process that reads it. Do not resolve it, because recordings contain no process ids.
            if matches!(next.as_str(), "/proc/self" | "/proc/thread-self") {
                at = next;
                continue;
            }
            match self.inner.read_link(&next) {
                Ok(target) if links < 40 => {
                    links += 1;
                    self.log().files.insert(next.as_str().to_owned(), RecordedEntry::Link(target.clone()));
                    let target = self.inner.path(&target);
                    if target.is_absolute() {
                        at = root_of(&target);
                        pending.extend(names_below(&target, &at));
                    } else {
                        pending.extend(pieces(&target, target.as_str()));
                    }
                }
                _ => at = next,
            }
        }
        match at.rules() {
            PathRules::Unix => at,
            // Record a file once, under its canonical spelling.
            PathRules::Windows => self.inner.canonical(&at).unwrap_or(at),
        }
    }

    /// Records that a file exists, without replacing more detailed information.
    fn note(&self, path: &HostPath, stat: &Stat) {
        let real = self.record_links(path);
        let entry = match stat.kind {
            FileKind::Directory => RecordedEntry::folder(),
            FileKind::Device => RecordedEntry::Device { open_error: None, owner: stat.owner },
            FileKind::File | FileKind::Other => {
                if stat.executable {
                    RecordedEntry::executable(None)
                } else {
                    RecordedEntry::file(None)
                }
            }
        };
        let mut log = self.log();
        match log.files.get_mut(real.as_str()) {
            Some(RecordedEntry::File { executable, .. }) => *executable |= stat.executable,
            Some(RecordedEntry::Device { owner, .. }) => *owner = owner.or(stat.owner),
            Some(_) => {}
            None => drop(log.files.insert(real.as_str().to_owned(), entry)),
        }
    }

    /// Records an entry of a folder, without following it if it is a link.
    fn note_child(&self, path: &HostPath) {
        match self.inner.read_link(path) {
            Ok(target) => {
                drop(self.log().files.insert(path.as_str().to_owned(), RecordedEntry::Link(target)));
            }
            Err(_) => {
                if let Ok(stat) = self.inner.stat(path) {
                    self.note(path, &stat);
                }
            }
        }
    }

    fn note_content(&self, path: &HostPath, content: &[u8]) {
        let real = self.record_links(path).as_str().to_owned();
        let mut log = self.log();
        match log.files.get_mut(&real) {
            Some(RecordedEntry::File { content: known, .. }) => {
                if known.as_ref().is_none_or(|known| known.len() < content.len()) {
                    *known = Some(Arc::from(content));
                }
            }
            _ => drop(log.files.insert(real, RecordedEntry::file(Some(content)))),
        }
    }

    /// Records why opening a file failed. A missing file needs no entry.
    fn note_error(
        &self,
        path: &HostPath,
        error: &io::Error,
        entry: impl Fn(String, Option<Owner>) -> RecordedEntry,
    ) {
        let Some(code) = error_code(error) else { return };
        let real = self.record_links(path);
        let owner = self.inner.stat(path).ok().and_then(|stat| stat.owner);
        self.log().files.insert(real.as_str().to_owned(), entry(code, owner));
    }

    fn note_names(&self, folder: &HostPath, names: &io::Result<Vec<String>>) {
        let entry = |open_error, owner| RecordedEntry::Directory { open_error: Some(open_error), owner };
        match names {
            Ok(names) => {
                let real = self.record_links(folder);
                self.log().files.entry(real.as_str().to_owned()).or_insert_with(RecordedEntry::folder);
                for name in names {
                    self.note_child(&real.join(name));
                }
            }
            Err(error) => self.note_error(folder, error, entry),
        }
    }

    fn note_command(&self, command: &Command, mut result: CommandResult) {
        if let CommandResult::Ended(output) = &mut result {
            output::shorten(&mut output.stdout);
            output::shorten(&mut output.stderr);
        }
        let recorded = RecordedCommand { argv: command.argv.clone(), result };
        let mut log = self.log();
        if !log.commands.iter().any(|known| known.argv == recorded.argv) {
            log.commands.push(recorded);
        }
    }

    fn note_result(&self, command: &Command, result: &Result<CommandOutput, RunError>) {
        match result {
            Ok(output) => self.note_command(command, CommandResult::Ended(output.clone())),
            Err(RunError::Timeout { .. }) => self.note_command(command, CommandResult::Hangs),
            Err(_) => {}
        }
    }

    fn note_key(&self, key: String, value: Option<(String, RegistryValue)>) {
        let recorded = RecordedKey { key, value };
        let mut log = self.log();
        if !log.keys.contains(&recorded) {
            log.keys.push(recorded);
        }
    }

    fn finish(self) -> (HostRecording, Redactions) {
        let log = self.log.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut names, mut serials) = (Redaction::of(self.inner), Serials::default());
        let values = self.env.iter().map(|(_, value)| value);
        for text in values.chain(log.texts()) {
            names.collect(text);
            serials.collect(text);
        }
        let mut cleaner = Cleaner { names, serials, secrets: self.secrets };
        let mut recording = HostRecording::new(self.inner.platform());
        recording.env =
            self.env.iter().map(|(name, value)| (name.to_owned(), cleaner.text(name, value))).collect();
        recording.identity = self.inner.identity().clone();
        // Compare names only, because the folder may have been accessed through a link.
        let name_of = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let accessed: BTreeSet<String> = log.files.keys().map(|path| name_of(path)).collect_set();
        for (path, entry) in log.files {
            let entry = reduced(&path, entry, &|path| accessed.contains(&name_of(path)));
            let clean = cleaner.path(&path);
            let entry = cleaner.entry(&path, &clean, entry);
            recording.files.push(RecordedFile { path: clean, entry });
        }
        recording.commands = log.commands.into_iter().map(|command| cleaner.command(command)).collect();
        for (id, answer) in log.probes {
            let place = format!("answer of the {id} probe");
            let (error, text) = (cleaner.text(&place, &answer.error), cleaner.text(&place, &answer.answer));
            recording.probes.push((id, ProbeAnswer { status: answer.status, error, answer: text }));
        }
        recording.registry = log.keys.into_iter().map(|key| cleaner.key(key)).collect();
        (recording, cleaner.secrets.redactions)
    }
}

impl AccessLog {
    /// All texts that were read.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let contents = self.files.values().filter_map(|entry| match entry {
            RecordedEntry::File { content: Some(content), .. } => std::str::from_utf8(content).ok(),
            RecordedEntry::Link(target) => Some(target.as_str()),
            _ => None,
        });
        let outputs = self.commands.iter().flat_map(|command| {
            let output = match &command.result {
                CommandResult::Ended(output) => vec![output.stdout.as_str(), &output.stderr],
                CommandResult::Hangs => Vec::new(),
            };
            command.argv.iter().map(String::as_str).chain(output)
        });
        let answers = self.probes.values().flat_map(|answer| [answer.error.as_str(), &answer.answer]);
        let values = self.keys.iter().filter_map(|key| key.value.as_ref());
        let values = values.map(|(_, value)| value.text.as_str());
        let paths = self.files.keys().map(String::as_str);
        paths.chain(contents).chain(outputs).chain(answers).chain(values)
    }
}

/// Reduces the content of large files.
fn reduced(path: &str, entry: RecordedEntry, was_accessed: &dyn Fn(&str) -> bool) -> RecordedEntry {
    match entry {
        RecordedEntry::File { content: Some(complete), executable, open_error, owner } => {
            let content = compact::content(path, &complete, was_accessed).map_or(complete, Arc::from);
            RecordedEntry::File { content: Some(content), executable, open_error, owner }
        }
        other => other,
    }
}

/// The error code of format 1; `None` if the file is missing.
fn error_code(error: &io::Error) -> Option<String> {
    let code = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::Unsupported => {
            return None;
        }
        ErrorKind::PermissionDenied => "permission-denied",
        ErrorKind::ResourceBusy => "busy",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::InvalidInput => "invalid-input",
        _ => match error.raw_os_error() {
            // ENXIO and ENODEV of Linux and macOS.
            Some(6 | 19) => "no-such-device",
            Some(_) => "input-output-error",
            // The message of a recorded host, if a recorded host is recorded again.
            None if error.to_string().ends_with("no such device") => "no-such-device",
            None => "other",
        },
    };
    Some(code.to_owned())
}

/// The root of an absolute path.
fn root_of(path: &HostPath) -> HostPath {
    let mut at = path.clone();
    while let Some(parent) = at.parent() {
        at = parent;
    }
    at
}

/// The components of a path below its root, in reverse order.
fn names_below(path: &HostPath, root: &HostPath) -> Vec<String> {
    pieces(path, path.as_str().get(root.as_str().len()..).unwrap_or_default())
}

/// Splits a text at separators, in reverse order.
fn pieces(path: &HostPath, text: &str) -> Vec<String> {
    let separators: &[char] = match path.rules() {
        PathRules::Unix => &['/'],
        PathRules::Windows => &['\\', '/'],
    };
    let names = text.split(separators).filter(|name| !name.is_empty() && *name != ".");
    names.rev().map(str::to_owned).collect()
}

impl HostInfo for HostRecorder<'_> {
    fn platform(&self) -> Platform {
        self.inner.platform()
    }

    fn env(&self) -> &Environment {
        &self.env
    }

    fn identity(&self) -> &Identity {
        self.inner.identity()
    }

    fn current_dir(&self) -> io::Result<HostPath> {
        self.inner.current_dir()
    }

    fn counts(&self) -> HostCounts {
        self.inner.counts()
    }
}

impl ReadFiles for HostRecorder<'_> {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        let stat = self.inner.stat(path);
        match &stat {
            Ok(stat) => self.note(path, stat),
            // Record links even if their target is missing.
            Err(_) => drop(self.record_links(path)),
        }
        stat
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        let canonical = self.inner.canonical(path)?;
        drop(self.stat(path));
        Ok(canonical)
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        let target = self.inner.read_link(path)?;
        self.record_links(path);
        Ok(target)
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.read_start(path, usize::MAX)
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        let content =
            if limit == usize::MAX { self.inner.read(path) } else { self.inner.read_start(path, limit) };
        let closed = |code, owner| RecordedEntry::File {
            content: None,
            executable: false,
            open_error: Some(code),
            owner,
        };
        match &content {
            Ok(content) => self.note_content(path, content),
            Err(error) => self.note_error(path, error, closed),
        }
        content
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        let names = self.inner.list(folder);
        self.note_names(folder, &names);
        names
    }

    /// Records only the matching names, because folders such as `/usr/lib` have thousands of entries.
    fn list_matching(&self, folder: &HostPath, pattern: &str) -> io::Result<Vec<String>> {
        let names = self.inner.list_matching(folder, pattern);
        self.note_names(folder, &names);
        names
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        let opened = self.inner.open_device(path);
        match &opened {
            Ok(()) => drop(self.stat(path)),
            Err(error) => {
                self.note_error(path, error, |code, owner| RecordedEntry::Device {
                    open_error: Some(code),
                    owner,
                });
            }
        }
        opened
    }
}

impl ReadRegistry for HostRecorder<'_> {
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        let value = self.inner.registry_value(key, name)?;
        self.note_key(key.to_owned(), Some((name.to_owned(), value.clone())));
        Some(value)
    }

    fn registry_keys(&self, key: &str) -> Vec<String> {
        let keys = self.inner.registry_keys(key);
        for name in &keys {
            self.note_key(format!(r"{key}\{name}"), None);
        }
        keys
    }

    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        let values = self.inner.registry_values(key);
        for value in &values {
            self.note_key(key.to_owned(), Some(value.clone()));
        }
        values
    }
}

impl RunPrograms for HostRecorder<'_> {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        let result = self.inner.run(command);
        self.note_result(command, &result);
        result
    }

    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        let result = self.inner.run_lines(command, on_line);
        self.note_result(command, &result);
        result
    }

    fn recorded_output(&self, command: &Command) -> Option<CommandOutput> {
        let output = self.inner.recorded_output(command)?;
        self.note_command(command, CommandResult::Ended(output.clone()));
        Some(output)
    }
}

impl ProbeLibraries for HostRecorder<'_> {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        let answer = self.inner.probe(id, deadline);
        self.log().probes.insert(id.to_owned(), answer.clone());
        answer
    }
}

impl Clock for HostRecorder<'_> {
    fn now(&self) -> u64 {
        self.inner.now()
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }
}
