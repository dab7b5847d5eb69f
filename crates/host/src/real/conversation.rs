//! A question to a TCP server with a text protocol, with a time limit for all of it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::net::NetError;

/// Limit for the answer, in bytes.
const LIMIT: usize = 1 << 20;

/// Connects to `host:port`, sends the question, and reads until the server closes the connection.
pub(super) fn converse(address: &str, question: &str, time: Duration) -> Result<String, NetError> {
    let (sender, receiver) = mpsc::channel();
    let (address, question) = (address.to_owned(), question.to_owned());
    let deadline = now().checked_add(time).ok_or_else(|| NetError::Timeout(format!("{time:?}")))?;
    // In a thread, because the system's resolver has no time limit. A thread that waits for it ends when it answers.
    let work = move || {
        // The receiver is gone if the time limit was exceeded.
        let _ = sender.send(exchange(&address, question.as_bytes(), deadline));
    };
    std::thread::Builder::new().spawn(work).map_err(|error| NetError::Unreachable(error.to_string()))?;
    let answer = receiver.recv_timeout(time).unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    let answer = answer.map_err(|error| match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => NetError::Timeout(format!("{} s", time.as_secs_f32())),
        _ => NetError::Unreachable(error.to_string()),
    })?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn exchange(address: &str, question: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = connect(address, deadline)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(question)?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut part)? {
            0 => return Ok(answer),
            count => answer.extend_from_slice(part.get(..count).unwrap_or_default()),
        }
        if answer.len() > LIMIT {
            return Err(io::Error::other("the answer is longer than 1 MiB"));
        }
    }
}

/// Tries all addresses of a name.
fn connect(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for one in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&one, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[expect(clippy::disallowed_methods, reason = "host interface: the clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
