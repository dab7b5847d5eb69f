//! A local server that stores what is sent with PUT, and can fail in every way.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What a server does with requests whose method and path match.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Answers with this status.
    Status(u16),
    /// Answers with this status and body.
    Body(u16, String),
    /// Announces the complete body and ends the connection after this many bytes.
    Cut(usize),
    /// Sends the first bytes as the complete body.
    Shorter(usize),
    /// Sends more bytes after the body, within the length.
    Longer,
    /// Changes one byte.
    Flipped,
    /// Sends the body of another object of the same kind.
    Swapped,
    /// Accepts the request and never answers.
    Hang,
    /// Sends the first half of the body, then nothing.
    Stall,
    /// Redirects to this URL.
    Redirect(String),
    /// Sends bytes that are not HTTP.
    Garbage,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    requests: Vec<String>,
    fault: Option<(String, Fault)>,
}

/// A server that runs until the test ends.
#[derive(Clone)]
pub(crate) struct Server {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let state = Arc::clone(&server.state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || drop(serve(connection, &state)));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/store", self.port)
    }

    /// Fails requests whose `METHOD /path` contains a text.
    pub(crate) fn fail(&self, requests: &str, fault: Fault) {
        self.state.lock().unwrap().fault = Some((requests.to_owned(), fault));
    }

    pub(crate) fn heal(&self) {
        self.state.lock().unwrap().fault = None;
    }

    /// The stored objects by path.
    pub(crate) fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.lock().unwrap().objects.clone()
    }

    pub(crate) fn set(&self, path: &str, body: Vec<u8>) {
        self.state.lock().unwrap().objects.insert(path.to_owned(), body);
    }

    pub(crate) fn clear(&self) {
        self.state.lock().unwrap().objects.clear();
    }

    /// `METHOD /path` of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

fn serve(connection: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut first = String::new();
    connection.read_line(&mut first)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut length = 0;
    loop {
        let mut header = String::new();
        connection.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    // A client that is killed sends a part, which must not be stored.
    connection.read_exact(&mut body)?;
    let request = format!("{method} {path}");
    let (fault, found, other) = {
        let mut state = state.lock().unwrap();
        state.requests.push(request.clone());
        let fault = state.fault.clone().filter(|(part, _)| request.contains(part.as_str()));
        if fault.is_none() && method == "PUT" {
            state.objects.insert(path.clone(), body);
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let others = state.objects.iter().find(|(other, _)| other.starts_with(folder) && **other != path);
        (
            fault.map(|(_, fault)| fault),
            state.objects.get(&path).cloned(),
            others.map(|(_, body)| body.clone()),
        )
    };
    let stream = connection.get_mut();
    let content = found.clone().unwrap_or_default();
    let mut send = |status: u16, length: usize, body: &[u8], header: &str| {
        let head = format!(
            "HTTP/1.1 {status} Status\r\nConnection: close\r\nContent-Length: {length}\r\n{header}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(if method == "HEAD" { &[] } else { body })?;
        stream.flush()
    };
    match fault {
        None if method == "PUT" => send(201, 0, b"", ""),
        None if found.is_some() => send(200, content.len(), &content, ""),
        None => send(404, 0, b"", ""),
        Some(Fault::Status(status)) => send(status, 0, b"", ""),
        Some(Fault::Body(status, body)) => send(status, body.len(), body.as_bytes(), ""),
        Some(Fault::Cut(after)) => send(200, content.len(), &content[..after.min(content.len())], ""),
        Some(Fault::Shorter(by)) => {
            let left = content.len().saturating_sub(by);
            send(200, left, &content[..left], "")
        }
        Some(Fault::Longer) => {
            let longer = [&content[..], &[0; 16]].concat();
            send(200, longer.len(), &longer, "")
        }
        Some(Fault::Flipped) => {
            let mut flipped = content;
            let middle = flipped.len() / 2;
            flipped[middle] ^= 1;
            send(200, flipped.len(), &flipped, "")
        }
        Some(Fault::Swapped) => {
            let other = other.unwrap_or_default();
            send(200, other.len(), &other, "")
        }
        Some(Fault::Redirect(to)) => send(302, 0, b"", &format!("Location: {to}\r\n")),
        Some(Fault::Garbage) => stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n"),
        Some(Fault::Hang) => wait(stream),
        Some(Fault::Stall) => {
            send(200, content.len(), &content[..content.len() / 2], "")?;
            wait(stream)
        }
    }
}

/// Waits until the client closes the connection.
fn wait(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read(&mut [0; 1]).map(drop)
}
