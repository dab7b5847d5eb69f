//! Downloads over HTTP: redirects, retries and time limits.
//!
//! `NetworkAccess` makes single requests without any policy. `credentials` decides which credentials are sent.

mod credentials;
mod error;
mod exchange;
mod file;
pub(crate) mod resume;

use std::io::Read;
use std::time::Duration;

use gpubuild_exec::python::Network;
use gpubuild_host::net::{HttpRequest, Method, NetError, ProxyUse, RequestBody, Response};
use gpubuild_host::{Host, HostInfo};

use super::auth::CredentialScope;
pub use super::url::PlainHttp;
use super::url::{Scheme, Url};
pub use error::{FetchError, MissingCredentials, RejectedCredentials};
pub use exchange::{Exchange, RedirectPolicy};
pub use file::{DownloadError, FileDownload};
pub use resume::rest_of_range;

/// The variable with the time limit for an unresponsive server, in seconds.
const TIMEOUT: &str = "GPUBUILD_HTTP_TIMEOUT";
/// The variable with the number of retries.
const RETRIES: &str = "GPUBUILD_HTTP_RETRIES";
/// The limit on attempts, including those that made progress.
const MAX_ATTEMPTS: usize = 200;
/// How many times [`TIMEOUT`] a download may take before its average rate decides whether it makes progress.
const PATIENCE: u32 = 10;
/// The limit on redirects of one request.
const MAX_REDIRECTS: usize = 10;
/// The minimum transfer rate in bytes per second, averaged over the time limit.
pub const MIN_RATE: u64 = 256;
/// The longest part of a header in a message, in characters.
const SHOWN: usize = 100;
/// The limit on the delay that a `Retry-After` header can request.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// An HTTP client.
pub struct Client<'a> {
    /// The host interface that makes the requests.
    pub host: &'a dyn Host,
    /// Whether network access is allowed.
    pub network: Network,
    /// The hosts that may be contacted without encryption.
    pub plain: PlainHttp,
    /// Receives warnings about credentials that cannot be used.
    warn: Box<dyn Fn(&str) + Sync + 'a>,
    credentials: credentials::ClientCredentials,
    timeout: Duration,
    retries: u32,
}

fn seconds(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds))
}

fn retries(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|retries| *retries <= 20)
}

/// The first invalid variable, with a description of its valid values.
#[must_use]
pub fn bad_setting(host: &dyn HostInfo) -> Option<(&'static str, &'static str)> {
    let is_invalid =
        |name: &str, is_valid: fn(&str) -> bool| host.env().get(name).is_some_and(|text| !is_valid(text));
    if is_invalid(TIMEOUT, |text| seconds(text).is_some()) {
        return Some((TIMEOUT, "seconds from 0.1 to 3600"));
    }
    if is_invalid(RETRIES, |text| retries(text).is_some()) {
        return Some((RETRIES, "a number from 0 to 20"));
    }
    is_invalid(GIT_TIMEOUT, |text| git_seconds(text).is_some())
        .then_some((GIT_TIMEOUT, "seconds from 1 to 86400"))
}

/// The variable with the time limit of all git commands for one source.
const GIT_TIMEOUT: &str = "GPUBUILD_GIT_TIMEOUT";
/// The limit if it is not set. Repositories can have gigabytes.
const GIT_SECONDS: u64 = 60 * 60;

fn git_seconds(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|seconds| (1..=86400).contains(seconds))
}

/// The time limit of all git commands for one source.
#[must_use]
pub fn git_limit(host: &dyn HostInfo) -> Duration {
    Duration::from_secs(host.env().get(GIT_TIMEOUT).and_then(git_seconds).unwrap_or(GIT_SECONDS))
}

/// A file to download.
#[derive(Debug, Clone, Copy)]
pub struct FetchTarget<'a> {
    /// The URL.
    pub url: &'a Url,
    /// Which credentials apply to the URL.
    pub scope: CredentialScope<'a>,
}

/// A successful response, and the URL after redirects.
pub(super) struct FetchedBody {
    pub(super) response: Response,
    pub(super) url: Url,
}

/// A failed attempt.
pub(super) struct AttemptError {
    pub(super) error: FetchError,
    /// The delay that the server requests before the next attempt.
    pub(super) retry_after: Option<Duration>,
    /// By how many bytes the partial download is larger than after any earlier attempt.
    pub(super) progress: u64,
}

impl From<FetchError> for AttemptError {
    fn from(error: FetchError) -> Self {
        Self { error, retry_after: None, progress: 0 }
    }
}

impl<'a> Client<'a> {
    /// A client with the time limit and number of retries from the host's environment.
    #[must_use]
    pub fn new(
        host: &'a dyn Host,
        network: Network,
        plain: PlainHttp,
        warn: Box<dyn Fn(&str) + Sync + 'a>,
    ) -> Self {
        let timeout = host.env().get(TIMEOUT).and_then(seconds).unwrap_or(30.0);
        let retries = host.env().get(RETRIES).and_then(retries).unwrap_or(3);
        let timeout = Duration::from_secs_f64(timeout);
        Self {
            host,
            network,
            plain,
            warn,
            credentials: credentials::ClientCredentials::default(),
            timeout,
            retries,
        }
    }

    /// The same client with another time limit, and without retries.
    #[must_use]
    pub fn impatient(self, timeout: Duration) -> Self {
        Self { timeout, retries: 0, ..self }
    }

    /// How long a server may be slower than [`MIN_RATE`] while it prepares an answer, or in all attempts of a download.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.timeout * PATIENCE
    }

    /// Downloads a document of at most `max` bytes; one byte more is returned for larger documents. `None` if it does not exist
    /// (404, 410).
    ///
    /// # Errors
    /// The download failed.
    pub fn document(
        &self,
        target: FetchTarget<'_>,
        accept: Option<&str>,
        max: usize,
    ) -> Result<Option<Vec<u8>>, FetchError> {
        let headers: Vec<(String, String)> =
            accept.map(|accept| ("accept".to_owned(), accept.to_owned())).into_iter().collect();
        let url = target.url;
        self.attempts(url, || {
            let body = match self.request(target, &headers) {
                Err(AttemptError { error: FetchError::Status { status: 404 | 410, .. }, .. }) => {
                    return Ok(None);
                }
                other => other?,
            };
            let announced = length(&body.response);
            let mut bytes = Vec::new();
            self.read(body, |piece| {
                let room = (max + 1).saturating_sub(bytes.len());
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                bytes.len() <= max
            })?;
            if announced.is_some_and(|announced| announced != bytes.len() as u64) && bytes.len() <= max {
                let error = NetError::Cut(format!("after {} bytes", bytes.len()));
                return Err(FetchError::Net { url: url.shown(), error }.into());
            }
            Ok(Some(bytes))
        })
    }

    /// Repeats an attempt after transient failures, with increasing delays. An attempt that made progress resets the number of
    /// retries, unless the server takes too long for all of them.
    pub(super) fn attempts<T>(
        &self,
        url: &Url,
        mut attempt: impl FnMut() -> Result<T, AttemptError>,
    ) -> Result<T, FetchError> {
        if self.network == Network::Offline {
            return Err(FetchError::Offline(url.shown()));
        }
        let (mut count, mut received) = (0, 0);
        let started = self.host.elapsed();
        for _ in 0..MAX_ATTEMPTS {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(AttemptError { error, retry_after, progress }) => {
                    received += progress;
                    let time = self.host.elapsed().saturating_sub(started);
                    let is_in_time = time < self.patience() || received >= least_bytes(time);
                    if progress > 0 && is_in_time {
                        count = 0;
                    }
                    if count >= self.retries || !error.is_transient() {
                        return Err(error);
                    }
                    let backoff = Duration::from_millis(250 << count.min(6));
                    self.host.pause(retry_after.unwrap_or(backoff).min(MAX_WAIT));
                    count += 1;
                }
            }
        }
        let error = NetError::Cut(format!("after {MAX_ATTEMPTS} attempts"));
        Err(FetchError::Net { url: url.shown(), error })
    }

    /// Makes a request and follows redirects. A status other than 200 and 206 is an error.
    pub(super) fn request(
        &self,
        target: FetchTarget<'_>,
        headers: &[(String, String)],
    ) -> Result<FetchedBody, AttemptError> {
        let exchange = Exchange { headers, redirects: RedirectPolicy::Follow, ..Exchange::get(target) };
        let body = self.answered(&exchange)?;
        let status = body.response.status;
        if matches!(status, 200 | 206) {
            return Ok(body);
        }
        let seconds = body.response.header("retry-after").and_then(|text| text.trim().parse().ok());
        let error = FetchError::Status { url: body.url.shown(), status };
        Err(AttemptError { error, retry_after: seconds.map(Duration::from_secs), progress: 0 })
    }

    /// Passes the body to `take` in pieces, until it ends or `take` returns `false`.
    pub(super) fn read(
        &self,
        body: FetchedBody,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), FetchError> {
        let mut rate = TransferRate::new(self.host, self.timeout);
        let FetchedBody { mut response, url } = body;
        let mut buffer = vec![0; 128 << 10];
        loop {
            match response.body.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    if !take(&buffer[..count]) {
                        return Ok(());
                    }
                    rate.add(count as u64, || url.shown())?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<NetError>()).cloned();
                    let error = inner.unwrap_or_else(|| NetError::Cut(error.to_string()));
                    return Err(FetchError::Net { url: url.shown(), error });
                }
            }
        }
    }
}

/// Enforces the minimum transfer rate of [`MIN_RATE`], averaged over a time limit.
pub struct TransferRate<'a> {
    host: &'a dyn Host,
    timeout: Duration,
    /// Start of the current measurement.
    start: Duration,
    /// Bytes since then.
    received: u64,
}

impl<'a> TransferRate<'a> {
    /// Starts to measure.
    #[must_use]
    pub fn new(host: &'a dyn Host, timeout: Duration) -> Self {
        Self { host, timeout, start: host.elapsed(), received: 0 }
    }

    /// Counts bytes.
    ///
    /// # Errors
    /// [`FetchError::Slow`] if too few arrived, with the URL.
    pub fn add(&mut self, count: u64, url: impl FnOnce() -> String) -> Result<(), FetchError> {
        self.received += count;
        let within = self.host.elapsed().saturating_sub(self.start);
        if within < self.timeout {
            return Ok(());
        }
        if self.received < least_bytes(within) {
            return Err(FetchError::Slow { url: url(), got: self.received, within });
        }
        (self.start, self.received) = (self.host.elapsed(), 0);
        Ok(())
    }
}

/// The number of bytes that have to arrive within a time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the product is small"
)]
fn least_bytes(within: Duration) -> u64 {
    (MIN_RATE as f64 * within.as_secs_f64()) as u64
}

/// The value of the `Content-Length` header.
pub(super) fn length(response: &Response) -> Option<u64> {
    response.header("content-length")?.trim().parse().ok()
}
