//! Requests to the server of a store, and the interface of the three kinds.

use std::io::Read as _;
use std::time::Duration;

use gpubuild_host::net::{Method, RequestBody, Response};
use gpubuild_host::{Host, HostPath};
use gpubuild_release::fetch::{Client, Exchange, FetchTarget, RedirectPolicy, TransferRate};
use serde::Serialize;

use super::content::{Blob, transfer_error};
use super::error::RemoteError;
use super::manifest;

/// How many times longer than for other responses a server may take to confirm an upload.
const UPLOAD_PATIENCE: u32 = 10;

/// S3's error code if not only the object is missing.
const NO_BUCKET: &str = "NoSuchBucket";

/// The largest document of an error that is read, in bytes.
const MAX_ERROR: u64 = 8 << 10;

/// A manifest on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedEntry {
    /// Its id on the server.
    pub id: String,
    /// Seconds since 1970, if the server says when it was written.
    pub modified: Option<u64>,
}

/// What a server stores.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object<'a> {
    /// A manifest, by the id of its entry.
    Manifest(&'a str),
    /// A blob.
    Blob(&'a Blob),
}

/// A kind of server.
pub(crate) trait Server: Sync {
    /// Reads an object; `None` if the server does not have it. With the URL for messages. If a blob is requested from a byte other than
    /// the first, the response has status 206, or status 200 and all bytes.
    fn get(
        &self,
        object: Object<'_>,
        from: u64,
        call: &Call<'_>,
    ) -> Result<Option<(String, Response)>, RemoteError>;

    /// Whether the server has a blob.
    fn has(&self, blob: &Blob, call: &Call<'_>) -> Result<bool, RemoteError>;

    /// Stores a blob, which is in a file.
    fn put_blob(&self, blob: &Blob, file: &HostPath, call: &Call<'_>) -> Result<(), RemoteError>;

    /// Stores a manifest. Its blobs are on the server.
    fn put_manifest(
        &self,
        id: &str,
        bytes: Vec<u8>,
        blobs: &[Blob],
        call: &Call<'_>,
    ) -> Result<(), RemoteError>;

    /// Lists the manifests.
    fn list(&self, call: &Call<'_>) -> Result<Vec<ListedEntry>, RemoteError>;

    /// Removes a manifest.
    fn remove(&self, id: &str, call: &Call<'_>) -> Result<(), RemoteError>;

    /// Removes the blobs that no manifest names any more. Returns their number and size. Registries do this themselves.
    fn remove_unused_blobs(
        &self,
        _keep: &std::collections::BTreeSet<String>,
        _call: &Call<'_>,
    ) -> Result<(usize, u64), RemoteError> {
        Ok((0, 0))
    }
}

/// An operation with a deadline, which can consist of several requests.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) client: &'a Client<'a>,
    pub(crate) timeout: Duration,
    /// Time since the host was created.
    pub(crate) deadline: Duration,
}

/// A request without its limits.
pub(crate) struct ServerRequest<'a> {
    pub(crate) target: FetchTarget<'a>,
    pub(crate) method: Method,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: RequestBody,
    pub(crate) redirects: RedirectPolicy,
}

impl<'a> ServerRequest<'a> {
    pub(crate) fn new(method: Method, target: FetchTarget<'a>) -> Self {
        let (headers, body) = (Vec::new(), RequestBody::Empty);
        Self { target, method, headers, body, redirects: RedirectPolicy::SameServer }
    }

    pub(crate) fn body(self, body: RequestBody) -> Self {
        Self { body, ..self }
    }

    /// The same request for everything from this byte on.
    pub(crate) fn from(self, byte: u64) -> Self {
        if byte == 0 { self } else { self.header("range", &format!("bytes={byte}-")) }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl<'a> Call<'a> {
    pub(crate) fn host(&self) -> &'a dyn Host {
        self.client.host
    }

    /// The same operation with an earlier deadline.
    pub(crate) fn within(self, time: Duration) -> Self {
        Self { deadline: self.deadline.min(self.host().elapsed() + time), ..self }
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Result<Duration, RemoteError> {
        let left = self.deadline.saturating_sub(self.host().elapsed());
        if left.is_zero() {
            return Err(RemoteError::Budget("the time for the shared store is used up".to_owned()));
        }
        Ok(left)
    }

    /// Sends a request. Any status except redirects, and except 401 and 403 without a signed URL, is a response.
    pub(crate) fn send(&self, request: &ServerRequest<'_>) -> Result<Response, RemoteError> {
        let left = self.left()?;
        let is_upload = matches!(request.method, Method::Put | Method::Post);
        let timeout = if is_upload { self.timeout * UPLOAD_PATIENCE } else { self.timeout };
        Ok(self.client.exchange(&Exchange {
            method: request.method,
            headers: &request.headers,
            body: &request.body,
            redirects: request.redirects,
            timeout: Some(timeout.min(left)),
            total: Some(left),
            ..Exchange::get(request.target)
        })?)
    }

    /// Sends a request and returns the response if the object exists.
    pub(crate) fn find(&self, request: &ServerRequest<'_>) -> Result<Option<Response>, RemoteError> {
        let response = self.send(request)?;
        let is_range = request.headers.iter().any(|(name, _)| name == "range");
        match response.status {
            200 => Ok(Some(response)),
            206 if is_range => Ok(Some(response)),
            404 | 410 => match self.failed(request, response) {
                RemoteError::Status { code: Some(code), url, status } if code == NO_BUCKET => {
                    Err(RemoteError::Status { url, status, code: Some(code) })
                }
                _ => Ok(None),
            },
            _ => Err(self.failed(request, response)),
        }
    }

    /// Sends a request whose response has to be a success.
    pub(crate) fn succeed(&self, request: &ServerRequest<'_>) -> Result<Response, RemoteError> {
        let response = self.send(request)?;
        if (200..300).contains(&response.status) { Ok(response) } else { Err(self.failed(request, response)) }
    }

    fn failed(&self, request: &ServerRequest<'_>, response: Response) -> RemoteError {
        let (url, status) = (request.target.url.shown(), response.status);
        let text = self.body(&url, response, MAX_ERROR).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        RemoteError::Status { url, status, code: text.and_then(|text| error_code(&text)) }
    }

    /// The transfer rate of a body.
    pub(crate) fn rate(&self) -> TransferRate<'a> {
        TransferRate::new(self.host(), self.timeout)
    }

    /// Reads a body of at most `max` bytes.
    pub(crate) fn body(&self, url: &str, mut response: Response, max: u64) -> Result<Vec<u8>, RemoteError> {
        let (mut bytes, mut piece, mut rate) = (Vec::new(), vec![0; 16 << 10], self.rate());
        loop {
            let count = match response.body.read(&mut piece) {
                Ok(0) => return Ok(bytes),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(transfer_error(url, error)),
            };
            bytes.extend_from_slice(&piece[..count]);
            if bytes.len() as u64 > max {
                let what = format!("it is larger than {max} bytes");
                return Err(RemoteError::Damaged { url: url.to_owned(), what });
            }
            rate.add(count as u64, || url.to_owned())?;
        }
    }

    /// Reads the body of a document, such as a manifest.
    pub(crate) fn document(&self, url: &str, response: Response) -> Result<Vec<u8>, RemoteError> {
        self.body(url, response, manifest::MAX_BYTES)
    }
}

/// The text in `<Code>` of an error document, as S3 sends it.
fn error_code(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() < 64 && code.chars().all(|c| c.is_ascii_alphanumeric())).then(|| code.to_owned())
}
