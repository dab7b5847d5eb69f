//! Runs programs in a new process group, with a time limit, and with empty standard input unless the command has input.
//!
//! One thread reads each stream and one waits for the child; the caller's thread receives their messages. Descendants that are
//! left when a child with captured output has ended are terminated after a short grace period, unless they have started a session of
//! their own, as daemons do. A daemon that keeps a pipe open blocks the reader thread until it ends, but does not delay the result.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{self, Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::group::{self, Force, GRACE, ProcessGroup};
use super::kept::HeadAndTail;
use super::lines::LineSplitter;
use super::watch::Watchdog;
use crate::command::Stdio;
use crate::interrupt::Interrupt;
use crate::{Command, CommandOutput, HostPath, OutputLine, RunError, Stream};

/// Maximum output in bytes of a program whose lines are not passed on. Such programs print versions, settings or symbols. A program whose
/// lines are passed on, such as a build, may print any amount until its deadline: the beginning and the end are kept.
const MAX_OUTPUT: u64 = 64 << 20;
/// How long to wait for further output after the child has ended, if a descendant keeps a pipe open.
const DRAIN: Duration = Duration::from_millis(500);
/// How long descendants of a child that has ended may take to end after SIGTERM.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// Capacity of the channel, in messages.
const CHANNEL: usize = 64;

/// A message from a reader or waiter thread.
#[derive(Debug)]
enum ProcessEvent {
    Output(Stream, Vec<u8>),
    Closed,
    Exited(io::Result<ExitStatus>),
    Interrupted,
}

/// Callback for output lines.
pub(super) type OnLine<'a> = &'a mut dyn FnMut(OutputLine<'_>);

/// Runs `program` (the resolved first element of `command.argv`). If `lock` is given, a watchdog keeps it locked until all
/// descendants have ended, even if gpubuild is killed.
pub(super) fn run(
    interrupt: &Interrupt,
    program: &HostPath,
    command: &Command,
    lock: Option<&File>,
    on_line: Option<OnLine<'_>>,
) -> Result<CommandOutput, RunError> {
    let (sender, receiver) = sync_channel(CHANNEL);
    let waker = sender.clone();
    // If the channel is full, the receiving loop is active and checks for interrupts after every message.
    let wake = move || drop(waker.try_send(ProcessEvent::Interrupted));
    let Some(token) = interrupt.register(wake) else { return Err(RunError::Interrupted) };
    let started = start(program, command, &sender).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RunError::NotFound { program: command.argv[0].clone() },
        _ => RunError::Start { program: command.argv[0].clone(), message: error.to_string() },
    })?;
    let group = started.group;
    token.started(move || group.kill_family());
    let watchdog = lock.map(|lock| Watchdog::start(started.group, lock)).unwrap_or_default();
    let mut watch = Watch {
        receiver,
        interrupt,
        group: started.group,
        open_pipes: started.pipes,
        stdout: Collected::new(Stream::Stdout),
        stderr: Collected::new(Stream::Stderr),
        on_line,
    };
    let ending = watch.wait(command.deadline);
    match &ending {
        ProcessEnding::Exited(_) => {
            watch.drain();
            if command.stdio == Stdio::Capture {
                watch.end_leftovers();
            }
        }
        ProcessEnding::Deadline | ProcessEnding::TooMuch | ProcessEnding::Interrupted => {
            watch.end_group(GRACE);
        }
    }
    watchdog.stop();
    match ending {
        ProcessEnding::Exited(status) => watch.output(status).map_err(|error| RunError::Start {
            program: command.argv[0].clone(),
            message: error.to_string(),
        }),
        ProcessEnding::Deadline => {
            Err(RunError::Timeout { program: command.argv[0].clone(), deadline: command.deadline })
        }
        ProcessEnding::TooMuch => {
            Err(RunError::TooMuchOutput { program: command.argv[0].clone(), limit: MAX_OUTPUT })
        }
        ProcessEnding::Interrupted => Err(RunError::Interrupted),
    }
}

/// A started child and the number of pipes that are read from it.
struct Started {
    group: ProcessGroup,
    pipes: u32,
}

fn start(program: &HostPath, command: &Command, sender: &SyncSender<ProcessEvent>) -> io::Result<Started> {
    let mut attempts = 0;
    loop {
        match start_once(program, command, sender) {
            // The program was just written, and a process that another thread has forked still has the file open for writing
            // until it calls exec.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && attempts < 20 => {
                attempts += 1;
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "programs are only started in this crate")]
fn start_once(
    program: &HostPath,
    command: &Command,
    sender: &SyncSender<ProcessEvent>,
) -> io::Result<Started> {
    // An empty file would be run as an empty shell script, and succeed: execvp(3) does that after `pre_exec`.
    #[cfg(unix)]
    if std::fs::metadata(program.as_std()).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return Err(rustix::io::Errno::NOEXEC.into());
    }
    let is_captured = command.stdio == Stdio::Capture;
    let (stdout, stderr) = match command.stdio {
        Stdio::Capture => (process::Stdio::piped(), process::Stdio::piped()),
        Stdio::InheritAsErrors => (io::stderr().into(), process::Stdio::inherit()),
        Stdio::Inherit | Stdio::Terminal => (process::Stdio::inherit(), process::Stdio::inherit()),
    };
    let input = match command.stdio {
        Stdio::Terminal => process::Stdio::inherit(),
        _ if command.input.is_empty() => process::Stdio::null(),
        _ => process::Stdio::piped(),
    };
    let mut process = process::Command::new(program.as_std());
    process.args(&command.argv[1..]).stdin(input).stdout(stdout).stderr(stderr);
    if command.stdio != Stdio::Terminal {
        group::lead(&mut process, !is_captured);
    }
    if let Some(folder) = &command.current_dir {
        process.current_dir(folder.as_std());
    }
    for (name, value) in &command.env {
        match value {
            Some(value) => process.env(name, value),
            None => process.env_remove(name),
        };
    }
    // All threads are started before the child: if the system refuses one, no program has run.
    let writer = (!command.input.is_empty() && command.stdio != Stdio::Terminal).then(writer).transpose()?;
    let stdout = is_captured.then(|| reader(Stream::Stdout, sender.clone())).transpose()?;
    let stderr = is_captured.then(|| reader(Stream::Stderr, sender.clone())).transpose()?;
    let waiter = waiter(sender.clone())?;
    let mut child = process.spawn()?;
    let leader = child.id();
    if let (Some(pipe), Some(writer)) = (child.stdin.take(), writer) {
        let _ = writer.send((pipe, command.input.clone().into_bytes()));
    }
    let mut pipes = 0;
    if let (Some(pipe), Some(reader)) = (child.stdout.take(), stdout) {
        pipes += u32::from(reader.send(pipe).is_ok());
    }
    if let (Some(pipe), Some(reader)) = (child.stderr.take(), stderr) {
        pipes += u32::from(reader.send(pipe).is_ok());
    }
    let _ = waiter.send(child);
    Ok(Started { group: ProcessGroup::of(leader), pipes })
}

/// Starts a thread that handles one value. It ends if the sender is dropped without a value.
fn helper<T: Send + 'static>(handle: impl FnOnce(T) + Send + 'static) -> io::Result<SyncSender<T>> {
    /// The threads only copy bytes. A small stack leaves room under a limit of address space.
    const STACK: usize = 256 << 10;
    let (sender, receiver) = sync_channel(1);
    let run = move || {
        if let Ok(value) = receiver.recv() {
            handle(value);
        }
    };
    thread::Builder::new()
        .stack_size(STACK)
        .spawn(run)
        .map_err(|error| io::Error::new(error.kind(), format!("failed to create a thread: {error}")))?;
    Ok(sender)
}

/// Starts the thread that writes the child's input.
fn writer() -> io::Result<SyncSender<(ChildStdin, Vec<u8>)>> {
    // Ignore errors: the child may exit without reading all input.
    helper(|(mut pipe, input): (ChildStdin, Vec<u8>)| drop(pipe.write_all(&input)))
}

/// Starts the thread that reads one stream of the child.
fn reader<P: Read + Send + 'static>(
    stream: Stream,
    sender: SyncSender<ProcessEvent>,
) -> io::Result<SyncSender<P>> {
    helper(move |pipe: P| forward(stream, pipe, &sender))
}

/// Starts the thread that waits for the child.
fn waiter(sender: SyncSender<ProcessEvent>) -> io::Result<SyncSender<Child>> {
    helper(move |mut child: Child| {
        let _ = sender.send(ProcessEvent::Exited(child.wait()));
    })
}

/// Reads a stream to its end, or until the receiver is dropped.
fn forward(stream: Stream, mut pipe: impl Read, sender: &SyncSender<ProcessEvent>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(count) => {
                if sender.send(ProcessEvent::Output(stream, buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
        }
    }
    let _ = sender.send(ProcessEvent::Closed);
}

/// Why waiting for a child ended.
enum ProcessEnding {
    Exited(io::Result<ExitStatus>),
    Deadline,
    /// It printed more than [`MAX_OUTPUT`].
    TooMuch,
    Interrupted,
}

/// The caller's side of a running child.
struct Watch<'i, 'o> {
    receiver: Receiver<ProcessEvent>,
    interrupt: &'i Interrupt,
    group: ProcessGroup,
    open_pipes: u32,
    stdout: Collected,
    stderr: Collected,
    on_line: Option<OnLine<'o>>,
}

impl Watch<'_, '_> {
    fn wait(&mut self, deadline: Duration) -> ProcessEnding {
        let end = now().checked_add(deadline);
        loop {
            let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(now()));
            match self.receiver.recv_timeout(left) {
                Ok(ProcessEvent::Exited(status)) if !self.interrupt.requested() => {
                    return ProcessEnding::Exited(status);
                }
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return ProcessEnding::Exited(Err(io::Error::other(
                        "its reader threads ended unexpectedly",
                    )));
                }
            }
            if self.interrupt.requested() {
                return ProcessEnding::Interrupted;
            }
            if end.is_some_and(|end| now() >= end) {
                return ProcessEnding::Deadline;
            }
            if self.on_line.is_none() && self.stdout.total() + self.stderr.total() > MAX_OUTPUT {
                return ProcessEnding::TooMuch;
            }
        }
    }

    /// Receives the remaining output after the child has ended.
    fn drain(&mut self) {
        let end = now() + DRAIN;
        // A descendant may write without end, so the time is checked after every message.
        while self.open_pipes > 0 && now() < end {
            match self.receiver.recv_timeout(end.saturating_duration_since(now())) {
                Ok(event) => self.handle(event),
                Err(_) => break,
            }
        }
    }

    /// Terminates the descendants of a child that has ended, if there are any.
    fn end_leftovers(&mut self) {
        // On Windows, `taskkill` cannot find the descendants of a process that has ended.
        if cfg!(unix) && !self.group.is_gone() {
            log::debug!("ending the background processes that a program has left");
            self.end_group(LEFTOVER_GRACE);
        }
    }

    /// Requests termination of the group, waits for a grace period, then kills it; after Ctrl-C with all descendants, which may have groups
    /// of their own. A second Ctrl-C skips the grace period.
    fn end_group(&mut self, grace: Duration) {
        let requests = self.interrupt.requests();
        self.group.end(Force::Terminate);
        let end = now() + grace;
        while !self.group.is_gone() && now() < end && self.interrupt.requests() == requests {
            if let Ok(event) = self.receiver.recv_timeout(Duration::from_millis(5)) {
                self.handle(event);
            }
        }
        if self.interrupt.requested() {
            self.group.kill_family();
        } else {
            self.group.end(Force::Kill);
        }
    }

    fn handle(&mut self, event: ProcessEvent) {
        match event {
            ProcessEvent::Output(stream, bytes) => {
                let collected = match stream {
                    Stream::Stdout => &mut self.stdout,
                    Stream::Stderr => &mut self.stderr,
                };
                collected.add(&bytes, self.on_line.as_deref_mut());
            }
            ProcessEvent::Closed => self.open_pipes = self.open_pipes.saturating_sub(1),
            ProcessEvent::Exited(_) | ProcessEvent::Interrupted => {}
        }
    }

    fn output(mut self, status: io::Result<ExitStatus>) -> io::Result<CommandOutput> {
        let status = status?;
        Ok(CommandOutput {
            stdout: self.stdout.finish(self.on_line.as_deref_mut()),
            stderr: self.stderr.finish(self.on_line.as_deref_mut()),
            exit: status.code(),
            signal: signal(status),
        })
    }
}

/// The output of a stream so far.
struct Collected {
    stream: Stream,
    kept: HeadAndTail,
    lines: LineSplitter,
}

impl Collected {
    fn new(stream: Stream) -> Self {
        Self { stream, kept: HeadAndTail::default(), lines: LineSplitter::default() }
    }

    fn total(&self) -> u64 {
        self.kept.total()
    }

    fn add(&mut self, bytes: &[u8], on_line: Option<&mut (dyn FnMut(OutputLine<'_>) + '_)>) {
        self.kept.add(bytes);
        if let Some(on_line) = on_line {
            let stream = self.stream;
            self.lines.feed(bytes, |text| on_line(OutputLine { stream, text }));
        }
    }

    fn finish(&mut self, on_line: Option<&mut (dyn FnMut(OutputLine<'_>) + '_)>) -> String {
        if let Some(on_line) = on_line {
            let stream = self.stream;
            self.lines.finish(|text| on_line(OutputLine { stream, text }));
        }
        std::mem::take(&mut self.kept).into_text()
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.signal()
}

#[cfg(not(unix))]
fn signal(_status: ExitStatus) -> Option<i32> {
    None
}

#[expect(clippy::disallowed_methods, reason = "host interface: deadlines of children")]
fn now() -> Instant {
    Instant::now()
}
