//! Watchdog that kills the child process group if gpubuild dies: `kill -9` leaves gpubuild no time to do it.
//!
//! A small shell reads from a pipe whose other end only gpubuild has, and holds the lock of the folder in which the child
//! works. If gpubuild dies, the shell ends the child with all its descendants and only then releases the lock. A kill
//! between the start of the child and that of the shell is not noticed.

use std::fs::File;

use super::group::ProcessGroup;

/// The watchdog of a child, from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Watchman {
    #[cfg(unix)]
    at_work: Option<std::process::Child>,
}

impl Watchman {
    /// Starts the watchdog of a group. If it cannot be started, the child runs unwatched.
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
            log::debug!("failed to start the process that ends the child if gpubuild is killed: {error}");
        }
        Self { at_work: started.ok() }
    }

    /// Starts nothing: Windows ends a console's programs together with it.
    #[cfg(not(unix))]
    pub(super) fn start(_group: ProcessGroup, _lock: &File) -> Self {
        Self::default()
    }

    /// Tells the watchdog that the child has ended.
    #[cfg(unix)]
    pub(super) fn dismiss(self) {
        if let Some(mut shell) = self.at_work {
            if let Some(mut pipe) = shell.stdin.take() {
                // The shell may have ended already.
                let _ = std::io::Write::write_all(&mut pipe, b"done\n");
            }
            let _ = shell.wait();
        }
    }

    /// Does nothing without a watchdog.
    #[cfg(not(unix))]
    pub(super) fn dismiss(self) {
        let Self {} = self;
    }
}
