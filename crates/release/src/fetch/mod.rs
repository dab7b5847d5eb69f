//! Downloads over the network: which redirects are followed, when a request is repeated, and how partial downloads are resumed.
//!
//! `NetworkAccess` makes one request; every rule is here. `entry` decides which credentials are sent.

mod entry;
mod error;

use std::io::Read;
use std::time::Duration;

use gpubuild_exec::python::Network;
use gpubuild_host::net::{ByProxy, HttpRequest, NetError, Response};
use gpubuild_host::{Host, HostInfo};

use super::auth::Door;
pub use super::url::PlainHttp;
use super::url::{Scheme, Url};
pub use error::{FetchError, MissingFile, RefusedRequest};

/// The variable with the seconds that nothing may come for.
const TIMEOUT: &str = "GPUBUILD_HTTP_TIMEOUT";
/// The variable with how often something is tried again.
const RETRIES: &str = "GPUBUILD_HTTP_RETRIES";
/// However much progress each makes.
const MOST_ATTEMPTS: usize = 200;
/// Most redirects.
const MOST_REDIRECTS: usize = 10;
/// Bytes in a second that a server has to send, on average over the time of [`TIMEOUT`].
const SLOWEST: u64 = 256;
/// The longest that a server may ask us to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Fetches.
pub struct Client<'a> {
    /// By way of.
    pub host: &'a dyn Host,
    /// Whether at all.
    pub network: Network,
    /// Without encryption.
    pub plain: PlainHttp,
    /// Receives warnings about settings that are ignored.
    warn: Box<dyn Fn(&str) + 'a>,
    entry: entry::FetchEntry,
    patience: Duration,
    retries: u32,
}

fn seconds(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds))
}

fn times(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|times| *times <= 20)
}

/// A setting of the environment that means nothing, and what it should be.
#[must_use]
pub fn bad_setting(host: &dyn HostInfo) -> Option<(&'static str, &'static str)> {
    let is_set =
        |name: &str, is_good: fn(&str) -> bool| host.env().get(name).is_some_and(|text| !is_good(text));
    if is_set(TIMEOUT, |text| seconds(text).is_some()) {
        return Some((TIMEOUT, "seconds from 0.1 to 3600"));
    }
    is_set(RETRIES, |text| times(text).is_some()).then_some((RETRIES, "a number from 0 to 20"))
}

/// What is fetched.
#[derive(Debug, Clone, Copy)]
pub struct FetchTarget<'a> {
    /// Its address.
    pub url: &'a Url,
    /// How its server is asked.
    pub door: Door<'a>,
}

/// An answer, and where it came from.
pub(super) struct FetchedBody {
    pub(super) response: Response,
    pub(super) url: Url,
}

/// What tells a failure from the next attempt: how long to wait before.
pub(super) struct Again {
    pub(super) error: FetchError,
    pub(super) wait: Option<Duration>,
    /// Whether more is there than after any attempt before.
    pub(super) progress: bool,
}

impl From<FetchError> for Again {
    fn from(error: FetchError) -> Self {
        Self { error, wait: None, progress: false }
    }
}

impl<'a> Client<'a> {
    /// A client that uses a host interface. The host's environment sets time limits and retries.
    #[must_use]
    pub fn new(host: &'a dyn Host, network: Network, plain: PlainHttp, warn: Box<dyn Fn(&str) + 'a>) -> Self {
        let patience = host.env().get(TIMEOUT).and_then(seconds).unwrap_or(30.0);
        let retries = host.env().get(RETRIES).and_then(times).unwrap_or(3);
        let patience = Duration::from_secs_f64(patience);
        Self { host, network, plain, warn, entry: entry::FetchEntry::default(), patience, retries }
    }

    /// A small document. `None` if it does not exist (404, 410).
    ///
    /// # Errors
    /// The download failed.
    pub fn document(
        &self,
        target: FetchTarget<'_>,
        accept: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<u8>>, FetchError> {
        let headers: Vec<(String, String)> =
            accept.map(|accept| ("accept".to_owned(), accept.to_owned())).into_iter().collect();
        let url = target.url;
        self.attempts(url, || {
            let answer = match self.ask(target, &headers) {
                Err(Again { error: FetchError::Status { status: 404 | 410, .. }, .. }) => return Ok(None),
                other => other?,
            };
            let announced = length(&answer.response);
            let mut bytes = Vec::new();
            self.read(answer, |piece| {
                let room = (most + 1).saturating_sub(bytes.len());
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                bytes.len() <= most
            })?;
            if announced.is_some_and(|announced| announced != bytes.len() as u64) && bytes.len() <= most {
                let error = NetError::Cut(format!("{} bytes came", bytes.len()));
                return Err(FetchError::Net { url: url.shown(), error }.into());
            }
            Ok(Some(bytes))
        })
    }

    /// Tries, and tries again after a while where that may help. What made progress begins to count anew.
    pub(super) fn attempts<T>(
        &self,
        url: &Url,
        mut attempt: impl FnMut() -> Result<T, Again>,
    ) -> Result<T, FetchError> {
        if self.network == Network::Offline {
            return Err(FetchError::Offline(url.shown()));
        }
        let mut count = 0;
        for _ in 0..MOST_ATTEMPTS {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Again { error, wait, progress }) => {
                    if progress {
                        count = 0;
                    }
                    if count >= self.retries || !error.is_passing() {
                        return Err(error);
                    }
                    let backoff = Duration::from_millis(250 << count.min(6));
                    self.host.pause(wait.unwrap_or(backoff).min(LONGEST_WAIT));
                    count += 1;
                }
            }
        }
        let error = NetError::Cut(format!("{MOST_ATTEMPTS} times"));
        Err(FetchError::Net { url: url.shown(), error })
    }

    /// Asks, and follows where it leads. Every answer but success is an error.
    pub(super) fn ask(
        &self,
        target: FetchTarget<'_>,
        headers: &[(String, String)],
    ) -> Result<FetchedBody, Again> {
        let url = target.url;
        let mut at = url.clone();
        let mut has_entered = false;
        let mut redirects = 0;
        self.greet(target);
        loop {
            let response = self.one(url, &at, headers)?;
            match response.status {
                200 | 206 => return Ok(FetchedBody { response, url: at }),
                301 | 302 | 303 | 307 | 308 => {
                    redirects += 1;
                    if redirects > MOST_REDIRECTS {
                        return Err(FetchError::Redirects(url.shown()).into());
                    }
                    let Some(location) = response.header("location") else {
                        return Err(FetchError::Status { url: at.shown(), status: response.status }.into());
                    };
                    let next = at.join(location).map_err(FetchError::Url)?;
                    if at.scheme() == Scheme::Https && next.scheme() == Scheme::Http {
                        return Err(FetchError::Downgrade { from: at.shown(), to: next.shown() }.into());
                    }
                    at = next;
                }
                401 if !has_entered && at.is_same_server(url) => {
                    has_entered = true;
                    self.enter(target, &at, &response)?;
                }
                status @ (401 | 403) if at.is_same_server(url) => {
                    return Err(self.denied(target, &at, status).into());
                }
                status => {
                    let wait = response.header("retry-after").and_then(|text| text.trim().parse().ok());
                    let error = FetchError::Status { url: at.shown(), status };
                    return Err(Again { error, wait: wait.map(Duration::from_secs), progress: false });
                }
            }
        }
    }

    /// One request. Credentials are sent only to the server that they are for.
    fn one(&self, first: &Url, at: &Url, headers: &[(String, String)]) -> Result<Response, Again> {
        let shown = if at.is_same_server(first) { self.entry.header(at) } else { None };
        self.send(at, [headers, shown.as_slice()].concat(), None)
    }

    /// One request with these headers and no others.
    fn send(
        &self,
        at: &Url,
        headers: Vec<(String, String)>,
        form: Option<String>,
    ) -> Result<Response, Again> {
        if at.scheme() == Scheme::Http && !at.is_loopback() && self.plain == PlainHttp::Loopback {
            return Err(FetchError::NotEncrypted(at.shown()).into());
        }
        let proxy = if at.is_loopback() { ByProxy::Never } else { ByProxy::Allowed };
        let request = HttpRequest { url: at.to_string(), headers, form, patience: self.patience, proxy };
        let response =
            self.host.fetch(&request).map_err(|error| FetchError::Net { url: at.shown(), error })?;
        let encoding = response.header("content-encoding").unwrap_or("identity");
        if !encoding.trim().eq_ignore_ascii_case("identity") {
            let what = format!("it is encoded as `{encoding}`");
            return Err(FetchError::Length { url: at.shown(), what }.into());
        }
        Ok(response)
    }

    /// Hands over what comes until it ends, or until `take` has enough.
    pub(super) fn read(
        &self,
        answer: FetchedBody,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), FetchError> {
        let mut pace = Pace::new(self);
        let FetchedBody { mut response, url } = answer;
        let mut buffer = vec![0; 128 << 10];
        loop {
            match response.body.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    if !take(&buffer[..count]) {
                        return Ok(());
                    }
                    pace.step(count as u64, &url)?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let told = error.get_ref().and_then(|inner| inner.downcast_ref::<NetError>()).cloned();
                    let error = told.unwrap_or_else(|| NetError::Cut(error.to_string()));
                    return Err(FetchError::Net { url: url.shown(), error });
                }
            }
        }
    }
}

/// Compares the transfer rate with the minimum.
struct Pace<'a> {
    host: &'a dyn Host,
    patience: Duration,
    begun: Duration,
    got: u64,
}

impl<'a> Pace<'a> {
    fn new(client: &Client<'a>) -> Self {
        Self { host: client.host, patience: client.patience, begun: client.host.elapsed(), got: 0 }
    }

    fn step(&mut self, count: u64, url: &Url) -> Result<(), FetchError> {
        self.got += count;
        let within = self.host.elapsed().saturating_sub(self.begun);
        if within < self.patience {
            return Ok(());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "seconds, and few bytes"
        )]
        let least = (SLOWEST as f64 * within.as_secs_f64()) as u64;
        if self.got < least {
            return Err(FetchError::Slow { url: url.shown(), got: self.got, within });
        }
        (self.begun, self.got) = (self.host.elapsed(), 0);
        Ok(())
    }
}

/// What an answer says of its length.
pub(super) fn length(response: &Response) -> Option<u64> {
    response.header("content-length")?.trim().parse().ok()
}
