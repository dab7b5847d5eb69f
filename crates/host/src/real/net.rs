//! The network of the machine that we run on: ureq with rustls.

use std::io::{self, Read};
use std::sync::OnceLock;

use rustls_native_certs::load_native_certs;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, RequestBuilder};

use crate::net::{ByProxy, NetError, Request, Response};

/// Connections that are kept, one set with encryption and one without: certificates are read only where they are needed.
#[derive(Debug, Default)]
pub(super) struct Clients {
    encrypted: OnceLock<Agent>,
    plain: OnceLock<Agent>,
}

impl Clients {
    pub(super) fn fetch(&self, request: &Request) -> Result<Response, NetError> {
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
            body: Box::new(Body(answer.into_body().into_reader())),
        })
    }
}

/// With what a request says.
fn made<Any>(builder: RequestBuilder<Any>, request: &Request) -> RequestBuilder<Any> {
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

/// Statuses are answers, and redirects too.
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

/// Those of the machine (`SSL_CERT_FILE` and `SSL_CERT_DIR` among them), which knows a company's own; where it has none, as in many
/// containers, those of Mozilla that come with us.
fn roots() -> RootCerts {
    let found = load_native_certs().certs;
    if found.is_empty() {
        return RootCerts::WebPki;
    }
    found.iter().map(|one| Certificate::from_der(one).to_owned()).collect::<Vec<_>>().into()
}

struct Body<R>(R);

impl<R: Read> Read for Body<R> {
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
        // What rustls refuses.
        Kind::InvalidData => NetError::Tls(text),
        _ => NetError::Unreachable(text),
    }
}
