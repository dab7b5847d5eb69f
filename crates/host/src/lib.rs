//! The host interface: the only code that accesses environment variables, files, processes, clocks and driver libraries.
//!
//! A [`Host`] is the machine being examined: the real machine ([`RealHost`]), a recording of one ([`RecordedHost`], format 1),
//! or a host that a test builds in memory ([`RecordedHost::builder`]). Code that does I/O takes the narrowest of these traits
//! that it needs. It reads the platform from [`HostInfo::platform`], never from `cfg!`, so that a recorded Windows machine can be
//! examined on Linux.

pub mod command;
#[cfg(feature = "recorded")]
pub mod dpkg;
#[cfg(feature = "command")]
pub mod driver_probe;
pub mod environment;
pub mod folders;
mod forward;
pub mod interrupt;
pub mod jobs;
pub mod leftovers;
pub mod library;
pub mod links;
pub mod net;
pub mod overlay;
pub mod path;
pub mod platform;
pub mod probe;
#[cfg(feature = "command")]
pub mod read_only;
pub mod real;
#[cfg(feature = "recorded")]
pub mod recorded;
#[cfg(feature = "recorded")]
pub mod recorder;
pub mod registry;
pub mod search;
#[cfg(feature = "command")]
pub mod signals;
#[cfg(feature = "recorded")]
pub mod with_program;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use command::{Command, CommandOutput, OutputLine, RunError, Stream};
pub use environment::Environment;
pub use jobs::JobPool;
pub use overlay::Overlay;
pub use path::{HostPath, PathRules};
pub use platform::{Arch, Identity, Os, Platform};
pub use probe::{ProbeAnswer, ProbeStatus};
#[cfg(feature = "command")]
pub use read_only::{ProgramAccess, ReadOnlyHost};
pub use real::RealHost;
#[cfg(feature = "recorded")]
pub use recorded::{RecordedHost, RecordingError};
#[cfg(feature = "recorded")]
pub use recorder::record;
pub use registry::{RegistryType, RegistryValue};
pub use search::{find_program, glob};

/// Reads standard input, up to [`DOCUMENT_LIMIT`]. Fails if its writer does not close it within a minute.
pub fn standard_input_document() -> io::Result<Vec<u8>> {
    real::reading::read_standard_input(DOCUMENT_LIMIT)
}

/// Largest file in bytes that [`ReadFiles::read`] accepts: documents, which are read into memory completely.
pub const DOCUMENT_LIMIT: u64 = 64 << 20;

/// Largest library or program in bytes that is read into memory, for formats that cannot be read in pieces.
pub const LIBRARY_LIMIT: u64 = 4 << 30;

/// Opens standard input of the real process as a stream, for input that does not fit into memory.
#[must_use]
pub fn standard_input_stream() -> impl io::Read {
    io::stdin().lock()
}

/// What [`ReadFiles::stat`] reports about a file, after following links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The kind of file.
    pub kind: FileKind,
    /// Size in bytes; zero for folders and devices.
    pub size: u64,
    /// Whether this user may execute the file. On Windows, this depends on the file extension.
    pub executable: bool,
    /// The owner, if the platform has numeric owners.
    pub owner: Option<Owner>,
    /// Modification time in nanoseconds since 1970, if known. Use it only to detect changes.
    pub modified: Option<u128>,
    /// Time of the last change of content or attributes in nanoseconds since 1970, if the platform reports it. Unlike
    /// [`Stat::modified`], programs cannot set it. Use it only to detect changes.
    pub changed: Option<u128>,
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A character or block device.
    Device,
    /// A socket, a pipe or another special file.
    Other,
}

/// Numeric owner and group of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Platform, environment and user of the machine.
pub trait HostInfo: Send + Sync {
    /// Operating system and processor architecture.
    fn platform(&self) -> Platform;
    /// The environment variables, read once when the host was created.
    fn env(&self) -> &Environment;
    /// The user and groups of the process.
    fn identity(&self) -> &Identity;
    /// The path of the running executable; `None` on recorded hosts.
    fn own_program(&self) -> Option<HostPath> {
        None
    }
    /// The working directory, to which relative paths on the command line refer.
    fn current_dir(&self) -> io::Result<HostPath>;
    /// The number of operations performed so far.
    fn counts(&self) -> HostCounts;
    /// Creates a path that follows this host's rules.
    fn path(&self, text: &str) -> HostPath {
        HostPath::new(self.platform().path_rules(), text)
    }
}

/// Reads files and folders. The real host reads regular files only: it refuses pipes, sockets and devices at once, because they
/// can block, or never end.
///
/// The kind of an `io::Error` distinguishes a missing file ([`io::ErrorKind::NotFound`]) from one that this user may not access
/// ([`io::ErrorKind::PermissionDenied`]).
pub trait ReadFiles: HostInfo {
    /// Returns kind, size, owner and times of a file. Follows links.
    fn stat(&self, path: &HostPath) -> io::Result<Stat>;
    /// Returns the path with all symbolic links resolved.
    fn canonical(&self, path: &HostPath) -> io::Result<HostPath>;
    /// Returns the target of a link as written. The target may be missing.
    fn read_link(&self, path: &HostPath) -> io::Result<String>;
    /// Reads a complete file of at most [`DOCUMENT_LIMIT`] bytes.
    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>>;
    /// Reads a complete file of at most `limit` bytes, for files that can be larger than a document.
    fn read_up_to(&self, path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(self.open(path)?, limit + 1), &mut content)?;
        if content.len() as u64 > limit { Err(real::reading::too_large(limit)) } else { Ok(content) }
    }
    /// Reads a document that the user named. Unlike with [`ReadFiles::read`], it can be a pipe that this process inherited
    /// (`/dev/fd/N`, as shells write for `<(command)`), whose writer has a minute to close it.
    fn read_input(&self, path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
        self.read_up_to(path, limit)
    }
    /// Reads the first `limit` bytes of a file, for large files.
    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>>;
    /// Reads at most `limit` bytes from offset `start`, to search large files piece by piece.
    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        let mut content = self.read(path)?;
        let start = usize::try_from(start).map_or(content.len(), |start| start.min(content.len()));
        content.drain(..start);
        content.truncate(limit);
        Ok(content)
    }
    /// Opens a file as a stream, for files that do not fit into memory.
    fn open(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.read(path)?)))
    }
    /// Opens a file that the user named as a stream. It can be a pipe as with [`ReadFiles::read_input`], but without a deadline.
    fn open_input(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        self.open(path)
    }
    /// Lists the names in a folder, sorted. Skips those that are not UTF-8.
    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>>;
    /// Whether [`ReadFiles::list`] skips a name in a folder. Callers that replace a folder must know about all that is in it.
    fn has_unlisted(&self, _folder: &HostPath) -> io::Result<bool> {
        Ok(false)
    }
    /// The absolute folders of a search path such as PATH, in order, without duplicates. A host that knows that a folder does not exist can omit it.
    fn search_folders(&self, search_path: &str) -> Arc<Vec<HostPath>> {
        Arc::new(search::folders(self.platform(), search_path))
    }
    /// Opens a device node for reading and writing and closes it again.
    fn open_device(&self, path: &HostPath) -> io::Result<()>;
    /// Whether two paths are known to be hard links of the same file.
    fn is_same_file(&self, _one: &HostPath, _other: &HostPath) -> bool {
        false
    }
    /// Reads a complete text file. Invalid UTF-8 is replaced.
    fn read_text(&self, path: &HostPath) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(path)?).into_owned())
    }
    /// Lists the names in a folder that match a pattern, sorted. `*` matches any text.
    fn list_matching(&self, folder: &HostPath, pattern: &str) -> io::Result<Vec<String>> {
        Ok(search::matching(self.platform(), pattern, &self.list(folder)?).cloned().collect())
    }
    /// Whether a file of any kind exists.
    fn exists(&self, path: &HostPath) -> bool {
        self.stat(path).is_ok()
    }
    /// Whether a regular file exists.
    fn is_file(&self, path: &HostPath) -> bool {
        self.stat(path).is_ok_and(|stat| stat.kind == FileKind::File)
    }
    /// Whether a folder exists.
    fn is_dir(&self, path: &HostPath) -> bool {
        self.stat(path).is_ok_and(|stat| stat.kind == FileKind::Directory)
    }
}

/// The Windows registry; empty on other systems.
pub trait ReadRegistry: HostInfo {
    /// Reads a value. `None` if it is missing, and on other systems.
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue>;
    /// Lists the names of the direct subkeys of `key`, sorted.
    fn registry_keys(&self, key: &str) -> Vec<String>;
    /// Lists the names and values of `key`, sorted by name.
    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)>;

    /// Finds a Visual Studio tool (`cl.exe`) through the records of its installer. `None` except on a real Windows host.
    fn visual_studio_tool(&self, name: &str) -> Option<HostPath> {
        let _ = name;
        None
    }
}

/// Starts processes.
pub trait RunPrograms: HostInfo {
    /// Runs a program within the command's deadline and returns its output.
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError>;
    /// Like [`Self::run`], and also calls `on_line` for each output line as it appears. The returned output has a size limit.
    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError>;
    /// Returns the recorded output of a program without starting a process. Always `None` on the real host.
    fn recorded_output(&self, _command: &Command) -> Option<CommandOutput> {
        None
    }
}

/// Probes driver libraries, each in a child process, because they may crash or hang.
pub trait ProbeLibraries: HostInfo {
    /// Probes a vendor's library in a child process: `gpubuild __probe ID`.
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer;
    /// Like [`Self::probe`], with library paths as arguments: `gpubuild __probe ID PATH…`. A recorded host has one answer per id and
    /// ignores the paths.
    fn probe_with(&self, id: &str, arguments: &[String], deadline: Duration) -> ProbeAnswer {
        let _ = arguments;
        self.probe(id, deadline)
    }
}

/// Reads the clock.
pub trait Clock: HostInfo {
    /// Seconds since 1970. Use it only for timestamps in files and for the age of files that may be deleted.
    fn now(&self) -> u64;
    /// Time since the host was created, for measurements.
    fn elapsed(&self) -> Duration;
}

/// Changes files and folders. On a recorded host, every call fails with [`io::ErrorKind::ReadOnlyFilesystem`].
pub trait WriteFiles: ReadFiles {
    /// Writes a file atomically: writes a temporary file next to it and renames it. Creates parent folders.
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()>;
    /// Creates a new file for streaming. Creates parent folders. Unlike with [`WriteFiles::write`], the file is visible
    /// immediately. Use a name that no other process reads, and rename the file when it is complete.
    fn create(&self, _path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Opens a file for appending. Creates it if it is missing.
    fn append(&self, _path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes a file executable.
    fn set_executable(&self, path: &HostPath) -> io::Result<()>;
    /// Removes the permission to write a file, for files that only gpubuild may replace. Windows has no such permission that still
    /// allows to remove the file, so it stays writable there.
    fn set_read_only(&self, _path: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Allows the owner to write a file, such as a copy of a file that was read-only.
    fn set_writable(&self, _path: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Creates a folder and its parents.
    fn create_dir_all(&self, path: &HostPath) -> io::Result<()>;
    /// Moves a file or folder, replacing an existing file.
    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()>;
    /// Atomically exchanges two files or folders. Fails with [`io::ErrorKind::Unsupported`] if the file system cannot do it.
    fn exchange(&self, _one: &HostPath, _other: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Copies a file atomically, through a temporary file and a rename.
    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()>;
    /// Creates a hard link, or a copy if the file system does not support hard links. Creates parent folders.
    fn link(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Copies a file atomically, sharing disk blocks if the file system supports it. Unlike with [`WriteFiles::link`], later
    /// changes to one file do not affect the other. Creates parent folders. Does not flush the copy to disk.
    fn duplicate(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Flushes all files below a folder to disk at once, for files that were written with [`NewFile::close`].
    fn flush_all(&self, _folder: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Flushes a file that another program wrote to disk.
    fn flush(&self, _path: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Creates a symbolic link with the target `text`. Unix only.
    fn symlink(&self, _text: &str, _link: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Removes a file, or a folder with its contents. A missing path is not an error.
    fn remove(&self, path: &HostPath) -> io::Result<()>;
    /// Creates an empty folder with a unique name in `parent`. The caller removes or renames it.
    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath>;
    /// Acquires an exclusive lock on a file, which is created if it is missing. `Ok(None)` if another process holds the lock and
    /// `wait` is `Wait::No`. If the file is removed or replaced while waiting, the new file is locked.
    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<FileLock>>;
    /// Creates a job pool that build tools share through a named pipe. `Ok(None)` if the platform does not support it.
    fn job_pool(&self, _pipe: &HostPath, _jobs: u32) -> io::Result<Option<JobPool>> {
        Ok(None)
    }
    /// Free disk space in bytes at `path`, or at its nearest existing parent; `None` if unknown.
    fn free_space(&self, path: &HostPath) -> Option<u64>;
    /// Number of files that can still be created at `path`, or at its nearest existing parent; `None` if unknown or not limited.
    fn free_files(&self, _path: &HostPath) -> Option<u64> {
        None
    }
}

/// Sends requests to servers.
pub trait NetworkAccess: HostInfo {
    /// Sends one request. Only the real host has network access.
    fn fetch(&self, _request: &net::HttpRequest) -> Result<net::Response, net::NetError> {
        Err(net::NetError::None)
    }
    /// Sends a question to a TCP server, `host:port`, and returns what it answers until it closes the connection: at most 1 MiB, within
    /// `time`. For services with a text protocol. Only the real host has network access.
    fn converse(&self, _address: &str, _question: &str, _time: Duration) -> Result<String, net::NetError> {
        Err(net::NetError::None)
    }
    /// Sleeps between network requests. Returns immediately on recorded hosts.
    fn pause(&self, _time: Duration) {}
}

/// A machine to examine without changing it, as `detect` and `doctor` do.
pub trait InspectHost: ReadFiles + ReadRegistry + RunPrograms + ProbeLibraries + Clock {}

impl<T: ReadFiles + ReadRegistry + RunPrograms + ProbeLibraries + Clock + ?Sized> InspectHost for T {}

/// A machine to examine and change.
pub trait Host: InspectHost + WriteFiles + NetworkAccess {
    /// Sets an environment variable of this process, for libraries that can only be configured that way. Does not change
    /// [`HostInfo::env`].
    fn set_variable(&self, _name: &str, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// A file that is being written.
pub trait NewFile: io::Write + Send {
    /// Flushes the file to disk. A file that is dropped without this call is incomplete.
    fn finish(self: Box<Self>) -> io::Result<()>;
    /// Completes the file without flushing it to disk, which takes milliseconds. [`WriteFiles::flush_all`] has to follow.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// Whether to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Wait until the lock is released.
    Yes,
    /// Return immediately.
    No,
}

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// The open file that holds the lock; `None` on file systems without locks.
    pub file: Option<std::sync::Arc<std::fs::File>>,
}

/// Numbers of operations since the host was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Processes started.
    pub processes: u64,
    /// Files opened for reading.
    pub files: u64,
}
