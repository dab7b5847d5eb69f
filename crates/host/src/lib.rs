//! The host interface: the only module that touches environment, files, processes, clocks and libraries.
//!
//! A [`Host`] is the machine being examined: the real one ([`RealHost`]), a recording of one
//! ([`RecordedHost`], format 1) or one that a test builds in memory ([`RecordedHost::builder`]). Code that does I/O
//! takes `&dyn Host`. Platform questions go to [`HostInfo::platform`], never to `cfg!`, so that a recorded
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

pub use command::{Command, CommandOutput, OutputLine, RunError, Stream};
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

/// All of standard input. It comes from the user, whichever host is examined.
pub fn standard_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::stdin().lock(), &mut bytes)?;
    Ok(bytes)
}

/// What [`ReadFiles::stat`] reports about a file, after following links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The kind of file.
    pub kind: FileKind,
    /// Size in bytes; zero for folders and devices.
    pub size: u64,
    /// Whether this user may execute it (on Windows: by its file extension).
    pub executable: bool,
    /// The owner, if the platform has numeric owners.
    pub owner: Option<Owner>,
    /// Modification time in nanoseconds since 1970, if known. Only to detect changes.
    pub modified: Option<u128>,
    /// Time at which content or attributes last changed, in nanoseconds since 1970, if the platform reports it. Programs can set
    /// [`Stat::modified`] to any value, but not this one. Only to detect changes.
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
    /// A socket, a pipe or another special file.
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

/// Platform, environment and user of the machine.
pub trait HostInfo: Send + Sync {
    /// Operating system and processor architecture.
    fn platform(&self) -> Platform;
    /// The environment, read once.
    fn env(&self) -> &Environment;
    /// The user and groups of the process.
    fn identity(&self) -> &Identity;
    /// The path of the running program.
    fn own_program(&self) -> Option<HostPath> {
        None
    }
    /// The folder that relative paths on the command line start from.
    fn current_dir(&self) -> io::Result<HostPath>;
    /// The number of operations so far.
    fn counts(&self) -> HostCounts;
    /// A path in this host's spelling.
    fn path(&self, text: &str) -> HostPath {
        HostPath::new(self.platform().path_rules(), text)
    }
}

/// Reads files and folders.
///
/// The kind of an `io::Error` distinguishes a missing file ([`io::ErrorKind::NotFound`]) from a forbidden one
/// ([`io::ErrorKind::PermissionDenied`]).
pub trait ReadFiles: HostInfo {
    /// Kind, size, owner and times of a file. Follows links.
    fn stat(&self, path: &HostPath) -> io::Result<Stat>;
    /// The path with every link resolved.
    fn canonical(&self, path: &HostPath) -> io::Result<HostPath>;
    /// The target of a link as written; the link may dangle.
    fn read_link(&self, path: &HostPath) -> io::Result<String>;
    /// A complete file.
    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>>;
    /// The first `limit` bytes of a file, for large files.
    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>>;
    /// At most `limit` bytes of a file from offset `start`, to search large files.
    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        let mut content = self.read(path)?;
        let start = usize::try_from(start).map_or(content.len(), |start| start.min(content.len()));
        content.drain(..start);
        content.truncate(limit);
        Ok(content)
    }
    /// A file as a stream, for files that do not fit into memory.
    fn open(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        Ok(Box::new(io::Cursor::new(self.read(path)?)))
    }
    /// Names in a folder, sorted.
    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>>;
    /// Opens a device node for reading and writing and closes it again.
    fn open_device(&self, path: &HostPath) -> io::Result<()>;
    /// Whether two paths are known to be hard links of the same file.
    fn is_same_file(&self, _one: &HostPath, _other: &HostPath) -> bool {
        false
    }
    /// A complete text file; invalid UTF-8 is replaced.
    fn read_text(&self, path: &HostPath) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(path)?).into_owned())
    }
    /// Names in a folder that match a pattern in which `*` matches any text, sorted.
    fn list_matching(&self, folder: &HostPath, pattern: &str) -> io::Result<Vec<String>> {
        let mut names = self.list(folder)?;
        names.retain(|name| search::name_matches(self.platform(), pattern, name));
        Ok(names)
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
    /// A value of the Windows registry; `None` if it is absent and on other systems.
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue>;
    /// Names of the keys below `key`, sorted.
    fn registry_keys(&self, key: &str) -> Vec<String>;
    /// Names and values of `key`, sorted by name.
    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)>;

    /// A tool of Visual Studio (`cl.exe`), as registered by its installer; `None` on every host except a real Windows.
    fn visual_studio_tool(&self, name: &str) -> Option<HostPath> {
        let _ = name;
        None
    }
}

/// Starts processes.
pub trait RunPrograms: HostInfo {
    /// Runs a program within the command's deadline and returns its output.
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError>;
    /// Runs a program and passes on its lines as they appear. They are also returned, up to a limit.
    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError>;
    /// The recorded output of a program, which starts no process. `None` on the real host.
    fn recorded_output(&self, _command: &Command) -> Option<CommandOutput> {
        None
    }
}

/// Probes the libraries of drivers, each in a child process, because they may crash or hang.
pub trait ProbeLibraries: HostInfo {
    /// Probes a vendor's library in a child process: `gpubuild __probe ID`.
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer;
    /// The same with paths of libraries: `gpubuild __probe ID PATH…`. A recording has one answer for any paths.
    fn probe_with(&self, id: &str, arguments: &[String], deadline: Duration) -> ProbeAnswer {
        let _ = arguments;
        self.probe(id, deadline)
    }
}

/// Time.
pub trait Clock: HostInfo {
    /// Seconds since 1970, for labels in files and for the age of files that may be deleted; never for other decisions.
    fn now(&self) -> u64;
    /// Time since the host was created, for measurements.
    fn elapsed(&self) -> Duration;
}

/// Changes files and folders. A recorded host returns [`io::ErrorKind::ReadOnlyFilesystem`] for every call.
pub trait WriteFiles: ReadFiles {
    /// Writes a file through a temporary file beside it and a rename. Creates parent folders.
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()>;
    /// Creates a new file to which content is streamed. Creates parent folders. Unlike with [`WriteFiles::write`], the file is
    /// visible immediately, so it needs a name that no other process reads and is renamed when complete.
    fn create(&self, _path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Opens a file to append to it, and creates it if it is missing.
    fn append(&self, _path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes a file executable.
    fn set_executable(&self, path: &HostPath) -> io::Result<()>;
    /// Creates a folder and its parents.
    fn create_dir_all(&self, path: &HostPath) -> io::Result<()>;
    /// Moves a file or folder, replacing an existing file.
    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()>;
    /// Exchanges two files or folders in one step. [`io::ErrorKind::Unsupported`] if the file system cannot do it.
    fn exchange(&self, _one: &HostPath, _other: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Copies a file through a temporary name.
    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()>;
    /// Hard-links a file, or copies it if the file system has no hard links. Creates parent folders.
    fn link(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Copies a file through a temporary name, sharing the blocks if the file system supports it. Unlike with
    /// [`WriteFiles::link`], later changes of one file do not affect the other. Creates parent folders; flushes nothing.
    fn duplicate(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Flushes the content of a file that another program wrote to the disk.
    fn flush(&self, _path: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Creates a symbolic link with the target `text`. Unix only.
    fn symlink(&self, _text: &str, _link: &HostPath) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Removes a file, or a folder with its content. A missing path is not an error.
    fn remove(&self, path: &HostPath) -> io::Result<()>;
    /// Creates an empty folder with a unique name in `parent`; the caller removes or renames it.
    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath>;
    /// Locks a file for this process and creates it if it is missing. `Ok(None)` if another process holds the lock and `wait` is
    /// `Wait::No`. If the file is removed or replaced in the meantime, the new file is locked.
    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<FileLock>>;
    /// A pool of jobs that build tools share through a named pipe. `Ok(None)` if the platform does not support it.
    fn job_pool(&self, _pipe: &HostPath, _jobs: u32) -> io::Result<Option<JobPool>> {
        Ok(None)
    }
    /// Free bytes on the disk with `path` (or its nearest existing parent), if known.
    fn free_space(&self, path: &HostPath) -> Option<u64>;
}

/// Sends requests to servers.
pub trait NetworkAccess: HostInfo {
    /// Sends one request to a server. Only the real host has a network.
    fn fetch(&self, _request: &net::HttpRequest) -> Result<net::Response, net::NetError> {
        Err(net::NetError::None)
    }
    /// Sleeps. Only for the network; on other hosts, no time passes.
    fn pause(&self, _time: Duration) {}
}

/// The machine being examined, which is not changed: what `detect` and `doctor` need.
pub trait InspectHost: ReadFiles + ReadRegistry + RunPrograms + ProbeLibraries + Clock {}

impl<T: ReadFiles + ReadRegistry + RunPrograms + ProbeLibraries + Clock + ?Sized> InspectHost for T {}

/// The machine being examined and changed.
pub trait Host: InspectHost + WriteFiles + NetworkAccess {
    /// Sets a variable of this process, for libraries in it that are configured in no other way. [`HostInfo::env`] does not
    /// change.
    fn set_variable(&self, _name: &str, _value: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// A file that is being written.
pub trait NewFile: io::Write + Send {
    /// Flushes the file to the disk. A file that is dropped without this call is incomplete.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Whether to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Wait until it is free.
    Yes,
    /// Do not wait.
    No,
}

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// The open file with the lock; `None` on file systems without locks.
    pub file: Option<std::sync::Arc<std::fs::File>>,
}

/// The number of operations since the host was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Processes started.
    pub processes: u64,
    /// Files opened for reading.
    pub files: u64,
}
