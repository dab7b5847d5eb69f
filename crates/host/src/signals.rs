//! Handles Ctrl-C and termination signals.

use std::io;
use std::sync::Arc;

use crate::RealHost;
use crate::interrupt::Interrupt;
use crate::leftovers;

/// Installs a handler for Ctrl-C, SIGTERM, SIGQUIT and SIGHUP that terminates every child of `host`. Call it once at startup.
///
/// The first signal terminates the children and makes [`RunPrograms::run`](crate::RunPrograms::run) return
/// [`RunError::Interrupted`](crate::RunError::Interrupted). A second signal kills them with all their descendants. After that, or if no
/// child is running, it exits at once with the code 128 + N, where N is the number of the first signal.
///
/// # Errors
/// The system refuses the handler or its thread.
pub fn listen(host: &RealHost) -> io::Result<()> {
    let interrupt = host.interrupt_handle();
    start(move |signal| handle(&interrupt, signal))
}

fn handle(interrupt: &Arc<Interrupt>, signal: u8) {
    let is_waiting = interrupt.trigger(signal);
    if !is_waiting || interrupt.requests() > 1 {
        leftovers::remove_all();
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "no child is running, or the user insists; state on disk is safe at any point"
        )]
        std::process::exit(128 + i32::from(interrupt.signal().unwrap_or(signal)));
    }
}

/// Installs a handler for a server, which runs until it is asked to end: a signal kills every child of `host` and exits with 0. Call it
/// once at startup.
///
/// # Errors
/// The system refuses the handler or its thread.
pub fn end_on_signal(host: &RealHost) -> io::Result<()> {
    let interrupt = host.interrupt_handle();
    start(move |signal| {
        // The second request kills them.
        interrupt.trigger(signal);
        interrupt.trigger(signal);
        leftovers::remove_all();
        #[expect(clippy::exit, clippy::disallowed_methods, reason = "this is the regular end of a server")]
        std::process::exit(0);
    })
}

/// Makes the exit statuses of child processes available if the process was started with SIGCHLD ignored, as by `trap '' CHLD` or by
/// supervisors that wait for no child. The kernel would discard the statuses, so every program would seem to fail. Call it before
/// the first program is started; the programs themselves get the default action.
///
/// # Errors
/// The system refuses the handler.
#[cfg(unix)]
pub fn keep_exit_statuses() -> io::Result<()> {
    use signal_hook::consts::SIGCHLD;

    if is_ignored(SIGCHLD) {
        // Any handler ends the ignoring. The flag is not read.
        signal_hook::flag::register(SIGCHLD, Arc::default())?;
    }
    Ok(())
}

/// Windows keeps the exit code of every child process.
///
/// # Errors
/// None on Windows.
#[cfg(windows)]
pub fn keep_exit_statuses() -> io::Result<()> {
    Ok(())
}

/// Makes a write beyond the limit of the size of files (`ulimit -f`) fail with an error instead of ending the process. Programs that
/// are started get the default action of the signal, because it is handled and not ignored.
///
/// # Errors
/// The system refuses the handler.
#[cfg(unix)]
pub fn keep_write_errors() -> io::Result<()> {
    // The flag is not read.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).map(drop)
}

/// Windows has no such signal.
///
/// # Errors
/// None on Windows.
#[cfg(windows)]
pub fn keep_write_errors() -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn start(handle: impl Fn(u8) + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut listed = vec![SIGINT, SIGTERM, SIGQUIT];
    if !is_ignored(SIGHUP) {
        listed.push(SIGHUP);
    }
    let mut signals = Signals::new(listed)?;
    let wait = move || {
        for signal in signals.forever() {
            handle(u8::try_from(signal).unwrap_or_default());
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// Whether the process was started with the signal ignored, as by `nohup`. Only Linux says so.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "host interface")]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Ctrl-C, Ctrl-Break and the end of the session count as Ctrl-C.
#[cfg(windows)]
fn start(handle: impl Fn(u8) + Send + 'static) -> io::Result<()> {
    ctrlc::try_set_handler(move || handle(crate::interrupt::SIGINT)).map_err(io::Error::other)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Command, HostInfo as _, RunPrograms as _, WriteFiles as _};

    /// The folder of the test below, in the process that it starts.
    const FOLDER: &str = "GPUBUILD_TEST_LEFTOVERS";

    /// Does nothing unless the test below starts it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the variable is set by this test only")]
    fn process_with_leftovers() {
        let Ok(folder) = std::env::var(FOLDER) else { return };
        let host = RealHost::new();
        let folder = host.path(&folder);
        let leftover = leftovers::Leftover::new(&folder.join("staging"));
        let kept = leftovers::Leftover::new(&folder.join("kept"));
        host.write(&folder.join("staging/a/b"), b"x").unwrap();
        host.write(&folder.join("kept/a"), b"x").unwrap();
        drop(kept);
        let temporary = host.temporary_dir(&folder).unwrap();
        host.write(&temporary.join("c"), b"x").unwrap();
        listen(&host).unwrap();
        host.write(&folder.join("ready"), b"x").unwrap();
        std::thread::sleep(Duration::from_secs(120));
        drop(leftover);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
    fn temporary_files_are_removed_when_a_signal_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(program);
        command.args(["--exact", "signals::tests::process_with_leftovers"]).env(FOLDER, folder.path());
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        while !folder.path().join("ready").exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(143));
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["kept", "ready"]);
    }

    /// The limit of the size of files is not reached here: this test checks what programs inherit.
    #[test]
    fn programs_get_the_default_action_of_the_file_size_signal() {
        keep_write_errors().unwrap();
        let script = "grep -E 'Sig(Ign|Cgt)' /proc/$$/status; ulimit -f 0; echo x > /dev/null";
        let command = Command::new("sh", Duration::from_secs(60)).arg("-c").arg(script);
        let output = RealHost::new().run(&command).unwrap();
        let masks = output.stdout.lines().filter_map(|line| line.split_whitespace().nth(1));
        let handled = masks.map(|mask| u64::from_str_radix(mask, 16).unwrap() >> 24 & 1).sum::<u64>();
        assert_eq!((handled, output.stdout.lines().count()), (0, 2), "{}", output.stdout);
    }
}
