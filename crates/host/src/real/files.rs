//! File system access on the real host.
#![expect(clippy::disallowed_methods, reason = "host interface: the only file access")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gpubuild_core::order::SortIndirect as _;

use super::super::interrupt::Interrupt;
use super::reading::open_regular;
use super::stat::{is_block_device, is_device};
use super::temporary::{self, Temporary};
use crate::leftovers;
use crate::path::NotUtf8Path;
use crate::{FileLock, HostPath, NewFile, PathRules, Wait};

/// Adds action and path to errors of write operations, because users see these errors unchanged.
pub(super) fn with_path<'a>(action: &'a str, path: &'a HostPath) -> impl Fn(io::Error) -> io::Error + 'a {
    move |error| io::Error::new(error.kind(), format!("failed to {action} `{path}`: {error}"))
}

/// Converts a path from the standard library. Fails if it is not UTF-8.
pub(super) fn host_path(rules: PathRules, path: &Path) -> io::Result<HostPath> {
    let text = path.to_str().ok_or_else(|| NotUtf8Path::of(path))?;
    // On Windows, `canonicalize` adds this prefix, which programs such as CMake do not accept.
    let text = match text.strip_prefix(r"\\?\") {
        Some(rest) if rules == PathRules::Windows && !rest.starts_with("UNC") => rest,
        _ => text,
    };
    Ok(HostPath::new(rules, text))
}

pub(super) fn list(folder: &HostPath) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.as_std())? {
        // Names that are not UTF-8 are skipped (docs/guide/first-steps.md).
        names.extend(entry?.file_name().into_string());
    }
    names.sort_indirect();
    Ok(names)
}

/// Whether [`list`] skips a name in a folder.
pub(super) fn has_unlisted(folder: &HostPath) -> io::Result<bool> {
    for entry in fs::read_dir(folder.as_std())? {
        if entry?.file_name().to_str().is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn canonical(path: &HostPath) -> io::Result<HostPath> {
    host_path(path.rules(), &fs::canonicalize(path.as_std())?)
}

pub(super) fn read_link(path: &HostPath) -> io::Result<String> {
    let target = fs::read_link(path.as_std())?;
    target.into_os_string().into_string().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

pub(super) fn open_device(path: &HostPath) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Some devices block until their peer opens them.
        options
            .custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed());
    }
    options.open(path.as_std()).map(drop)
}

/// Creates the folder of a file if it is missing, and returns it.
fn create_parent(path: &HostPath) -> io::Result<PathBuf> {
    let parent = path.as_std().parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    create_folders(&parent)?;
    Ok(parent)
}

/// Creates a folder with its parents. An error names what is in the place of one of them.
fn create_folders(folder: &Path) -> io::Result<()> {
    let _running = leftovers::hold();
    fs::create_dir_all(folder).map_err(|error| {
        let existing = folder.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
        match existing.filter(|path| !path.is_dir()) {
            Some(path) => {
                io::Error::new(io::ErrorKind::NotADirectory, format!("`{}` is not a folder", path.display()))
            }
            None => error,
        }
    })
}

/// Creates a temporary file in the folder of `path`.
fn temporary_next_to(path: &HostPath) -> io::Result<Temporary> {
    Temporary::file_in(&create_parent(path)?)
}

/// Whether a path is a device, or a link of the system to an open file such as `/dev/stdout`. A shell writes to these; they must not
/// be replaced by a file, which root could do.
pub(super) fn is_device_or_open_file(path: &HostPath) -> bool {
    let is_of_system = || ["/dev/", "/proc/"].iter().any(|folder| path.as_str().starts_with(folder));
    fs::symlink_metadata(path.as_std())
        .is_ok_and(|metadata| is_device(&metadata) || (metadata.is_symlink() && is_of_system()))
}

pub(super) fn write(path: &HostPath, content: &[u8]) -> io::Result<()> {
    let publish = || {
        if is_device_or_open_file(path) {
            if fs::metadata(path.as_std()).is_ok_and(|metadata| is_block_device(&metadata)) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a disk"));
            }
            return OpenOptions::new().write(true).open(path.as_std())?.write_all(content);
        }
        let mut file = temporary_next_to(path)?;
        file.file().write_all(content)?;
        file.file().sync_all()?;
        file.rename(path.as_std())
    };
    publish().map_err(with_path("write", path))
}

/// A file that is being written. Buffered, because callers write in small pieces.
struct PartialWrite(BufWriter<File>);

impl Write for PartialWrite {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl NewFile for PartialWrite {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.into_inner().map_err(IntoInnerError::into_error)?.sync_all()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.0.into_inner().map(drop).map_err(IntoInnerError::into_error)
    }
}

pub(super) fn create(path: &HostPath) -> io::Result<Box<dyn NewFile>> {
    let make = || {
        create_parent(path)?;
        File::create_new(path.as_std())
    };
    Ok(Box::new(PartialWrite(BufWriter::with_capacity(
        128 << 10,
        make().map_err(with_path("create", path))?,
    ))))
}

pub(super) fn append(path: &HostPath) -> io::Result<Box<dyn NewFile>> {
    let make = || {
        create_parent(path)?;
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // Opening a named pipe would wait for a reader.
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        }
        let file = options.open(path.as_std())?;
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    };
    Ok(Box::new(PartialWrite(BufWriter::with_capacity(128 << 10, make().map_err(with_path("open", path))?))))
}

/// Flushes the file system that contains the folder: one call for any number of files.
#[cfg(target_os = "linux")]
pub(super) fn flush_all(folder: &HostPath) -> io::Result<()> {
    let flush = || rustix::fs::syncfs(File::open(folder.as_std())?).map_err(io::Error::from);
    flush().map_err(with_path("flush", folder))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn flush_all(folder: &HostPath) -> io::Result<()> {
    for entry in fs::read_dir(folder.as_std())? {
        let entry = entry?;
        let (path, kind) = (host_path(folder.rules(), &entry.path())?, entry.file_type()?);
        if kind.is_dir() {
            flush_all(&path)?;
        } else if kind.is_file() {
            flush(&path)?;
        }
    }
    Ok(())
}

/// Opens the file for writing on Windows, where only files that are open for writing can be flushed.
pub(super) fn flush(path: &HostPath) -> io::Result<()> {
    let open = || {
        if cfg!(windows) {
            OpenOptions::new().read(true).write(true).open(path.as_std())
        } else {
            super::reading::open_regular_or_folder(path)
        }
    };
    open().and_then(|file| file.sync_all()).map_err(with_path("flush", path))
}

/// Copies content and permissions of a regular file into an existing one. `io::copy` shares blocks on Linux if the file system
/// supports it.
#[cfg(not(target_os = "macos"))]
fn copy_content(from: &HostPath, to: &Path) -> io::Result<()> {
    let mut source = open_regular(from)?;
    let permissions = source.metadata()?.permissions();
    let mut target = OpenOptions::new().write(true).create(true).truncate(true).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(permissions)
}

/// Copies content and permissions of a regular file. On macOS only `fs::copy` shares blocks.
#[cfg(target_os = "macos")]
fn copy_content(from: &HostPath, to: &Path) -> io::Result<()> {
    open_regular(from)?;
    fs::copy(from.as_std(), to).map(drop)
}

pub(super) fn copy(from: &HostPath, to: &HostPath) -> io::Result<()> {
    let publish = || {
        let mut file = temporary_next_to(to)?;
        copy_content(from, file.path())?;
        file.file().sync_all()?;
        file.rename(to.as_std())
    };
    publish().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("failed to copy `{from}` to `{to}`: {error}"))
    })
}

/// Does not flush copies: one installation consists of thousands of files and is verified at its end.
pub(super) fn link(from: &HostPath, to: &HostPath) -> io::Result<()> {
    let make = || {
        create_parent(to)?;
        match fs::hard_link(from.as_std(), to.as_std()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => copy_content(from, to.as_std()),
            Ok(()) => Ok(()),
        }
    };
    make().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("failed to link `{from}` to `{to}`: {error}"))
    })
}

/// Does not flush the copy, because callers verify its hash.
pub(super) fn duplicate(from: &HostPath, to: &HostPath) -> io::Result<()> {
    let make = || {
        let file = temporary_next_to(to)?;
        copy_content(from, file.path())?;
        file.rename(to.as_std())
    };
    make().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("failed to copy `{from}` to `{to}`: {error}"))
    })
}

#[cfg(unix)]
pub(super) fn is_same_file(one: &HostPath, other: &HostPath) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &HostPath| fs::metadata(path.as_std()).map(|file| (file.dev(), file.ino())).ok();
    of(one).is_some_and(|one| of(other) == Some(one))
}

#[cfg(not(unix))]
pub(super) fn is_same_file(_one: &HostPath, _other: &HostPath) -> bool {
    false
}

#[cfg(unix)]
pub(super) fn symlink(text: &str, link: &HostPath) -> io::Result<()> {
    let make = || {
        create_parent(link)?;
        std::os::unix::fs::symlink(text, link.as_std())
    };
    make().map_err(with_path("create the link", link))
}

#[cfg(not(unix))]
pub(super) fn symlink(_text: &str, link: &HostPath) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into()).map_err(with_path("create the link", link))
}

pub(super) fn create_dir_all(path: &HostPath) -> io::Result<()> {
    create_folders(path.as_std()).map_err(with_path("create the folder", path))
}

pub(super) fn rename(from: &HostPath, to: &HostPath) -> io::Result<()> {
    let _running = leftovers::hold();
    let mut attempts = 0;
    loop {
        match fs::rename(from.as_std(), to.as_std()) {
            // On Windows, a virus scanner can keep new files open for a moment.
            Err(error)
                if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied && attempts < 20 =>
            {
                attempts += 1;
                thread::sleep(Duration::from_millis(50));
            }
            result => {
                return result.map_err(|error| {
                    io::Error::new(error.kind(), format!("failed to rename `{from}` to `{to}`: {error}"))
                });
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn exchange(one: &HostPath, other: &HostPath) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let kind = |error: Errno| match error {
        // Network file systems and sandboxed kernels may not support this call.
        Errno::INVAL | Errno::NOSYS | Errno::NOTSUP => io::ErrorKind::Unsupported.into(),
        other => io::Error::from(other),
    };
    let _running = leftovers::hold();
    renameat_with(CWD, one.as_std(), CWD, other.as_std(), RenameFlags::EXCHANGE).map_err(kind)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn exchange(_one: &HostPath, _other: &HostPath) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn remove(path: &HostPath) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path.as_std()) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path.as_std()),
        Ok(_) => fs::remove_file(path.as_std()),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(with_path("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(super) fn temporary_dir(parent: &HostPath) -> io::Result<HostPath> {
    let make = || {
        create_folders(parent.as_std())?;
        host_path(parent.rules(), &temporary::folder_in(parent.as_std())?)
    };
    make().map_err(with_path("create a folder in", parent))
}

/// Polls, so that Ctrl-C can interrupt the wait. After acquiring the lock, checks that `path` still refers to the locked file:
/// another process may have removed or replaced it, and a lock on a deleted file excludes no other process.
pub(super) fn lock(path: &HostPath, wait: Wait, interrupt: &Interrupt) -> io::Result<Option<FileLock>> {
    loop {
        let file = open_lock(path)?;
        let held = match acquire(&file, wait, interrupt)? {
            Held::No => return Ok(None),
            // Some network file systems do not support locks. Build without a lock there instead of failing.
            Held::Unsupported => return Ok(Some(FileLock { file: None })),
            Held::Yes => file,
        };
        if is_at(path, &held) {
            return Ok(Some(FileLock { file: Some(Arc::new(held)) }));
        }
    }
}

/// Opens a lock file, creating it and its folder. Fails if the path is a symbolic link.
fn open_lock(path: &HostPath) -> io::Result<File> {
    /// Number of retries if another process removes the folder before the file is opened.
    const ATTEMPTS: u32 = 20;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    let mut attempts = 0;
    loop {
        let opened = create_parent(path).and_then(|_| options.open(path.as_std()));
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS => attempts += 1,
            result => return result.map_err(with_path("open the lock", path)),
        }
    }
}

/// Result of [`acquire`].
enum Held {
    Yes,
    No,
    Unsupported,
}

fn acquire(file: &File, wait: Wait, interrupt: &Interrupt) -> io::Result<Held> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Held::Yes),
            Err(TryLockError::WouldBlock) if wait == Wait::No => return Ok(Held::No),
            Err(TryLockError::WouldBlock) if interrupt.requested() => {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(50)),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(_)) => return Ok(Held::Unsupported),
        }
    }
}

/// Whether `path` still refers to an open file.
#[cfg(unix)]
fn is_at(path: &HostPath, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let current = fs::symlink_metadata(path.as_std()).map(id).ok();
    current.is_some() && current == file.metadata().map(id).ok()
}

/// Always true: Windows does not allow an open file to be replaced, and gpubuild does not remove lock files there.
#[cfg(not(unix))]
fn is_at(_path: &HostPath, _file: &File) -> bool {
    true
}

/// Free space for this user at `path` or its nearest existing parent.
#[cfg(unix)]
pub(super) fn free_space(path: &HostPath) -> Option<u64> {
    let disk = disk(path)?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(unix)]
fn disk(path: &HostPath) -> Option<rustix::fs::StatVfs> {
    path.as_std().ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        rustix::fs::statvfs(folder).ok()
    })
}

/// Number of files that this user can still create at `path` or its nearest existing parent. `None` if the file system has no fixed
/// number of inodes.
#[cfg(unix)]
pub(super) fn free_files(path: &HostPath) -> Option<u64> {
    let disk = disk(path)?;
    (disk.f_files > 0).then_some(disk.f_favail)
}

/// Windows file systems have no fixed number of files.
#[cfg(not(unix))]
pub(super) fn free_files(_path: &HostPath) -> Option<u64> {
    None
}

/// Unknown: determining it needs the Windows API.
#[cfg(not(unix))]
pub(super) fn free_space(_path: &HostPath) -> Option<u64> {
    None
}
