//! The network, as far as it goes through the door: one request, one answer. Redirects, repetitions and what an answer may say are
//! for those who ask.

use std::fmt;
use std::io::Read;
use std::time::Duration;

/// A request for what is at an address.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// `https://…`, `http://…`.
    pub url: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// What a form has, `name=value&…`: then it is sent with POST. Without it is GET.
    pub form: Option<String>,
    /// How long may pass until a connection stands, until the answer begins, and between any two pieces of it.
    pub patience: Duration,
    /// Whether a proxy of the environment may be used.
    pub proxy: ByProxy,
}

/// Headers and forms may open doors: only their names are shown.
impl fmt::Debug for Request {
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
    /// Yes, unless the environment excepts the host.
    Allowed,
    /// No.
    Never,
}

/// An answer; its body is read as it comes.
pub struct Response {
    /// Status.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Errors of reading are [`NetError`]s inside of `io::Error`s.
    pub body: Box<dyn Read + Send>,
}

impl Response {
    /// A header.
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

/// Why there is no answer, or only a part of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// Nobody is there.
    #[error("{0}")]
    Unreachable(String),
    /// It takes too long.
    #[error("nothing came for too long ({0})")]
    Timeout(String),
    /// The certificate, or what else speaks against the encryption.
    #[error("{0}")]
    Tls(String),
    /// The connection ended early.
    #[error("the connection was cut ({0})")]
    Cut(String),
    /// What came is no answer.
    #[error("what came is no answer of a web server ({0})")]
    Garbage(String),
    /// This host has no network.
    #[error("this host has no network")]
    None,
}
