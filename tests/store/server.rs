//! A local server that stores what is sent with PUT, and can fail in every way.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a server does with requests whose method and path match.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Answers with this status.
    Status(u16),
    /// Answers with this status and body.
    Body(u16, String),
    /// Announces the complete body and ends the connection after this many bytes.
    Cut(usize),
    /// Like [`Fault::Cut`], but serves ranges, each cut after this many bytes.
    Pieces(usize),
    /// Like [`Fault::Pieces`], with this `Content-Range`: `{from}`, `{last}` and `{size}` are the right numbers, and
    /// `{next}` and `{more}` are other ones.
    Range(usize, &'static str),
    /// Like [`Fault::Cut`], but only for the first request of each path. Ignores ranges.
    CutFirst(usize),
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
    /// Sends a byte every tenth of a second.
    Trickle,
    /// Redirects to this URL.
    Redirect(String),
    /// Sends bytes that are not HTTP.
    Garbage,
}

/// An answer to a request: the status, complete lines of headers, and the body.
pub(crate) type Answer = (u16, String, String);
type Handler = dyn Fn(&str) -> Answer + Send + Sync;

#[derive(Default)]
struct State {
    /// Answers all requests, by `METHOD /path?query`.
    handler: Option<Arc<Handler>>,
    objects: BTreeMap<String, Vec<u8>>,
    requests: Vec<String>,
    fault: Option<(String, Fault)>,
    /// How many requests each token is valid for, if this is a registry with tokens.
    token_uses: Option<usize>,
    /// How often each issued token can still be used.
    tokens: Vec<usize>,
    /// The requests that were refused because their token had expired.
    refused: BTreeSet<String>,
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

    /// A server that stores nothing and answers with a function.
    pub(crate) fn answering(handler: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let server = Self::start();
        server.state.lock().unwrap().handler = Some(Arc::new(handler));
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/store", self.root())
    }

    pub(crate) fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes the server a registry whose tokens are valid for a number of requests. If that is not 0, a request is
    /// refused once: a simultaneous one may have used the token with which it is repeated.
    pub(crate) fn expire_tokens(&self, uses: usize) {
        let mut state = self.state.lock().unwrap();
        (state.token_uses, state.tokens) = (Some(uses), Vec::new());
        state.refused.clear();
    }

    /// The number of tokens that were issued.
    pub(crate) fn issued_tokens(&self) -> usize {
        self.state.lock().unwrap().tokens.len()
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

/// The header of a part that starts at a byte.
fn content_range(fault: Option<&Fault>, from: usize, size: usize) -> String {
    let form = if let Some(Fault::Range(_, form)) = fault { form } else { "bytes {from}-{last}/{size}" };
    let numbers = [
        ("{from}", from),
        ("{next}", from + 1),
        ("{last}", size - 1),
        ("{size}", size),
        ("{more}", size + 1),
    ];
    let replaced = |range: String, (name, value): &(&str, usize)| range.replace(name, &value.to_string());
    format!("Content-Range: {}\r\n", numbers.iter().fold(form.to_owned(), replaced))
}

fn serve(connection: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut first = String::new();
    connection.read_line(&mut first)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut from, mut token, mut address) = (0, 0, None, String::new());
    loop {
        let mut header = String::new();
        connection.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        } else if name.eq_ignore_ascii_case("range") {
            let first = value.trim().strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
            from = first.and_then(|first| first.parse().ok()).unwrap_or(0);
        } else if name.eq_ignore_ascii_case("authorization") {
            token = value.trim().strip_prefix("Bearer ").and_then(|token| token.parse::<usize>().ok());
        } else if name.eq_ignore_ascii_case("host") {
            value.trim().clone_into(&mut address);
        }
    }
    let mut body = vec![0; length];
    // A client that is killed sends a part, which must not be stored.
    connection.read_exact(&mut body)?;
    let request = format!("{method} {path}");
    if let Some(answer) = handled(state, &request).or_else(|| registry(state, &request, token, &address)) {
        return connection.get_mut().write_all(answer.as_bytes());
    }
    // A registry stores an upload below its hash.
    let path = match path.split_once("/uploads/session?digest=") {
        Some((blobs, digest)) => format!("{blobs}/{}", digest.replace("%3A", ":")),
        // The query of a signed URL changes with the time.
        None => path.split('?').next().unwrap_or_default().to_owned(),
    };
    let (fault, found, other, is_first) = {
        let mut state = state.lock().unwrap();
        let is_first = !state.requests.contains(&request);
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
            is_first,
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
    match fault.clone() {
        None if method == "PUT" => send(201, 0, b"", ""),
        None if found.is_some() => send(200, content.len(), &content, ""),
        None => send(404, 0, b"", ""),
        Some(Fault::Status(status)) => send(status, 0, b"", ""),
        Some(Fault::Body(status, body)) => send(status, body.len(), body.as_bytes(), ""),
        Some(Fault::CutFirst(_)) if !is_first => send(200, content.len(), &content, ""),
        Some(Fault::Pieces(after) | Fault::Range(after, _)) if from > 0 => {
            let range = content_range(fault.as_ref(), from, content.len());
            let end = content.len().min(from + after);
            send(206, content.len() - from, &content[from..end], &range)
        }
        Some(Fault::Cut(after) | Fault::CutFirst(after) | Fault::Pieces(after) | Fault::Range(after, _)) => {
            send(200, content.len(), &content[..after.min(content.len())], "")
        }
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
        Some(Fault::Trickle) => send(200, content.len(), b"", "").and_then(|()| trickle(stream, &content)),
        Some(Fault::Stall) => {
            send(200, content.len(), &content[..content.len() / 2], "")?;
            wait(stream)
        }
    }
}

/// Sends a byte every tenth of a second.
fn trickle(stream: &mut TcpStream, content: &[u8]) -> std::io::Result<()> {
    content.chunks(1).try_for_each(|byte| {
        thread::sleep(Duration::from_millis(100));
        stream.write_all(byte)
    })
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

/// The answer of the server's handler, if it has one.
fn handled(state: &Mutex<State>, request: &str) -> Option<String> {
    let handler = {
        let mut state = state.lock().unwrap();
        state.handler.clone().inspect(|_| state.requests.push(request.to_owned()))
    };
    let (status, headers, body) = handler?(request);
    Some(answer(status, &headers, &body))
}

/// The answer to a request that starts an upload to a registry, asks for a token, or has no valid one.
fn registry(state: &Mutex<State>, request: &str, token: Option<usize>, address: &str) -> Option<String> {
    let mut state = state.lock().unwrap();
    if let Some(uses) = state.token_uses {
        if request.contains("/token") {
            state.tokens.push(uses);
            return Some(answer(200, "", &format!("{{\"token\":\"{}\"}}", state.tokens.len() - 1)));
        }
        if let Some(left) = token.and_then(|token| state.tokens.get_mut(token)).filter(|left| **left > 0) {
            *left -= 1;
        } else if state.refused.insert(request.to_owned()) || uses == 0 {
            let header = format!("WWW-Authenticate: Bearer realm=\"http://{address}/token\"\r\n");
            return Some(answer(401, &header, ""));
        }
    }
    let path = request.strip_prefix("POST ")?;
    Some(answer(202, &format!("Location: {path}session\r\n"), ""))
}

/// Waits until the client closes the connection.
fn wait(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read(&mut [0; 1]).map(drop)
}
