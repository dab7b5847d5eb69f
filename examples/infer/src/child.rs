//! Runs a program, usually this one, with a time limit and a limited answer.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest interval between two checks of a child.
const POLL: Duration = Duration::from_millis(5);
/// The shortest interval: an answer is complete when its pipe closes, and the child exits right after.
const SOON: Duration = Duration::from_micros(100);

/// A child that has exited.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How it exited.
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) output: Vec<u8>,
    /// Its standard error.
    pub(crate) talk: Vec<u8>,
}

/// Runs a program with this input, and reads at most `longest` bytes of each of its outputs. `None` if it did not end in time; it is
/// killed then.
///
/// # Errors
/// The program cannot be started.
pub(crate) fn run(
    command: &mut Command,
    input: Vec<u8>,
    longest: u64,
    timeout: Duration,
) -> io::Result<Option<Ended>> {
    // The input is a pipe even if it is empty: an empty root has no `/dev/null`.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stdin.take().filter(|_| !input.is_empty()) {
        // The child may exit without reading everything.
        thread::spawn(move || drop(pipe.write_all(&input)));
    }
    let output = drain(child.stdout.take(), longest);
    let talk = drain(child.stderr.take(), longest);
    let Some((status, early)) = wait(&mut child, &output, timeout) else { return Ok(None) };
    // A grandchild may keep the pipes open; use the output so far.
    let output = early.unwrap_or_else(|| output.recv_timeout(Duration::from_secs(1)).unwrap_or_default());
    let talk = talk.recv_timeout(Duration::from_millis(100)).unwrap_or_default();
    Ok(Some(Ended { status, output, talk }))
}

/// Reads a pipe to its end in the background, so that a full pipe does not block the child.
fn drain(pipe: Option<impl Read + Send + 'static>, longest: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // Bytes read before an error are still useful.
            let _: Result<usize, _> = pipe.take(longest).read_to_end(&mut bytes);
            let _: Result<(), _> = sender.send(bytes);
        });
    }
    receiver
}

/// Waits for a child to exit, with its output if that ends first; `None` if it had to be killed.
fn wait(
    child: &mut Child,
    output: &Receiver<Vec<u8>>,
    timeout: Duration,
) -> Option<(ExitStatus, Option<Vec<u8>>)> {
    let start = Instant::now();
    let (mut early, mut pause) = (None, SOON);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some((status, early)),
            Ok(None) if start.elapsed() < timeout => {
                if early.is_some() {
                    thread::sleep(pause);
                    pause = (pause * 2).min(POLL);
                    continue;
                }
                // The end of the output wakes this up: for short-lived children, sleeping would take most of
                // the time.
                match output.recv_timeout(POLL) {
                    Ok(bytes) => early = Some(bytes),
                    Err(RecvTimeoutError::Disconnected) => early = Some(Vec::new()),
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            Ok(None) | Err(_) => {
                // It may have exited in the meantime, which is fine.
                let _: Result<(), _> = child.kill();
                let _: Result<ExitStatus, _> = child.wait();
                return None;
            }
        }
    }
}
