//! The network part of the host interface: one request, one response. The callers handle redirects and retries, and decide which
//! responses they accept.

use std::fmt;
use std::io::Read;
use std::time::Duration;

/// An HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The address: `https://…`, `http://…`.
    pub url: String,
    /// Names and values of headers.
    pub headers: Vec<(String, String)>,
    /// Form data, `name=value&…`, which is sent with POST. `None` sends GET.
    pub form: Option<String>,
    /// Time limit for the connection, for the start of the response, and between any two pieces of it.
    pub patience: Duration,
    /// Whether a proxy of the environment may be used.
    pub proxy: ByProxy,
}

/// Headers and forms can contain secrets, so only their names are shown.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Request")
            .field("url", &self.url)
            .field("headers", &headers)
            .field("has_form", &self.form.is_some())
            .finish_non_exhaustive()
    }
}

/// Whether a proxy of the environment may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByProxy {
    /// Yes, unless the environment excludes the server.
    Allowed,
    /// No.
    Never,
}

/// A response, whose body is read as a stream.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body. Read errors are `io::Error`s that contain a [`NetError`].
    pub body: Box<dyn Read + Send>,
}

impl Response {
    /// The value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Why a request has no response, or an incomplete one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// A time limit was exceeded.
    #[error("timed out ({0})")]
    Timeout(String),
    /// The certificate is invalid, or encryption failed for another reason.
    #[error("{0}")]
    Tls(String),
    /// The connection ended early.
    #[error("the connection was closed early ({0})")]
    Cut(String),
    /// The response is not HTTP.
    #[error("the response is not valid HTTP ({0})")]
    Garbage(String),
    /// This host has no network.
    #[error("this host has no network")]
    None,
}
