//! A pool of jobs that several build tools share: the jobserver of GNU make over a named pipe, which Ninja knows from 1.13 on.
//!
//! Every tool may have one job at work by itself, and one more for each byte that it has taken from the pipe.
#![expect(clippy::disallowed_methods, reason = "this is the door: a pipe is made, filled and removed")]

use std::fs::File;
use std::io::{self, Write};

use super::HostPath;

/// The pool. The pipe disappears with it.
#[derive(Debug)]
pub struct JobPool {
    path: HostPath,
    /// Open for reading too: a pipe that nobody reads takes nothing.
    pipe: File,
}

impl JobPool {
    /// A pool of so many jobs at a path, in place of one that was left there. `None` where there are no named pipes to be
    /// had without calling into the system library.
    ///
    /// # Errors
    /// What the system said.
    #[cfg(all(unix, not(target_vendor = "apple")))]
    pub(super) fn make(path: &HostPath, jobs: u32) -> io::Result<Option<Self>> {
        use std::os::unix::fs::OpenOptionsExt;
        match std::fs::remove_file(path.as_std()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path.as_std(), mode)?;
        // A full pipe must not make us wait.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe =
            std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path.as_std())?;
        let pool = Self { path: path.clone(), pipe };
        pool.add(jobs)?;
        Ok(Some(pool))
    }

    /// None here.
    #[cfg(not(all(unix, not(target_vendor = "apple"))))]
    #[expect(clippy::unnecessary_wraps, reason = "the same call on every platform")]
    pub(super) fn make(_path: &HostPath, _jobs: u32) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Puts jobs into the pool.
    ///
    /// # Errors
    /// What the system said.
    pub fn add(&self, jobs: u32) -> io::Result<()> {
        (&self.pipe).write_all(&vec![b'+'; jobs as usize])
    }

    /// What `MAKEFLAGS` has to say to those who take part.
    #[must_use]
    pub fn make_flags(&self) -> String {
        format!(" --jobserver-auth=fifo:{}", self.path)
    }
}

impl Drop for JobPool {
    fn drop(&mut self) {
        // One that stays is replaced by the next build.
        let _ = std::fs::remove_file(self.path.as_std());
    }
}
