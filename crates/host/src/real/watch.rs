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
    at_work: Option<(duct::Handle, std::io::PipeWriter)>,
}

impl Watchman {
    /// Starts watching over a group. Where nobody can be started the child is as good, only not watched.
    #[cfg(unix)]
    pub(super) fn start(group: Group, lock: &File) -> Self {
        let start = || {
            let (ours, word) = std::io::pipe()?;
            let leader = group.leader().to_string();
            let handle = duct::cmd("/bin/sh", ["-c", include_str!("watch.sh"), "gpubuild-watch", &leader])
                .stdin_file(ours)
                .stdout_file(lock.try_clone()?)
                .stderr_null()
                .unchecked()
                .before_spawn(super::group::lead)
                .start()?;
            Ok((handle, word))
        };
        let started: std::io::Result<_> = start();
        if let Err(error) = &started {
            tracing::debug!(%error, "nobody watches over the child");
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
        if let Some((handle, mut word)) = self.at_work {
            // Somebody who is gone needs no word.
            let _ = std::io::Write::write_all(&mut word, b"done\n");
            drop(word);
            let _ = handle.wait();
        }
    }

    /// Nobody is there.
    #[cfg(not(unix))]
    pub(super) fn dismiss(self) {
        let Self {} = self;
    }
}
