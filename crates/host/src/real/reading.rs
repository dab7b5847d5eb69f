//! Reads of files on the real host. Only regular files are read: a pipe, a socket or a device can block, or never end.
#![cfg_attr(unix, expect(clippy::disallowed_methods, reason = "host interface: the only file access"))]

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};

use crate::HostPath;

/// Opens a regular file. The check examines the open file, so that a file that is replaced meanwhile does not matter.
pub(super) fn open_regular(path: &HostPath) -> io::Result<File> {
    open_checked(path).map(|(file, _)| file)
}

/// As [`open_regular`], but accepts a folder, which is flushed after a rename in it.
pub(super) fn open_regular_or_folder(path: &HostPath) -> io::Result<File> {
    let file = open_now(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() || metadata.is_dir() { Ok(file) } else { Err(not_regular(&metadata)) }
}

fn open_checked(path: &HostPath) -> io::Result<(File, u64)> {
    let file = open_now(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(not_regular(&metadata)) }
}

/// Opens a file of any kind without waiting: opening a named pipe normally blocks until a process writes to it.
fn open_now(path: &HostPath) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options
            .custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed());
        let opened = options.open(path.as_std());
        let no_peer = Some(rustix::io::Errno::NXIO.raw_os_error());
        opened.map_err(|error| {
            if error.raw_os_error() == no_peer {
                io::Error::new(io::ErrorKind::InvalidInput, "it is a socket, not a regular file")
            } else {
                error
            }
        })
    }
    #[cfg(not(unix))]
    options.open(path.as_std())
}

#[cfg(unix)]
fn not_regular(metadata: &Metadata) -> io::Error {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return rustix::io::Errno::ISDIR.into();
    }
    let name = if kind.is_fifo() { "pipe" } else { "device" };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is a {name}, not a regular file"))
}

#[cfg(not(unix))]
fn not_regular(_metadata: &Metadata) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open_checked(path)?;
    read_open(file, size, limit)
}

fn read_open(file: File, size: u64, limit: u64) -> io::Result<Vec<u8>> {
    if size > limit {
        return Err(too_large(limit));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // A file can grow while it is read, and files in procfs report size zero.
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large(limit)) } else { Ok(content) }
}

pub(crate) fn too_large(limit: u64) -> io::Error {
    let limit =
        if limit.is_multiple_of(1 << 20) { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit}"))
}

pub(super) fn read_part(path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
    /// Initial buffer size in bytes for files in procfs and sysfs, which report size zero. Without a buffer they would be read in tiny
    /// pieces.
    const BUFFER: usize = 68 << 10;
    let (mut file, size) = open_checked(path)?;
    if start > 0 {
        file.seek(SeekFrom::Start(start))?;
    }
    let left = usize::try_from(size.saturating_sub(start)).unwrap_or(usize::MAX);
    let mut content = Vec::with_capacity(limit.min(if size == 0 { BUFFER } else { left }));
    file.take(limit as u64).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a file that the user named. A pipe is accepted only if it is one of this process's own descriptors, as in
/// `--host <(command)`.
#[cfg(unix)]
fn open_named(path: &HostPath) -> io::Result<(File, std::fs::Metadata)> {
    use std::os::unix::fs::FileTypeExt;
    let file = open_now(path)?;
    let metadata = file.metadata()?;
    let is_own =
        ["/dev/fd/", "/dev/stdin", "/proc/self/fd/"].iter().any(|own| path.as_str().starts_with(own));
    if metadata.is_file() || is_own && metadata.file_type().is_fifo() {
        Ok((file, metadata))
    } else {
        Err(not_regular(&metadata))
    }
}

/// Reads a file that the user named, see [`open_named`].
#[cfg(unix)]
pub(super) fn read_input(path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_named(path)?;
    if metadata.is_file() {
        read_open(file, metadata.len(), limit)
    } else {
        pipe::read(&file, limit, pipe::DEADLINE)
    }
}

/// Opens a file that the user named as a stream, see [`open_named`]. Reading a pipe waits for its writer.
#[cfg(unix)]
pub(super) fn open_input(path: &HostPath) -> io::Result<File> {
    let (file, _) = open_named(path)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(not(unix))]
pub(super) fn open_input(path: &HostPath) -> io::Result<File> {
    open_regular(path)
}

#[cfg(not(unix))]
pub(super) fn read_input(path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
    read(path, limit)
}

/// Reads standard input to its end. Only a terminal has no deadline.
#[cfg(unix)]
pub(crate) fn read_standard_input(limit: u64) -> io::Result<Vec<u8>> {
    use std::io::IsTerminal;
    use std::os::fd::AsFd;
    let input = io::stdin().lock();
    if input.is_terminal() {
        let mut content = Vec::new();
        input.take(limit + 1).read_to_end(&mut content)?;
        return if content.len() as u64 > limit { Err(too_large(limit)) } else { Ok(content) };
    }
    pipe::read(input.as_fd(), limit, pipe::DEADLINE)
}

#[cfg(not(unix))]
pub(crate) fn read_standard_input(limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    io::stdin().lock().take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large(limit)) } else { Ok(content) }
}

/// Pipes, whose writer may never write and never end.
#[cfg(unix)]
pub(super) mod pipe {
    use std::io;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    /// Time in which the writer of a pipe has to close it.
    pub(in crate::real) const DEADLINE: Duration = Duration::from_secs(60);

    pub(in crate::real) fn read(pipe: impl AsFd, limit: u64, deadline: Duration) -> io::Result<Vec<u8>> {
        let end = Instant::now() + deadline;
        let mut content = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = format!("its writer did not close it within {} s", deadline.as_secs_f32());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            let time = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&time)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match rustix::io::read(&pipe, &mut buffer) {
                Ok(0) => return Ok(content),
                Ok(count) if (content.len() + count) as u64 > limit => return Err(super::too_large(limit)),
                Ok(count) => content.extend_from_slice(&buffer[..count]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
