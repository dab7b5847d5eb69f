//! Starts and ends a child together with all its descendants, as a process group.

use std::process::Command;
use std::time::Duration;

/// How long a group may take to end after it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The group that a child leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessGroup {
    leader: u32,
}

/// How a group is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// Request termination, so that it can clean up.
    Ask,
    /// Kill it immediately.
    Kill,
}

impl ProcessGroup {
    /// The group of a child that was started with [`lead`].
    pub(super) fn of(leader: u32) -> Self {
        Self { leader }
    }

    /// The leading process; its id is that of the group.
    #[cfg(unix)]
    pub(super) fn leader(self) -> u32 {
        self.leader
    }

    /// Ends every member. A group without members is not an error.
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

    /// Kills every member. Windows has no termination request that reaches programs without a window.
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

    /// Always true, because `taskkill` ended all members.
    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "the same call on every platform")]
    pub(super) fn is_gone(self) -> bool {
        true
    }
}

/// Makes the child the leader of a new group, and of a new session if it does not use the terminal: descendants keep their
/// session when their parent dies, so that the watchdog finds all of them.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library has no safe call that starts a session")]
pub(super) fn lead(command: &mut Command, uses_terminal: bool) {
    use std::os::unix::process::CommandExt;
    if uses_terminal {
        command.process_group(0);
        return;
    }
    // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(|_| ()).map_err(std::io::Error::from));
    }
}

/// Makes the child the leader of a new group.
#[cfg(windows)]
pub(super) fn lead(command: &mut Command, _uses_terminal: bool) {
    use std::os::windows::process::CommandExt;
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}
