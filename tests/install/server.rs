//! A local server with scripted responses: files, and every fault of a server or connection.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// The form in the body.
    pub(crate) form: String,
    /// How many earlier requests had this path.
    pub(crate) before: usize,
    /// The complete body of the correct response, for faults.
    pub(crate) full_body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The first byte of the requested range.
    pub(crate) fn range(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A head without a length, and a body.
    Complete { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// A response whose body is cut after this many bytes.
    Cut { reply: Box<Reply>, after: usize },
    /// A cut response with the connection left open.
    Stall { reply: Box<Reply>, after: usize },
    /// A response sent byte by byte with pauses.
    Slow { reply: Box<Reply> },
    /// Raw bytes instead of a response.
    Raw(Vec<u8>),
    /// Raw bytes that repeat without end.
    Endless(Vec<u8>),
    /// Raw bytes, and others that repeat until the client closes the connection.
    EndlessAfter { first: Vec<u8>, repeated: Vec<u8> },
    /// Closes the connection without a response.
    Close,
    /// Sends nothing and leaves the connection open.
    Hang,
}

impl Reply {
    /// A response with a length.
    pub(crate) fn ok(body: &[u8]) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: &[u8]) -> Self {
        Self::bare(status, body).with("Content-Length", &body.len().to_string())
    }

    /// A response without a length.
    pub(crate) fn bare(status: u16, body: &[u8]) -> Self {
        Self::Complete { status, headers: Vec::new(), body: body.to_vec() }
    }

    pub(crate) fn redirect(status: u16, to: &str) -> Self {
        Self::status(status, b"").with("Location", to)
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Complete { status, mut headers, body } => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Complete { status, headers, body }
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
        let Self::Complete { status, headers, body } = self else { return (Vec::new(), Vec::new()) };
        let mut head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        ((head + "\r\n").into_bytes(), body.clone())
    }

    fn send(&self, connection: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Complete { .. } => {
                let (head, body) = self.bytes();
                connection.write_all(&head)?;
                connection.write_all(&body)?;
            }
            Self::Cut { reply, after } | Self::Stall { reply, after } => {
                let (head, body) = reply.bytes();
                connection.write_all(&head)?;
                connection.write_all(&body[..(*after).min(body.len())])?;
            }
            Self::Slow { reply } => {
                let (head, body) = reply.bytes();
                connection.write_all(&head)?;
                for byte in body {
                    connection.write_all(&[byte])?;
                    connection.flush()?;
                    thread::sleep(Duration::from_millis(40));
                }
            }
            Self::Raw(bytes) => connection.write_all(bytes)?,
            Self::Endless(bytes) => {
                for _ in 0..1_000_000 {
                    connection.write_all(bytes)?;
                }
            }
            Self::EndlessAfter { first, repeated } => {
                connection.write_all(first)?;
                loop {
                    connection.write_all(repeated)?;
                }
            }
            Self::Close | Self::Hang => {}
        }
        connection.flush()
    }

    fn stays_open(&self) -> bool {
        matches!(self, Self::Stall { .. } | Self::Hang)
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// A server that runs until the test ends.
pub(crate) struct Server {
    pub(crate) port: u16,
    tls: bool,
    log: Arc<Mutex<Vec<Request>>>,
    connections: Arc<Mutex<usize>>,
}

/// A server certificate, and the authority that clients may trust.
pub(crate) struct Certificates {
    /// The certificate of the authority, in PEM format.
    pub(crate) authority: String,
    config: Arc<rustls::ServerConfig>,
}

/// Gives a certificate another name than all others have, because names find the authority.
fn named(mut params: rcgen::CertificateParams) -> rcgen::CertificateParams {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed));
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params
}

impl Certificates {
    /// A certificate for these names, valid from the first to the second year.
    pub(crate) fn new(names: &[&str], years: (i32, i32)) -> Self {
        let mut root = named(rcgen::CertificateParams::new(Vec::new()).unwrap());
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
        Self { authority, config: Self::config(&certificate, &key) }
    }

    /// A certificate for localhost that its own key has signed.
    pub(crate) fn self_signed() -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = rcgen::KeyPair::generate().unwrap();
        let params = named(rcgen::CertificateParams::new(names).unwrap());
        let certificate = params.self_signed(&key).unwrap();
        Self { authority: certificate.pem(), config: Self::config(&certificate, &key) }
    }

    fn config(certificate: &rcgen::Certificate, key: &rcgen::KeyPair) -> Arc<rustls::ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap())
    }

    /// A valid certificate for localhost.
    pub(crate) fn good() -> Self {
        Self::new(&["localhost", "127.0.0.1"], (2020, 2090))
    }
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(None, handler)
    }

    pub(crate) fn with_tls(
        certificates: &Certificates,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Some(Arc::clone(&certificates.config)), handler)
    }

    fn listen(
        tls: Option<Arc<rustls::ServerConfig>>,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
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
            for connection in listener.incoming().flatten() {
                *connections.lock().unwrap() += 1;
                let (log, handler, tls) = (Arc::clone(&log), Arc::clone(&handler), tls.clone());
                thread::spawn(move || {
                    let _ = connection.set_nodelay(true);
                    match tls {
                        None => drop(serve(connection, &log, &handler)),
                        Some(config) => {
                            let session = rustls::ServerConnection::new(config).unwrap();
                            drop(serve(rustls::StreamOwned::new(session, connection), &log, &handler));
                        }
                    }
                });
            }
        });
        server
    }

    /// A server without a protocol that passes on raw connections.
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

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

fn serve<S: Read + Write>(
    connection: S,
    log: &Mutex<Vec<Request>>,
    handler: &Arc<Handler>,
) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut first = String::new();
    if connection.read_line(&mut first)? == 0 {
        return Ok(());
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        connection.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut form = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)];
    connection.read_exact(&mut form)?;
    let form = String::from_utf8_lossy(&form).into_owned();
    let request = {
        let mut log = log.lock().unwrap();
        let before = log.iter().filter(|other| other.path == path).count();
        let request = Request { path, headers, form, before, full_body: Vec::new() };
        log.push(request.clone());
        request
    };
    let reply = handler(&request);
    reply.send(connection.get_mut())?;
    if reply.stays_open() {
        // Keeps the connection open until the client closes it.
        let _ = connection.read(&mut [0; 1]);
    }
    Ok(())
}

/// Serves files by path, with range requests.
pub(crate) fn files(all: Vec<(String, Vec<u8>)>) -> impl Fn(&Request) -> Reply + Send + Sync + Clone {
    let all = Arc::new(all);
    move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        match all.iter().find(|(name, _)| path.strip_prefix('/') == Some(name)) {
            Some((_, body)) => part(request, body),
            None => Reply::status(404, b"not here"),
        }
    }
}

/// The response with a file, or the requested range of it.
pub(crate) fn part(request: &Request, body: &[u8]) -> Reply {
    let is_same = request.header("if-range").is_none_or(|tag| tag == "\"tag\"");
    match request.range().filter(|first| *first < body.len() && is_same) {
        Some(first) => {
            let range = format!("bytes {first}-{}/{}", body.len() - 1, body.len());
            Reply::status(206, &body[first..]).with("Content-Range", &range).with("ETag", "\"tag\"")
        }
        None => Reply::ok(body).with("ETag", "\"tag\""),
    }
}
