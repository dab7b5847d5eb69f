//! The network of the machine that gpubuild runs on: ureq with rustls.

use std::io::{self, Read};
use std::sync::OnceLock;

use rustls_native_certs::load_native_certs;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, RequestBuilder};

use crate::net::{ByProxy, HttpRequest, NetError, Response};

/// Pools of connections, with and without TLS, so that certificates are read only if they are needed.
#[derive(Debug, Default)]
pub(super) struct Clients {
    encrypted: OnceLock<Agent>,
    plain: OnceLock<Agent>,
}

impl Clients {
    pub(super) fn fetch(&self, request: &HttpRequest) -> Result<Response, NetError> {
        let agent = if request.url.starts_with("https:") {
            self.encrypted.get_or_init(|| agent(roots()))
        } else {
            self.plain.get_or_init(|| agent(RootCerts::WebPki))
        };
        let answer = match &request.form {
            None => made(agent.get(&request.url), request).call(),
            Some(form) => made(agent.post(&request.url), request)
                .content_type("application/x-www-form-urlencoded")
                .send(form.as_bytes()),
        };
        let answer = answer.map_err(|error| told(&error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Response {
            status: answer.status().as_u16(),
            headers: answer
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())))
                .collect(),
            body: Box::new(LimitedBody(answer.into_body().into_reader())),
        })
    }
}

/// Applies the settings of a request.
fn made<Any>(builder: RequestBuilder<Any>, request: &HttpRequest) -> RequestBuilder<Any> {
    let patience = Some(request.patience);
    let mut asked = builder
        .config()
        .timeout_resolve(patience)
        .timeout_connect(patience)
        .timeout_send_request(patience)
        .timeout_send_body(patience)
        .timeout_recv_response(patience)
        .timeout_per_read(patience);
    if request.proxy == ByProxy::Never {
        asked = asked.proxy(None);
    }
    request.headers.iter().fold(asked.build(), |asked, (name, value)| asked.header(name, value))
}

/// Every status is returned as a response, including redirects.
fn agent(roots: RootCerts) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("gpubuild/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .build()
        .new_agent()
}

/// The machine's certificates (including `SSL_CERT_FILE` and `SSL_CERT_DIR`), among which are those of a company. If there are
/// none, as in many containers, the embedded ones of Mozilla.
fn roots() -> RootCerts {
    let found = load_native_certs().certs;
    if found.is_empty() {
        return RootCerts::WebPki;
    }
    found.iter().map(|one| Certificate::from_der(one).to_owned()).collect::<Vec<_>>().into()
}

struct LimitedBody<R>(R);

impl<R: Read> Read for LimitedBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            io::Error::other(told(&ureq::Error::from(error)))
        })
    }
}

fn told(error: &ureq::Error) -> NetError {
    let text = error.to_string();
    match error {
        ureq::Error::Timeout(_) => NetError::Timeout(text),
        ureq::Error::Tls(_) | ureq::Error::Pem(_) | ureq::Error::Rustls(_) | ureq::Error::TlsRequired => {
            NetError::Tls(text)
        }
        ureq::Error::Io(inner) => of_io(inner),
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::InvalidProxyUrl => NetError::Unreachable(text),
        _ => NetError::Garbage(text),
    }
}

fn of_io(error: &io::Error) -> NetError {
    use io::ErrorKind as Kind;
    let text = error.to_string();
    match error.kind() {
        Kind::TimedOut | Kind::WouldBlock => NetError::Timeout(text),
        Kind::UnexpectedEof | Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => {
            NetError::Cut(text)
        }
        // Errors of rustls.
        Kind::InvalidData => NetError::Tls(text),
        _ => NetError::Unreachable(text),
    }
}
