//! Network access of the real host: ureq with rustls.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use rustls_native_certs::load_native_certs;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::WithBody;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, DefaultConnector};
use ureq::{Agent, RequestBuilder};

use super::read_limit::{LimitedReads, read_within};
use crate::net::{HttpRequest, Method, NetError, ProxyUse, RequestBody, Response};

/// Connection pools. The pool for plain HTTP is separate, so that certificates are only read for HTTPS.
#[derive(Debug, Default)]
pub(super) struct Clients {
    encrypted: OnceLock<Result<Agent, NetError>>,
    plain: OnceLock<Agent>,
}

impl Clients {
    pub(super) fn fetch(&self, request: &HttpRequest) -> Result<Response, NetError> {
        let agent = if request.url.starts_with("https:") {
            self.encrypted.get_or_init(|| roots().map(agent)).as_ref().map_err(Clone::clone)?
        } else {
            self.plain.get_or_init(|| agent(RootCerts::WebPki))
        };
        let url = &request.url;
        let response = match request.method {
            Method::Get => configured(agent.get(url), request).call(),
            Method::Head => configured(agent.head(url), request).call(),
            Method::Delete => configured(agent.delete(url), request).call(),
            Method::Put => send(configured(agent.put(url), request), &request.body),
            Method::Post => send(configured(agent.post(url), request), &request.body),
        };
        let response = response.map_err(|error| classify(&error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Response {
            status: response.status().as_u16(),
            headers: response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())))
                .collect(),
            body: Box::new(Body { reader: response.into_body().into_reader(), timeout: request.timeout }),
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "host interface: a file that is sent")]
fn send(
    builder: RequestBuilder<WithBody>,
    body: &RequestBody,
) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
    match body {
        RequestBody::Empty => builder.send_empty(),
        RequestBody::Form(form) => {
            builder.content_type("application/x-www-form-urlencoded").send(form.as_bytes())
        }
        RequestBody::Bytes(bytes) => builder.send(&bytes[..]),
        // With its length, because some servers refuse a body without one.
        RequestBody::File(path) => builder.send(std::fs::File::open(path.as_str())?),
    }
}

/// Applies timeouts, proxy setting and headers of a request.
fn configured<Any>(builder: RequestBuilder<Any>, request: &HttpRequest) -> RequestBuilder<Any> {
    let timeout = Some(request.timeout);
    let mut builder = builder
        .config()
        .timeout_global(request.total)
        .timeout_resolve(timeout)
        .timeout_connect(timeout)
        .timeout_send_request(timeout)
        .timeout_send_body(timeout)
        .timeout_recv_response(timeout)
        .timeout_per_read(timeout);
    if matches!(request.body, RequestBody::File(_)) {
        builder = builder.timeout_send_body(request.total);
    }
    if request.proxy == ProxyUse::Never {
        builder = builder.proxy(None);
    }
    request.headers.iter().fold(builder.build(), |builder, (name, value)| builder.header(name, value))
}

/// Creates a client that returns error statuses and redirects as ordinary responses.
fn agent(roots: RootCerts) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("gpubuild/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .tls_config(TlsConfig::builder().root_certs(roots).build())
        .build();
    Agent::with_parts(config, DefaultConnector::new().chain(LimitedReads), DefaultResolver::default())
}

/// The variables that name certificates instead of the machine's.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", DIRECTORY];
/// The variable that names folders of certificates, separated as in `PATH`.
const DIRECTORY: &str = "SSL_CERT_DIR";

/// Limit of the certificates that the user names, in bytes. Those of a distribution have less than 1 MiB.
const MAX_CERTIFICATES: u64 = 16 << 20;

/// The machine's certificates, or those that the user names, so that company certificates work. Falls back to the embedded Mozilla
/// certificates on machines without certificates, such as many containers, but not if the user names others.
fn roots() -> Result<RootCerts, NetError> {
    for variable in CERTIFICATES {
        if let Some(value) = value(variable) {
            check_certificates(variable, &value)?;
        }
    }
    let found = load_native_certs();
    if !found.certs.is_empty() {
        return Ok(found
            .certs
            .iter()
            .map(|one| Certificate::from_der(one).to_owned())
            .collect::<Vec<_>>()
            .into());
    }
    let named: Vec<&str> = CERTIFICATES.into_iter().filter(|name| value(name).is_some()).collect();
    if named.is_empty() {
        return Ok(RootCerts::WebPki);
    }
    let cause = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    Err(NetError::Tls(format!("{} names no certificate that can be read{cause}", named.join(" or "))))
}

/// Refuses certificates that would be read without end or limit: pipes, devices and large files.
#[expect(clippy::disallowed_methods, reason = "host interface: files that another crate reads")]
fn check_certificates(variable: &str, value: &OsStr) -> Result<(), NetError> {
    let mut size = 0;
    let paths: Vec<PathBuf> =
        if variable == DIRECTORY { std::env::split_paths(value).collect() } else { vec![value.into()] };
    for path in paths.iter().filter(|path| !path.as_os_str().is_empty()) {
        // A missing file is an error when it is read.
        let Ok(found) = std::fs::metadata(path) else { continue };
        if found.is_dir() {
            let files = std::fs::read_dir(path).into_iter().flatten().flatten();
            let files = files.filter_map(|file| std::fs::metadata(file.path()).ok());
            size += files.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum::<u64>();
        } else if found.is_file() {
            size += found.len();
        } else {
            return Err(NetError::Tls(format!("{variable} names `{}`, which is not a file", path.display())));
        }
        if size > MAX_CERTIFICATES {
            let limit = MAX_CERTIFICATES >> 20;
            return Err(NetError::Tls(format!("the certificates in {variable} are larger than {limit} MiB")));
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "host interface: the environment")]
fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A response body that limits the time of each read, and converts read errors to [`NetError`].
struct Body<R> {
    reader: R,
    timeout: Duration,
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_within(self.timeout, &mut self.reader, buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            io::Error::other(classify(&ureq::Error::from(error)))
        })
    }
}

fn classify(error: &ureq::Error) -> NetError {
    let text = error.to_string();
    match error {
        ureq::Error::Timeout(_) => NetError::Timeout(text),
        ureq::Error::Tls(_) | ureq::Error::Pem(_) | ureq::Error::Rustls(_) | ureq::Error::TlsRequired => {
            NetError::Tls(tls_problem(text))
        }
        ureq::Error::Io(inner) => classify_io(inner),
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::InvalidProxyUrl => NetError::Unreachable(text),
        _ => NetError::Garbage(text),
    }
}

fn classify_io(error: &io::Error) -> NetError {
    use io::ErrorKind as Kind;
    let text = error.to_string();
    match error.kind() {
        Kind::TimedOut | Kind::WouldBlock => NetError::Timeout(text),
        Kind::UnexpectedEof | Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => {
            NetError::Cut(text)
        }
        // TLS errors from rustls.
        Kind::InvalidData => NetError::Tls(tls_problem(text)),
        _ => NetError::Unreachable(text),
    }
}

/// Describes frequent problems, for which rustls has only a name.
fn tls_problem(text: String) -> String {
    if text.ends_with(": UnknownIssuer") {
        return format!("{text}: this machine does not trust the authority that signed it");
    }
    if text.contains("CaUsedAsEndEntity") {
        return format!(
            "{text}: the server uses a certificate of an authority (`CA:TRUE`) as its own, as `openssl req -x509` creates it by default; create one with `-addext basicConstraints=critical,CA:FALSE`"
        );
    }
    text
}

#[cfg(all(test, unix))]
#[expect(clippy::disallowed_methods, reason = "tests create files")]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_do_not_end_or_are_large_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.pem");
        std::fs::File::create(&large).unwrap().set_len(MAX_CERTIFICATES + 1).unwrap();
        let check = |variable: &str, value: &std::path::Path| {
            check_certificates(variable, value.as_os_str()).map_err(|error| error.to_string())
        };
        let refused = check("SSL_CERT_FILE", "/dev/zero".as_ref()).unwrap_err();
        assert!(refused.contains("SSL_CERT_FILE names `/dev/zero`, which is not a file"), "{refused}");
        assert!(check("SSL_CERT_FILE", &large).unwrap_err().contains("larger than 16 MiB"));
        assert!(check(DIRECTORY, folder.path()).unwrap_err().contains("larger than 16 MiB"));
        std::fs::File::create(&large).unwrap();
        assert_eq!(check(DIRECTORY, folder.path()), Ok(()));
        assert_eq!(check("SSL_CERT_FILE", &folder.path().join("missing")), Ok(()));
    }
}
