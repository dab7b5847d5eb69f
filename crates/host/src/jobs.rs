//! A job pool that several build tools share: GNU make's jobserver protocol over a named pipe, which Ninja supports since 1.13.
//!
//! Each tool may always run one job, plus one for every byte that it has read from the pipe.
#![expect(clippy::disallowed_methods, reason = "host interface: creates, fills and removes a pipe")]

use std::fs::File;
use std::io::{self, Write};

use super::HostPath;

/// A job pool. Dropping it removes the pipe.
#[derive(Debug)]
pub struct JobPool {
    path: HostPath,
    /// Also open for reading, because writing to a pipe without a reader fails.
    pipe: File,
}

impl JobPool {
    /// Creates a pool of `jobs` jobs at a path, replacing a leftover pipe. `None` on platforms where creating a named pipe
    /// needs a call into the C library.
    ///
    /// # Errors
    /// The pipe cannot be created.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    pub(super) fn make(path: &HostPath, jobs: u32) -> io::Result<Option<Self>> {
        use std::os::unix::fs::OpenOptionsExt;
        match std::fs::remove_file(path.as_std()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path.as_std(), mode)?;
        // Writing to a full pipe must not block.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe =
            std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path.as_std())?;
        let pool = Self { path: path.clone(), pipe };
        pool.add(jobs)?;
        Ok(Some(pool))
    }

    /// Always `None` on this platform.
    #[cfg(not(all(unix, not(target_vendor = "apple"))))]
    #[expect(clippy::unnecessary_wraps, reason = "the same call on every platform")]
    pub(super) fn make(_path: &HostPath, _jobs: u32) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Adds jobs to the pool.
    ///
    /// # Errors
    /// Writing to the pipe fails.
    pub fn add(&self, jobs: u32) -> io::Result<()> {
        (&self.pipe).write_all(&vec![b'+'; jobs as usize])
    }

    /// The value of `MAKEFLAGS` for tools that use the pool.
    #[must_use]
    pub fn make_flags(&self) -> String {
        format!(" --jobserver-auth=fifo:{}", self.path)
    }
}

impl Drop for JobPool {
    fn drop(&mut self) {
        // Ignore failures: the next build replaces a leftover pipe.
        let _ = std::fs::remove_file(self.path.as_std());
    }
}
