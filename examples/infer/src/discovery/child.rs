//! Probes a backend in a child process, and turns every failure into a reason.

use super::Answer;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum length of an answer; a valid one is shorter.
const LONGEST: u64 = 1 << 20;
/// The longest interval between two checks of a child.
const POLL: Duration = Duration::from_millis(5);
/// The shortest interval: an answer is complete when its pipe closes, and the child exits right after.
const SOON: Duration = Duration::from_micros(100);

/// Starts `program __probe ID` and reads its answer.
#[must_use]
pub fn ask(program: &Path, id: &str, timeout: Duration) -> Answer {
    let child = Command::new(program)
        .args(["__probe", id])
        .stdin(Stdio::piped()) // closed below: an empty root has no `/dev/null`
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Answer::failed(id, format!("cannot start the probe: {error}")),
    };
    drop(child.stdin.take());
    let output = drain(child.stdout.take());
    let talk = drain(child.stderr.take());
    let Some((status, early)) = wait(&mut child, &output, timeout) else {
        return Answer::failed(id, format!("its driver did not answer within {} s", timeout.as_secs_f32()));
    };
    // A grandchild may keep the pipes open; use the output so far.
    let output = early.unwrap_or_else(|| output.recv_timeout(Duration::from_secs(1)).unwrap_or_default());
    let talk = talk.recv_timeout(Duration::from_millis(100)).unwrap_or_default();
    if !status.success() {
        return Answer::failed(id, format!("its driver {}{}", ending(status), last_words(&talk)));
    }
    match serde_json::from_slice::<Answer>(&output) {
        Ok(answer) if answer.backend == id => answer,
        Ok(answer) => Answer::failed(id, format!("the probe answered for `{}`", answer.backend)),
        Err(error) => Answer::failed(id, format!("the probe returned an invalid answer: {error}")),
    }
}

/// Reads a pipe to its end in the background, so that a full pipe does not block the child.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // Bytes read before an error are still useful.
            let _: Result<usize, _> = pipe.take(LONGEST).read_to_end(&mut bytes);
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

fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("crashed (signal {signal})");
    }
    status.code().map_or_else(|| "crashed".to_owned(), |code| format!("ended the probe with code {code}"))
}

fn last_words(talk: &[u8]) -> String {
    let talk = String::from_utf8_lossy(talk);
    let last = talk.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(String::new, |line| format!(": {}", line.chars().take(200).collect::<String>()))
}
