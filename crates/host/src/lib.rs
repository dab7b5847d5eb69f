//! The door: the only module that touches environment, files, processes, clocks and libraries.
//!
//! A [`Host`] is the machine that is looked at: the real one ([`RealHost`]), a recording of one
//! ([`RecordedHost`], format 1) or one that a test builds in memory ([`RecordedHost::builder`]). Code that needs the
//! world takes `&dyn Host`; platform questions are asked of [`Host::platform`], never of `cfg!`, so that a recorded
//! Windows machine works on Linux.

#[cfg(feature = "command")]
pub mod ask;
#[cfg(feature = "recorded")]
pub mod carried;
pub mod command;
pub mod environment;
pub mod folders;
pub mod interrupt;
pub mod jobs;
pub mod library;
pub mod links;
pub mod net;
pub mod overlay;
pub mod path;
pub mod platform;
pub mod probe;
pub mod real;
#[cfg(feature = "recorded")]
pub mod recorded;
#[cfg(feature = "recorded")]
pub mod recorder;
pub mod registry;
pub mod search;

use std::io;
use std::time::Duration;

pub use command::{Command, Line, Output, RunError, Stream};
pub use environment::Environment;
pub use jobs::JobPool;
pub use overlay::Overlay;
pub use path::{HostPath, PathRules};
pub use platform::{Arch, Identity, Os, Platform};
pub use probe::{ProbeAnswer, ProbeStatus};
pub use real::RealHost;
#[cfg(feature = "recorded")]
pub use recorded::{RecordedHost, RecordingError};
#[cfg(feature = "recorded")]
pub use recorder::record;
pub use registry::{RegistryType, RegistryValue};
pub use search::{find_program, glob};

/// All of standard input: what the person at the command line hands over, whichever host is looked at.
pub fn standard_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::stdin().lock(), &mut bytes)?;
    Ok(bytes)
}

/// What [`Host::stat`] tells of a file, after following links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes; zero for folders and devices.
    pub size: u64,
    /// Whether this user may execute it (on Windows: by its extension).
    pub executable: bool,
    /// Owner, where the platform has one.
    pub owner: Option<Owner>,
    /// Modification time in nanoseconds since 1970, where known. Only for telling whether a file changed.
    pub modified: Option<u128>,
    /// When content or attributes last changed, in nanoseconds since 1970, where the platform tells. Programs can set
    /// [`Stat::modified`] to what they like, and not this. Only for telling whether a file changed.
    pub changed: Option<u128>,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A character or block device.
    Device,
    /// A socket, a pipe, anything else.
    Other,
}

/// Numeric owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The machine that is looked at, and on the real one worked on.
///
/// Errors are `io::Error`s whose kind tells absent ([`io::ErrorKind::NotFound`]) from forbidden
/// ([`io::ErrorKind::PermissionDenied`]). A recording answers every changing call with
/// [`io::ErrorKind::ReadOnlyFilesystem`].
pub trait Host: Send + Sync {
    /// Operating system and processor architecture.
    fn platform(&self) -> Platform;
    /// The environment, read once.
    fn env(&self) -> &Environment;
    /// Who is asking.
    fn identity(&self) -> &Identity;
    /// The program that runs, as a file.
    fn own_program(&self) -> Option<HostPath> {
        None
    }
    /// The folder that relative paths of the command line start from.
    fn current_dir(&self) -> io::Result<HostPath>;

    /// Follows links and tells what is there.
    fn stat(&self, path: &HostPath) -> io::Result<Stat>;
    /// The path with every link resolved.
    fn canonical(&self, path: &HostPath) -> io::Result<HostPath>;
    /// What a link says, unresolved: it may dangle.
    fn read_link(&self, path: &HostPath) -> io::Result<String>;
    /// A whole file.
    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>>;
    /// The first `limit` bytes of a file, for files that may be large.
    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>>;
    /// At most `limit` bytes of a file from `start` on, for looking through files that are large.
    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        let mut content = self.read(path)?;
        let start = usize::try_from(start).map_or(content.len(), |start| start.min(content.len()));
        content.drain(..start);
        content.truncate(limit);
        Ok(content)
    }
    /// A file as a stream, for those that are too large to be held as a whole.
    fn open(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.read(path)?)))
    }
    /// Names in a folder, sorted.
    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>>;
    /// Opens a device node for reading and writing and closes it again.
    fn open_device(&self, path: &HostPath) -> io::Result<()>;

    /// A value of the Windows registry; `None` elsewhere and where it is absent.
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue>;
    /// Names of the keys below `key`, sorted.
    fn registry_keys(&self, key: &str) -> Vec<String>;
    /// Names and values of `key`, sorted by name.
    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)>;

    /// A tool of Visual Studio (`cl.exe`), as its installer has registered it; `None` on every host but a real Windows.
    fn visual_studio_tool(&self, name: &str) -> Option<HostPath> {
        let _ = name;
        None
    }

    /// Runs a program to its end, within the command's deadline, and keeps what it printed.
    fn run(&self, command: &Command) -> Result<Output, RunError>;
    /// Runs a program and hands over its lines as they come (also kept in the answer up to a limit).
    fn run_lines(&self, command: &Command, on_line: &mut dyn FnMut(Line<'_>)) -> Result<Output, RunError>;
    /// What a recording has for a program: an answer that costs no process. `None` on the real host.
    fn recorded_output(&self, _command: &Command) -> Option<Output> {
        None
    }
    /// Asks a vendor's own library in a child process: `gpubuild __probe ID`.
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer;
    /// The same with paths of libraries: `gpubuild __probe ID PATH…`. A recording has one answer for all of them.
    fn probe_with(&self, id: &str, arguments: &[String], deadline: Duration) -> ProbeAnswer {
        let _ = arguments;
        self.probe(id, deadline)
    }

    /// Writes a file by way of a temporary one beside it and a rename. Parent folders are made.
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()>;
    /// Begins a new file, whose content comes as a stream. Parent folders are made. Unlike [`Host::write`] it appears at once,
    /// so the name is one that nobody else reads, and is renamed when it is finished.
    fn create(&self, _path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Goes on with a file that was begun before, or begins it.
    fn append(&self, _path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes a file executable.
    fn set_executable(&self, path: &HostPath) -> io::Result<()>;
    /// Makes a folder and its parents.
    fn create_dir_all(&self, path: &HostPath) -> io::Result<()>;
    /// Moves a file or folder, replacing a file that is there.
    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()>;
    /// Makes two files or folders change places in one step. [`io::ErrorKind::Unsupported`] where the disk can't.
    fn exchange(&self, _one: &HostPath, _other: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Copies a file, by way of a temporary name.
    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()>;
    /// Makes a file appear under a second name: a hard link, or a copy where the disk has none. Parent folders are made.
    fn link(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes a second file of the same content by way of a temporary name, sharing the blocks where the disk can. Unlike
    /// with [`Host::link`], a later change of one leaves the other as it is. Parent folders are made; nothing is flushed.
    fn duplicate(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Whether two names are known to be of one file: hard links of each other.
    fn is_same_file(&self, _one: &HostPath, _other: &HostPath) -> bool {
        false
    }
    /// Writes the content of a file that another program made through to the disk.
    fn flush(&self, _path: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes a symbolic link that says `text`. Unix only.
    fn symlink(&self, _text: &str, _link: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Removes a file or a folder with all that is in it. Absent is fine.
    fn remove(&self, path: &HostPath) -> io::Result<()>;
    /// Makes a new, empty folder inside `parent` that nobody else uses; the caller removes or renames it.
    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath>;
    /// Locks a file, which is created if absent, for this process. `Ok(None)` if another process holds the lock and `wait` is
    /// `Wait::No`. A file that is removed or replaced meanwhile is opened again.
    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<Lock>>;
    /// A pool of jobs that build tools share, by way of a named pipe. `Ok(None)` where there is no such thing.
    fn job_pool(&self, _pipe: &HostPath, _jobs: u32) -> io::Result<Option<JobPool>> {
        Ok(None)
    }
    /// Free bytes on the disk that holds `path` (or its nearest parent that exists), where known.
    fn free_space(&self, path: &HostPath) -> Option<u64>;

    /// Asks a server, once. Only the real host has a network.
    fn fetch(&self, _request: &net::Request) -> Result<net::Response, net::NetError> {
        Err(net::NetError::None)
    }

    /// Sets a variable of this very process, for libraries loaded into it that listen to nothing else. [`Host::env`] stays as
    /// it was read.
    fn set_variable(&self, _name: &str, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Waits. Only for the network; on other hosts no time passes.
    fn pause(&self, _time: Duration) {}
    /// Seconds since 1970, for labels in files and for the age of what may be thrown away; never for other decisions.
    fn now(&self) -> u64;
    /// Time since the host was made, for measuring.
    fn elapsed(&self) -> Duration;
    /// What was done so far: counted by the door itself.
    fn counts(&self) -> Counts;

    /// A path in this host's spelling.
    fn path(&self, text: &str) -> HostPath {
        HostPath::new(self.platform().path_rules(), text)
    }
    /// A whole text file; invalid UTF-8 is replaced.
    fn read_text(&self, path: &HostPath) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(path)?).into_owned())
    }
    /// Names in a folder that match a pattern in which `*` stands for any text, sorted.
    fn list_matching(&self, folder: &HostPath, pattern: &str) -> io::Result<Vec<String>> {
        let mut names = self.list(folder)?;
        names.retain(|name| search::name_matches(self.platform(), pattern, name));
        Ok(names)
    }
    /// Whether something is there.
    fn exists(&self, path: &HostPath) -> bool {
        self.stat(path).is_ok()
    }
    /// Whether a regular file is there.
    fn is_file(&self, path: &HostPath) -> bool {
        self.stat(path).is_ok_and(|stat| stat.kind == FileKind::File)
    }
    /// Whether a folder is there.
    fn is_dir(&self, path: &HostPath) -> bool {
        self.stat(path).is_ok_and(|stat| stat.kind == FileKind::Directory)
    }
}

/// A file that is being written.
pub trait NewFile: io::Write + Send {
    /// Flushes it to the disk. One that is dropped without is not whole.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Whether to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until it is free.
    Yes,
    /// Not at all.
    No,
}

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub struct Lock {
    /// The open file that carries the lock; `None` where the file system has no locks.
    pub file: Option<std::sync::Arc<std::fs::File>>,
}

/// What went through the door since the host was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Processes started.
    pub processes: u64,
    /// Files opened for reading.
    pub files: u64,
}
