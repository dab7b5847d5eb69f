//! A child with all its descendants: started as a group, ended as a group.

use std::process::Command;
use std::time::Duration;

/// How long a group has to end by itself after being asked to.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The group that a child leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    leader: u32,
}

/// How a group is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// It is asked to end and may clean up.
    Ask,
    /// It ends at once.
    Kill,
}

impl Group {
    /// The group of a child that was started with [`lead`].
    pub(super) fn of(leader: u32) -> Self {
        Self { leader }
    }

    /// The process that leads it; its id is the group's.
    #[cfg(unix)]
    pub(super) fn leader(self) -> u32 {
        self.leader
    }

    /// Ends every member. That none is left is fine.
    #[cfg(unix)]
    pub(super) fn end(self, force: Force) {
        use rustix::process::{Signal, kill_process_group};
        let signal = match force {
            Force::Ask => Signal::TERM,
            Force::Kill => Signal::KILL,
        };
        if let Some(group) = self.pid() {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Whether no member is left.
    #[cfg(unix)]
    pub(super) fn is_gone(self) -> bool {
        self.pid().is_none_or(|group| rustix::process::test_kill_process_group(group).is_err())
    }

    #[cfg(unix)]
    fn pid(self) -> Option<rustix::process::Pid> {
        i32::try_from(self.leader).ok().and_then(rustix::process::Pid::from_raw)
    }

    /// Ends every member. Windows has no polite way that reaches programs without a window.
    #[cfg(windows)]
    #[expect(clippy::disallowed_methods, reason = "programs are only started in this crate")]
    pub(super) fn end(self, _force: Force) {
        use std::process::Stdio;
        let leader = self.leader.to_string();
        let _ = Command::new("taskkill")
            .args(["/T", "/F", "/PID", &leader])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }

    /// Whether no member is left: `taskkill` has ended them all.
    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "the same call on every platform")]
    pub(super) fn is_gone(self) -> bool {
        true
    }
}

/// Makes the child the leader of a group of its own.
#[cfg(unix)]
pub(super) fn lead(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Makes the child the leader of a group of its own.
#[cfg(windows)]
pub(super) fn lead(command: &mut Command) {
    use std::os::windows::process::CommandExt;
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}
