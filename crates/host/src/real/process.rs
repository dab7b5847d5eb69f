//! Runs programs: in a group of their own, with nothing on standard input but what they are given, and never past their deadline.
//!
//! One thread reads each stream and one waits for the child; the caller's thread takes what they send. A descendant that
//! keeps a pipe open after the child has ended costs us the reading thread until it ends too, but never the answer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{self, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::group::{self, Force, GRACE, Group};
use super::lines::LineSplitter;
use super::watch::Watchman;
use crate::command::Stdio;
use crate::interrupt::Interrupt;
use crate::{Command, HostPath, Line, Output, RunError, Stream};

/// Of each stream, this much is kept for the answer; the rest is read and dropped.
const KEPT: usize = 16 << 20;
/// How long output is still taken after the child has ended, if a descendant keeps a pipe open.
const DRAIN: Duration = Duration::from_millis(500);
/// Pieces of output on their way to the caller.
const CHANNEL: usize = 64;

/// What the threads report.
#[derive(Debug)]
enum Event {
    Output(Stream, Vec<u8>),
    Closed,
    Exited(io::Result<ExitStatus>),
    Interrupted,
}

/// Takes lines as they come.
pub(super) type OnLine<'a> = &'a mut dyn FnMut(Line<'_>);

/// Runs `program`, already resolved, with the rest of `command`. A lock stays taken until all that it started has ended, also
/// if we are killed.
pub(super) fn run(
    interrupt: &Interrupt,
    program: &HostPath,
    command: &Command,
    lock: Option<&File>,
    on_line: Option<OnLine<'_>>,
) -> Result<Output, RunError> {
    let (sender, receiver) = sync_channel(CHANNEL);
    let waker = sender.clone();
    // A full channel means that the loop is awake anyway; it asks after every message.
    let wake = move || drop(waker.try_send(Event::Interrupted));
    let Some(_token) = interrupt.register(wake) else { return Err(RunError::Interrupted) };
    let started = start(program, command, &sender).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RunError::NotFound { program: command.argv[0].clone() },
        _ => RunError::Start { program: command.argv[0].clone(), message: error.to_string() },
    })?;
    let watchman = lock.map(|lock| Watchman::start(started.group, lock)).unwrap_or_default();
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
        Ending::Exited(_) => watch.drain(),
        Ending::Deadline | Ending::Interrupted => watch.end_group(),
    }
    watchman.dismiss();
    match ending {
        Ending::Exited(status) => watch.answer(status).map_err(|error| RunError::Start {
            program: command.argv[0].clone(),
            message: error.to_string(),
        }),
        Ending::Deadline => {
            Err(RunError::Timeout { program: command.argv[0].clone(), deadline: command.deadline })
        }
        Ending::Interrupted => Err(RunError::Interrupted),
    }
}

/// A child with its threads running.
struct Started {
    group: Group,
    pipes: u32,
}

fn start(program: &HostPath, command: &Command, sender: &SyncSender<Event>) -> io::Result<Started> {
    let mut attempts = 0;
    loop {
        match start_once(program, command, sender) {
            // Somebody has only just written the program, and a child of another thread still holds it open for
            // writing until its own exec.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && attempts < 20 => {
                attempts += 1;
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "programs are only started in this crate")]
fn start_once(program: &HostPath, command: &Command, sender: &SyncSender<Event>) -> io::Result<Started> {
    let is_captured = command.stdio == Stdio::Capture;
    let output = || if is_captured { process::Stdio::piped() } else { process::Stdio::inherit() };
    let input = if command.input.is_empty() { process::Stdio::null() } else { process::Stdio::piped() };
    let mut process = process::Command::new(program.as_std());
    process.args(&command.argv[1..]).stdin(input).stdout(output()).stderr(output());
    group::lead(&mut process);
    if let Some(folder) = &command.current_dir {
        process.current_dir(folder.as_std());
    }
    for (name, value) in &command.env {
        match value {
            Some(value) => process.env(name, value),
            None => process.env_remove(name),
        };
    }
    let mut child = process.spawn()?;
    let leader = child.id();
    if let Some(mut pipe) = child.stdin.take() {
        let input = command.input.clone().into_bytes();
        // A child that ends without reading everything is no error.
        thread::spawn(move || drop(pipe.write_all(&input)));
    }
    let stdout = child.stdout.take().map(|pipe| read(Stream::Stdout, pipe, sender.clone()));
    let stderr = child.stderr.take().map(|pipe| read(Stream::Stderr, pipe, sender.clone()));
    let pipes = u32::from(stdout.is_some()) + u32::from(stderr.is_some());
    let sender = sender.clone();
    thread::spawn(move || {
        let _ = sender.send(Event::Exited(child.wait()));
    });
    Ok(Started { group: Group::of(leader), pipes })
}

fn read(stream: Stream, pipe: impl Read + Send + 'static, sender: SyncSender<Event>) {
    thread::spawn(move || forward(stream, pipe, &sender));
}

/// Reads a stream to its end. Ends early when nobody listens any more.
fn forward(stream: Stream, mut pipe: impl Read, sender: &SyncSender<Event>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(count) => {
                if sender.send(Event::Output(stream, buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
        }
    }
    let _ = sender.send(Event::Closed);
}

/// How waiting for a child ended.
enum Ending {
    Exited(io::Result<ExitStatus>),
    Deadline,
    Interrupted,
}

/// The caller's side of a running child.
struct Watch<'i, 'o> {
    receiver: Receiver<Event>,
    interrupt: &'i Interrupt,
    group: Group,
    open_pipes: u32,
    stdout: Collected,
    stderr: Collected,
    on_line: Option<OnLine<'o>>,
}

impl Watch<'_, '_> {
    fn wait(&mut self, deadline: Duration) -> Ending {
        let end = now().checked_add(deadline);
        loop {
            let left = end.map_or(Duration::from_secs(3600), |end| end.saturating_duration_since(now()));
            match self.receiver.recv_timeout(left) {
                Ok(Event::Exited(status)) if !self.interrupt.requested() => return Ending::Exited(status),
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Ending::Exited(Err(io::Error::other("the threads that watch it are gone")));
                }
            }
            if self.interrupt.requested() {
                return Ending::Interrupted;
            }
            if end.is_some_and(|end| now() >= end) {
                return Ending::Deadline;
            }
        }
    }

    /// Takes output that is still on its way after the child has ended.
    fn drain(&mut self) {
        let end = now() + DRAIN;
        while self.open_pipes > 0 {
            match self.receiver.recv_timeout(end.saturating_duration_since(now())) {
                Ok(event) => self.take(event),
                Err(_) => break,
            }
        }
    }

    /// Asks the whole group to end, gives it a moment, then kills what is left. A second Ctrl-C shortens the moment.
    fn end_group(&mut self) {
        let requests = self.interrupt.requests();
        self.group.end(Force::Ask);
        let end = now() + GRACE;
        while !self.group.is_gone() && now() < end && self.interrupt.requests() == requests {
            if let Ok(event) = self.receiver.recv_timeout(Duration::from_millis(5)) {
                self.take(event);
            }
        }
        self.group.end(Force::Kill);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Output(stream, bytes) => {
                let collected = match stream {
                    Stream::Stdout => &mut self.stdout,
                    Stream::Stderr => &mut self.stderr,
                };
                collected.add(&bytes, self.on_line.as_deref_mut());
            }
            Event::Closed => self.open_pipes = self.open_pipes.saturating_sub(1),
            Event::Exited(_) | Event::Interrupted => {}
        }
    }

    fn answer(mut self, status: io::Result<ExitStatus>) -> io::Result<Output> {
        let status = status?;
        Ok(Output {
            stdout: self.stdout.finish(self.on_line.as_deref_mut()),
            stderr: self.stderr.finish(self.on_line.as_deref_mut()),
            exit: status.code(),
            signal: signal(status),
        })
    }
}

/// What a stream said so far.
struct Collected {
    stream: Stream,
    kept: Vec<u8>,
    lines: LineSplitter,
}

impl Collected {
    fn new(stream: Stream) -> Self {
        Self { stream, kept: Vec::new(), lines: LineSplitter::default() }
    }

    fn add(&mut self, bytes: &[u8], on_line: Option<&mut (dyn FnMut(Line<'_>) + '_)>) {
        let room = KEPT - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(on_line) = on_line {
            let stream = self.stream;
            self.lines.feed(bytes, |text| on_line(Line { stream, text }));
        }
    }

    fn finish(&mut self, on_line: Option<&mut (dyn FnMut(Line<'_>) + '_)>) -> String {
        if let Some(on_line) = on_line {
            let stream = self.stream;
            self.lines.finish(|text| on_line(Line { stream, text }));
        }
        String::from_utf8_lossy(&self.kept).into_owned()
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

#[expect(clippy::disallowed_methods, reason = "this is the door: deadlines of children")]
fn now() -> Instant {
    Instant::now()
}
