//! Somebody who ends our children when we are killed: `kill -9` leaves no moment to do it ourselves.
//!
//! A small shell waits at a pipe of which only we have the other end, and holds the lock of the folder that the child
//! works in. Without us it ends the child with all that the child has started, and only then the lock is free. Between the
//! start of the child and that of the shell lies a moment in which a kill is not noticed.

use std::fs::File;

use super::group::Group;

/// Watches over a child from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Watchman {
    #[cfg(unix)]
    at_work: Option<std::process::Child>,
}

impl Watchman {
    /// Starts watching over a group. Where nobody can be started the child is as good, only not watched.
    #[cfg(unix)]
    #[expect(clippy::disallowed_methods, reason = "programs are only started in this crate")]
    pub(super) fn start(group: Group, lock: &File) -> Self {
        use std::process::{Command, Stdio};
        let start = || {
            let leader = group.leader().to_string();
            let mut shell = Command::new("/bin/sh");
            super::group::lead(&mut shell);
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

    /// Windows ends a console's programs with it; nothing is watched there.
    #[cfg(not(unix))]
    pub(super) fn start(_group: Group, _lock: &File) -> Self {
        Self::default()
    }

    /// Says that the child has ended, or that we have ended it.
    #[cfg(unix)]
    pub(super) fn dismiss(self) {
        if let Some(mut shell) = self.at_work {
            if let Some(mut pipe) = shell.stdin.take() {
                // It may have ended already.
                let _ = std::io::Write::write_all(&mut pipe, b"done\n");
            }
            let _ = shell.wait();
        }
    }

    /// Nobody is there.
    #[cfg(not(unix))]
    pub(super) fn dismiss(self) {
        let Self {} = self;
    }
}
