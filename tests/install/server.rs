//! A server on this machine that does what it is told: files, and every fault that a server or a line can have.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// What a form had.
    pub(crate) form: String,
    /// How often this path was asked for before.
    pub(crate) before: usize,
    /// All that there is at the path, for faults.
    pub(crate) whole: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The first byte of the range that is asked for.
    pub(crate) fn range(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A head without length, and a body.
    Whole { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// The same, of which only so many bytes of the body are sent.
    Cut { reply: Box<Reply>, after: usize },
    /// The same, and then nothing, with the line open.
    Stall { reply: Box<Reply>, after: usize },
    /// A byte now and then.
    Slow { reply: Box<Reply> },
    /// These bytes as they are.
    Raw(Vec<u8>),
    /// These bytes again and again.
    Endless(Vec<u8>),
    /// Nothing, and the line is closed.
    Close,
    /// Nothing, with the line open.
    Hang,
}

impl Reply {
    /// A body with its length.
    pub(crate) fn ok(body: &[u8]) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: &[u8]) -> Self {
        Self::bare(status, body).with("Content-Length", &body.len().to_string())
    }

    /// A body without its length.
    pub(crate) fn bare(status: u16, body: &[u8]) -> Self {
        Self::Whole { status, headers: Vec::new(), body: body.to_vec() }
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Self {
        Self::status(status, b"").with("Location", to)
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Whole { status, mut headers, body } => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Whole { status, headers, body }
            }
            other => other,
        }
    }

    pub(crate) fn cut(self, after: usize) -> Self {
        Self::Cut { reply: Box::new(self), after }
    }

    pub(crate) fn stall(self, after: usize) -> Self {
        Self::Stall { reply: Box::new(self), after }
    }

    pub(crate) fn slow(self) -> Self {
        Self::Slow { reply: Box::new(self) }
    }

    fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let Self::Whole { status, headers, body } = self else { return (Vec::new(), Vec::new()) };
        let mut head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        ((head + "\r\n").into_bytes(), body.clone())
    }

    fn send(&self, line: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Whole { .. } => {
                let (head, body) = self.bytes();
                line.write_all(&head)?;
                line.write_all(&body)?;
            }
            Self::Cut { reply, after } | Self::Stall { reply, after } => {
                let (head, body) = reply.bytes();
                line.write_all(&head)?;
                line.write_all(&body[..(*after).min(body.len())])?;
            }
            Self::Slow { reply } => {
                let (head, body) = reply.bytes();
                line.write_all(&head)?;
                for byte in body {
                    line.write_all(&[byte])?;
                    line.flush()?;
                    thread::sleep(Duration::from_millis(40));
                }
            }
            Self::Raw(bytes) => line.write_all(bytes)?,
            Self::Endless(bytes) => {
                for _ in 0..1_000_000 {
                    line.write_all(bytes)?;
                }
            }
            Self::Close | Self::Hang => {}
        }
        line.flush()
    }

    fn stays_open(&self) -> bool {
        matches!(self, Self::Stall { .. } | Self::Hang)
    }
}

type Handler = dyn Fn(&Asked) -> Reply + Send + Sync;

/// A server that runs as long as the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    tls: bool,
    log: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<Mutex<usize>>,
}

/// The certificate that a server shows, and the authority that a client may trust.
pub(crate) struct Certificates {
    /// PEM.
    pub(crate) authority: String,
    config: Arc<rustls::ServerConfig>,
}

impl Certificates {
    /// For these names; `years` of the beginning and the end.
    pub(crate) fn new(names: &[&str], years: (i32, i32)) -> Self {
        let mut root = rcgen::CertificateParams::new(Vec::new()).unwrap();
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root_key = rcgen::KeyPair::generate().unwrap();
        let authority = root.self_signed(&root_key).unwrap().pem();
        let issuer = rcgen::Issuer::new(root, root_key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut own = rcgen::CertificateParams::new(names).unwrap();
        own.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        own.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = own.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Self { authority, config: Arc::new(config) }
    }

    /// For this machine, and for long.
    pub(crate) fn good() -> Self {
        Self::new(&["localhost", "127.0.0.1"], (2020, 2090))
    }
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, handler)
    }

    pub(crate) fn with_tls(
        certificates: &Certificates,
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(Arc::clone(&certificates.config)), handler)
    }

    fn listen(
        tls: Option<Arc<rustls::ServerConfig>>,
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            tls: tls.is_some(),
            log: Arc::default(),
            connections: Arc::default(),
        };
        let (log, connections) = (Arc::clone(&server.log), Arc::clone(&server.connections));
        let handler: Arc<Handler> = Arc::new(handler);
        thread::spawn(move || {
            for line in listener.incoming().flatten() {
                *connections.lock().unwrap() += 1;
                let (log, handler, tls) = (Arc::clone(&log), Arc::clone(&handler), tls.clone());
                thread::spawn(move || {
                    let _ = line.set_nodelay(true);
                    match tls {
                        None => drop(serve(line, &log, &handler)),
                        Some(config) => {
                            let connection = rustls::ServerConnection::new(config).unwrap();
                            drop(serve(rustls::StreamOwned::new(connection, line), &log, &handler));
                        }
                    }
                });
            }
        });
        server
    }

    /// A server that speaks no protocol: it gets the line.
    pub(crate) fn wild(act: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || listener.incoming().flatten().for_each(&act));
        Self { port, tls: true, log: Arc::default(), connections: Arc::default() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

fn serve<S: Read + Write>(line: S, log: &Mutex<Vec<Asked>>, handler: &Arc<Handler>) -> std::io::Result<()> {
    let mut line = BufReader::new(line);
    let mut first = String::new();
    line.read_line(&mut first)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        line.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut form = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
    line.read_exact(&mut form)?;
    let form = String::from_utf8_lossy(&form).into_owned();
    let asked = {
        let mut log = log.lock().unwrap();
        let before = log.iter().filter(|other| other.path == path).count();
        let asked = Asked { path, headers, form, before, whole: Vec::new() };
        log.push(asked.clone());
        asked
    };
    let reply = handler(&asked);
    reply.send(line.get_mut())?;
    if reply.stays_open() {
        // Until the other side has had enough.
        let _ = line.read(&mut [0; 1]);
    }
    Ok(())
}

/// Files by their paths, with parts of them where that is asked for.
pub(crate) fn files(all: Vec<(String, Vec<u8>)>) -> impl Fn(&Asked) -> Reply + Send + Sync + Clone {
    let all = Arc::new(all);
    move |asked| {
        let path = asked.path.split('?').next().unwrap_or_default();
        match all.iter().find(|(name, _)| path.strip_prefix('/') == Some(name)) {
            Some((_, body)) => part(asked, body),
            None => Reply::status(404, b"not here"),
        }
    }
}

/// A file, or the part of it that is asked for.
pub(crate) fn part(asked: &Asked, body: &[u8]) -> Reply {
    let is_same = asked.header("if-range").is_none_or(|tag| tag == "\"tag\"");
    match asked.range().filter(|first| *first < body.len() && is_same) {
        Some(first) => {
            let range = format!("bytes {first}-{}/{}", body.len() - 1, body.len());
            Reply::status(206, &body[first..]).with("Content-Range", &range).with("ETag", "\"tag\"")
        }
        None => Reply::ok(body).with("ETag", "\"tag\""),
    }
}
