//! One request with its redirects and its authentication, without retries.

use std::time::Duration;

use gpubuild_core::clean;

use super::{
    AttemptError, Client, CredentialScope, FetchError, FetchTarget, FetchedBody, HttpRequest, MAX_REDIRECTS,
    Method, PlainHttp, ProxyUse, RequestBody, Response, SHOWN, Scheme, Url,
};

/// Whether a redirect is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// It is followed, except from `https` to `http`.
    Follow,
    /// It is an error, except to the same server.
    SameServer,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The URL and its credentials.
    pub target: FetchTarget<'a>,
    /// The method.
    pub method: Method,
    /// Names and values of the headers.
    pub headers: &'a [(String, String)],
    /// The body.
    pub body: &'a RequestBody,
    /// Whether a redirect is followed.
    pub redirects: RedirectPolicy,
    /// Time limit for an unresponsive server, instead of the client's.
    pub timeout: Option<Duration>,
    /// Time limit for the complete request, with the response's body.
    pub total: Option<Duration>,
}

impl<'a> Exchange<'a> {
    /// A GET request that is not redirected to another server.
    #[must_use]
    pub fn get(target: FetchTarget<'a>) -> Self {
        Self {
            target,
            method: Method::Get,
            headers: &[],
            body: &RequestBody::Empty,
            redirects: RedirectPolicy::SameServer,
            timeout: None,
            total: None,
        }
    }
}

impl Client<'_> {
    /// Sends a request and returns the response, with any status except redirects. 401 and 403 are an error unless the caller has signed
    /// the URL.
    ///
    /// # Errors
    /// The server cannot be reached, denies access, or redirects.
    pub fn exchange(&self, exchange: &Exchange<'_>) -> Result<Response, FetchError> {
        self.answered(exchange).map(|body| body.response).map_err(|failed| failed.error)
    }

    /// The response and the URL after redirects.
    pub(super) fn answered(&self, exchange: &Exchange<'_>) -> Result<FetchedBody, AttemptError> {
        let (target, url) = (exchange.target, exchange.target.url);
        let mut at = url.clone();
        let mut has_authenticated = false;
        let mut redirects = 0;
        self.authenticate_preemptively(target);
        loop {
            let response = self.request_once(exchange, &at)?;
            match response.status {
                301 | 302 | 303 | 307 | 308 => {
                    redirects += 1;
                    at = next(exchange, &at, &response, redirects)?;
                }
                401 | 403 if matches!(target.scope, CredentialScope::Signed) => {
                    return Ok(FetchedBody { response, url: at });
                }
                401 if !has_authenticated && at.is_same_server(url) => {
                    has_authenticated = true;
                    self.answer_challenge(target, &at, &response)?;
                }
                status @ (401 | 403) if at.is_same_server(url) => {
                    return Err(self.denied(target, &at, status).into());
                }
                _ => return Ok(FetchedBody { response, url: at }),
            }
        }
    }

    /// One request. Credentials are sent only to the server that they are for.
    fn request_once(&self, exchange: &Exchange<'_>, at: &Url) -> Result<Response, AttemptError> {
        let is_first_server = at.is_same_server(exchange.target.url);
        let authorization = if is_first_server { self.credentials.header(at) } else { None };
        let request = HttpRequest {
            url: at.to_string(),
            headers: [exchange.headers, authorization.as_slice()].concat(),
            method: exchange.method,
            body: exchange.body.clone(),
            timeout: exchange.timeout.unwrap_or(self.timeout),
            total: exchange.total,
            proxy: proxy(at),
        };
        self.send(at, &request)
    }

    /// One request of an authentication protocol, with exactly these headers.
    pub(super) fn ask(
        &self,
        at: &Url,
        headers: Vec<(String, String)>,
        form: Option<String>,
    ) -> Result<Response, AttemptError> {
        let method = if form.is_some() { Method::Post } else { Method::Get };
        let body = form.map_or(RequestBody::Empty, RequestBody::Form);
        let (url, timeout) = (at.to_string(), self.timeout);
        let request = HttpRequest { url, headers, method, body, timeout, total: None, proxy: proxy(at) };
        self.send(at, &request)
    }

    fn send(&self, at: &Url, request: &HttpRequest) -> Result<Response, AttemptError> {
        if at.scheme() == Scheme::Http && !at.is_loopback() && self.plain == PlainHttp::Loopback {
            return Err(FetchError::NotEncrypted(at.shown()).into());
        }
        let response =
            self.host.fetch(request).map_err(|error| FetchError::Net { url: at.shown(), error })?;
        let encoding = response.header("content-encoding").unwrap_or("identity");
        if !encoding.trim().eq_ignore_ascii_case("identity") {
            let what = format!("its content encoding is `{}`", clean::short(encoding, SHOWN));
            return Err(FetchError::Length { url: at.shown(), what }.into());
        }
        Ok(response)
    }
}

fn proxy(at: &Url) -> ProxyUse {
    if at.is_loopback() { ProxyUse::Never } else { ProxyUse::Allowed }
}

/// The target of a redirect.
fn next(exchange: &Exchange<'_>, at: &Url, response: &Response, count: usize) -> Result<Url, AttemptError> {
    let url = exchange.target.url;
    if count > MAX_REDIRECTS {
        return Err(FetchError::Redirects(url.shown()).into());
    }
    let Some(location) = response.header("location") else {
        return Err(FetchError::Status { url: at.shown(), status: response.status }.into());
    };
    let next = at.join(location).map_err(FetchError::Url)?;
    if at.scheme() == Scheme::Https && next.scheme() == Scheme::Http {
        return Err(FetchError::Downgrade { from: at.shown(), to: next.shown() }.into());
    }
    let is_change = exchange.method != Method::Get && exchange.method != Method::Head;
    if exchange.redirects == RedirectPolicy::SameServer && (is_change || !next.is_same_server(url)) {
        return Err(FetchError::Redirected { from: at.shown(), to: next.shown() }.into());
    }
    Ok(next)
}
