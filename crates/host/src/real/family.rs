//! Kills a child with all its descendants, also those in groups of their own: build tools start each compiler in a new group.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How often the processes are listed until they have ended. A process that survives SIGKILL, because the kernel waits for a device, is
/// left after that.
const ROUNDS: u32 = 200;
/// The time between two lists.
const PAUSE: Duration = Duration::from_millis(5);

/// A running process. The numbers are those of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunningProcess {
    pub(super) id: u32,
    parent: u32,
    group: u32,
    /// Unknown on systems without `/proc`.
    session: Option<u32>,
}

/// Kills the process group of a child, its session, and all descendants of their members. Waits until they have ended.
pub(super) fn kill(leader: u32) {
    let Some(group) = pid(leader) else { return };
    // A stopped process starts no others while the list is read.
    if kill_process_group(group, Signal::STOP).is_err()
        && processes().iter().all(|one| one.session != Some(leader))
    {
        return;
    }
    let mut family = BTreeSet::new();
    for _ in 0..ROUNDS {
        let running = processes();
        add_members(&mut family, &running, leader);
        let mut left =
            running.iter().filter(|one| family.contains(&one.id)).filter_map(|one| pid(one.id)).peekable();
        if left.peek().is_none() {
            return;
        }
        for process in left {
            let _ = kill_process(process, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// Adds the members of the group and the session of `leader`, and all their descendants.
fn add_members(family: &mut BTreeSet<u32>, running: &[RunningProcess], leader: u32) {
    let is_member = |one: &&RunningProcess| one.group == leader || one.session == Some(leader);
    family.extend(running.iter().filter(is_member).map(|one| one.id));
    loop {
        let is_child = |one: &&RunningProcess| family.contains(&one.parent) && !family.contains(&one.id);
        let children: Vec<u32> = running.iter().filter(is_child).map(|one| one.id).collect();
        if children.is_empty() {
            return;
        }
        family.extend(children);
    }
}

/// The running processes, without those that have ended and whose parent has not noticed it yet.
pub(super) fn processes() -> Vec<RunningProcess> {
    of_proc().unwrap_or_else(of_ps)
}

/// The processes in `/proc`; `None` on systems without it.
#[expect(clippy::disallowed_methods, reason = "host interface")]
fn of_proc() -> Option<Vec<RunningProcess>> {
    std::fs::metadata("/proc/self/stat").ok()?;
    let entries = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers =
        entries.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|c| c.is_ascii_digit()));
    let stat = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("stat")).ok();
    Some(numbers.filter_map(stat).filter_map(|text| parse_stat(&String::from_utf8_lossy(&text))).collect())
}

/// Parses `/proc/N/stat`. `None` for a process that has ended.
fn parse_stat(text: &str) -> Option<RunningProcess> {
    // The name of the program may contain spaces and parentheses.
    let (start, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number());
    Some(RunningProcess { id: start.split(' ').next()?.parse().ok()?, parent, group, session })
}

/// The processes that `ps` lists, which does not show the session on every system.
#[expect(clippy::disallowed_methods, reason = "programs are only started in this crate")]
fn of_ps() -> Vec<RunningProcess> {
    let mut ps = std::process::Command::new("ps");
    let output = ps.args(["-A", "-o", "pid=", "-o", "ppid=", "-o", "pgid=", "-o", "stat="]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_ps).collect()
}

fn parse_ps(line: &str) -> Option<RunningProcess> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, parent, group, state] = fields[..] else { return None };
    if state.starts_with('Z') {
        return None;
    }
    let number = |text: &str| text.parse().ok();
    Some(RunningProcess { id: number(id)?, parent: number(parent)?, group: number(group)?, session: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processes_are_parsed() {
        let sleep = RunningProcess { id: 7, parent: 1, group: 6, session: Some(5) };
        assert_eq!(parse_stat("7 (a) S (b c) S 1 6 5 0 -1 4194560"), Some(sleep));
        assert_eq!(parse_stat("7 (cc1) Z 1 6 5"), None);
        assert_eq!(parse_stat("7"), None);
        assert_eq!(parse_ps("  7   1   6 Ss+"), Some(RunningProcess { session: None, ..sleep }));
        assert_eq!(parse_ps("7 1 6 Z"), None);
    }

    #[test]
    fn a_family_is_the_group_the_session_and_their_descendants() {
        let process =
            |id, parent, group, session| RunningProcess { id, parent, group, session: Some(session) };
        let running = [
            process(10, 1, 10, 10),  // the leader
            process(11, 10, 11, 10), // a compiler in its own group
            process(12, 1, 12, 10),  // a compiler whose parent has ended
            process(14, 13, 14, 14), // a descendant with its own session
            process(13, 11, 13, 13),
            process(20, 1, 20, 20),
        ];
        let mut family = BTreeSet::new();
        add_members(&mut family, &running, 10);
        assert_eq!(family, BTreeSet::from([10, 11, 12, 13, 14]));
    }
}
