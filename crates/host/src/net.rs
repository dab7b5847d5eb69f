//! HTTP requests of the host interface: one request yields one response. Callers handle redirects, retries and error statuses.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use crate::HostPath;

/// An HTTP request.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The URL, with the scheme `https` or `http`.
    pub url: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The method.
    pub method: Method,
    /// The body.
    pub body: RequestBody,
    /// Time limit for each phase: connecting, sending, the start of the response, and every read of the body.
    pub timeout: Duration,
    /// Time limit for the complete request, with the response's body.
    pub total: Option<Duration>,
    /// Whether the proxy settings in the environment are used.
    pub proxy: ProxyUse,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// Reads a resource.
    #[default]
    Get,
    /// Reads the headers of a resource.
    Head,
    /// Replaces a resource.
    Put,
    /// Creates a resource, or sends a form.
    Post,
    /// Removes a resource.
    Delete,
}

/// The body of a request.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum RequestBody {
    /// No body.
    #[default]
    Empty,
    /// Form data, `name=value&…`.
    Form(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The content of a file, which is streamed.
    File(HostPath),
}

/// Omits the content, which can contain secrets.
impl fmt::Debug for RequestBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("Empty"),
            Self::Form(_) => formatter.write_str("Form(…)"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
            Self::File(path) => write!(formatter, "File({path})"),
        }
    }
}

/// Prints only the names of headers, because their values can contain secrets.
impl fmt::Debug for HttpRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Request")
            .field("url", &self.url)
            .field("headers", &headers)
            .field("method", &self.method)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// Whether the proxy settings in the environment are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyUse {
    /// They are used, unless `NO_PROXY` excludes the server.
    Allowed,
    /// They are ignored.
    Never,
}

/// A response with a streamed body.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names (in lowercase) and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The body. Read errors are `io::Error`s that contain a [`NetError`].
    pub body: Box<dyn Read + Send>,
}

impl Response {
    /// The value of a header. `name` is in lowercase.
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

/// Why a request failed, or why its response is incomplete.
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
