//! Starts a child as the leader of a process group, and terminates it together with all its descendants.

use std::process::Command;
use std::time::Duration;

/// Time between the termination request and the kill of a group.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The process group of a child.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessGroup {
    leader: u32,
}

/// How a group is terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// SIGTERM, so that the processes can clean up.
    Terminate,
    /// SIGKILL.
    Kill,
}

impl ProcessGroup {
    /// The group of a child that was started with [`lead`]. `leader` is the child's process id.
    pub(super) fn of(leader: u32) -> Self {
        Self { leader }
    }

    /// The process id of the leader, which is also the group id.
    #[cfg(unix)]
    pub(super) fn leader(self) -> u32 {
        self.leader
    }

    /// Terminates all members. Does nothing if no member is left.
    #[cfg(unix)]
    pub(super) fn end(self, force: Force) {
        use rustix::process::{Signal, kill_process_group};
        let signal = match force {
            Force::Terminate => Signal::TERM,
            Force::Kill => Signal::KILL,
        };
        if let Some(group) = self.pid() {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills all members and all their descendants, and waits until they have ended.
    #[cfg(unix)]
    pub(super) fn kill_family(self) {
        super::family::kill(self.leader);
    }

    /// Whether all members have ended.
    #[cfg(unix)]
    pub(super) fn is_gone(self) -> bool {
        self.pid().is_none_or(|group| rustix::process::test_kill_process_group(group).is_err())
    }

    #[cfg(unix)]
    fn pid(self) -> Option<rustix::process::Pid> {
        i32::try_from(self.leader).ok().and_then(rustix::process::Pid::from_raw)
    }

    /// Kills all members. Windows has no termination request for programs without a window.
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

    /// Kills all members and all their descendants.
    #[cfg(windows)]
    pub(super) fn kill_family(self) {
        self.end(Force::Kill);
    }

    /// Always true, because `taskkill` has already ended all members.
    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "the same call on every platform")]
    pub(super) fn is_gone(self) -> bool {
        true
    }
}

/// Makes the child the leader of a new group, and of a new session unless it uses the terminal. The watchdog finds descendants by
/// session, because they keep it when their parent dies.
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
