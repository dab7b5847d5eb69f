//! Watchdog that kills the child's process group if gpubuild dies, for example after `kill -9`.
//!
//! A small shell script reads from a pipe whose other end only gpubuild holds. It also holds the lock file of the folder in
//! which the child works. If gpubuild dies, the script ends the child and all its descendants, and only then releases the lock.
//! If gpubuild is killed after the start of the child but before the start of the script, the child keeps running.

use std::fs::File;

use super::group::ProcessGroup;

/// A running watchdog.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    #[cfg(unix)]
    shell: Option<std::process::Child>,
}

impl Watchdog {
    /// Starts a watchdog for a group. If that fails, the child runs without one.
    #[cfg(unix)]
    #[expect(clippy::disallowed_methods, reason = "programs are only started in this crate")]
    pub(super) fn start(group: ProcessGroup, lock: &File) -> Self {
        use std::process::{Command, Stdio};
        let start = || {
            let leader = group.leader().to_string();
            let mut shell = Command::new("/bin/sh");
            super::group::lead(&mut shell, true);
            shell
                .args(["-c", include_str!("watch.sh"), "gpubuild-watch", &leader])
                .stdin(Stdio::piped())
                .stdout(lock.try_clone()?)
                .stderr(Stdio::null())
                .spawn()
        };
        let started: std::io::Result<_> = start();
        if let Err(error) = &started {
            log::debug!("failed to start the watchdog: {error}");
        }
        Self { shell: started.ok() }
    }

    /// Does nothing: Windows ends the programs of a console together with it.
    #[cfg(not(unix))]
    pub(super) fn start(_group: ProcessGroup, _lock: &File) -> Self {
        Self::default()
    }

    /// Stops the watchdog after the child has ended.
    #[cfg(unix)]
    pub(super) fn stop(self) {
        if let Some(mut shell) = self.shell {
            if let Some(mut pipe) = shell.stdin.take() {
                // Ignore errors: the shell may already have exited.
                let _ = std::io::Write::write_all(&mut pipe, b"done\n");
            }
            let _ = shell.wait();
        }
    }

    /// Does nothing: this platform has no watchdog.
    #[cfg(not(unix))]
    pub(super) fn stop(self) {
        let Self {} = self;
    }
}
