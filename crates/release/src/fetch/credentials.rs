//! Authenticates requests.
//!
//! Credentials are sent only to the server that they belong to, and only over an encrypted connection or within this machine. A token
//! is sent only to the registry that named the token server. Neither follows a redirect to another server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{MissingCredentials, RejectedCredentials};
use super::{AttemptError, Client, FetchError, FetchTarget, FetchedBody};
use crate::auth::challenge::{self, Challenge, LARGEST_TOKEN};
use crate::auth::{self, CredentialLookup, CredentialScope, FoundCredentials, Secret, SendPolicy};
use crate::url::{Scheme, Url};

/// The credentials of a client, each for the last server that required them.
#[derive(Default)]
pub(super) struct ClientCredentials {
    authorization: Mutex<Option<Authorization>>,
    /// The last lookup, with the server or image that it was for.
    lookup: Mutex<Option<(String, Arc<CredentialLookup>)>>,
}

/// An `Authorization` header for one server.
struct Authorization {
    server: Url,
    header: String,
    /// Where the credentials were found; `None` for an anonymous token.
    from: Option<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientCredentials {
    /// The `Authorization` header for requests to a server, if one is known.
    pub(super) fn header(&self, at: &Url) -> Option<(String, String)> {
        let authorization = locked(&self.authorization);
        let authorization = authorization.as_ref().filter(|known| known.server.is_same_server(at))?;
        Some(("authorization".to_owned(), authorization.header.clone()))
    }

    /// Where the credentials that were sent to a server were found.
    fn origin(&self, at: &Url) -> Option<String> {
        let authorization = locked(&self.authorization);
        authorization.as_ref().filter(|known| known.server.is_same_server(at))?.from.clone()
    }

    fn set(&self, at: &Url, header: String, from: Option<&FoundCredentials>) {
        let from = from.map(|found| found.from.clone());
        *locked(&self.authorization) = Some(Authorization { server: at.clone(), header, from });
    }
}

/// Whether credentials may be sent to this URL.
fn is_private(at: &Url) -> bool {
    at.scheme() == Scheme::Https || at.is_loopback()
}

impl Client<'_> {
    /// Looks up the credentials for a target, once per server or image.
    fn find_credentials(&self, target: FetchTarget<'_>) -> Arc<CredentialLookup> {
        let mut subject = auth::subject(target.scope, target.url);
        if let CredentialScope::Registry(image) = target.scope {
            subject = format!("{subject}/{}", image.name());
        }
        let mut known = locked(&self.credentials.lookup);
        if let Some((_, lookup)) = known.as_ref().filter(|(own, _)| *own == subject) {
            return Arc::clone(lookup);
        }
        let lookup = Arc::new(auth::find(self.host, target.scope, target.url, self.timeout));
        for problem in &lookup.problems {
            (self.warn)(problem);
        }
        *known = Some((subject, Arc::clone(&lookup)));
        lookup
    }

    /// Adds credentials that name a web server to the first request to it, as curl does.
    pub(super) fn authenticate_preemptively(&self, target: FetchTarget<'_>) {
        let FetchTarget { url, scope: CredentialScope::Server } = target else { return };
        if !is_private(url) || self.credentials.header(url).is_some() {
            return;
        }
        let lookup = self.find_credentials(target);
        let found = lookup.found.as_ref().filter(|found| found.policy == SendPolicy::Preemptive);
        if let Some((found, header)) = found.and_then(|found| Some((found, found.secret.basic()?))) {
            self.credentials.set(url, header, Some(found));
        }
    }

    /// Prepares the `Authorization` header that a 401 response requests.
    pub(super) fn answer_challenge(
        &self,
        target: FetchTarget<'_>,
        at: &Url,
        response: &gpubuild_host::net::Response,
    ) -> Result<(), AttemptError> {
        let challenges = Challenge::all(response);
        let lookup = self.find_credentials(target);
        let found = lookup.found.as_ref();
        if let Some(found) = found.filter(|_| !is_private(at)) {
            return Err(not_encrypted(at, found).into());
        }
        let realm = challenges.iter().find_map(|one| Some((one, one.realm()?)));
        if let Some((challenge, realm)) = realm {
            let realm = realm.map_err(FetchError::Url)?;
            // Credentials for a web server are not sent to the token server that it names.
            let found = found.filter(|_| matches!(target.scope, CredentialScope::Registry(_)));
            let token = self.token(target, at, challenge, &realm, found)?;
            self.credentials.set(at, format!("Bearer {token}"), found);
            return Ok(());
        }
        let is_basic = challenges.iter().any(|one| one.scheme == "basic");
        let header = found.filter(|_| is_basic).and_then(|found| found.secret.basic());
        match header {
            // The server has already rejected it.
            Some(header) if self.credentials.header(at).is_some_and(|(_, sent)| sent == header) => {}
            Some(header) => {
                self.credentials.set(at, header, found);
                return Ok(());
            }
            None => {}
        }
        Err(self.denied(target, at, 401).into())
    }

    /// Requests a token, with the found credentials or anonymously. Redirects are not followed.
    fn token(
        &self,
        target: FetchTarget<'_>,
        at: &Url,
        challenge: &Challenge,
        realm: &Url,
        found: Option<&FoundCredentials>,
    ) -> Result<String, AttemptError> {
        if let Some(found) = found
            // Only a registry on this machine may name a token server on this machine.
            && (!is_private(realm) || realm.scheme() == Scheme::Http && !at.is_loopback())
        {
            return Err(not_encrypted(realm, found).into());
        }
        let query = challenge.query();
        let url = if query.is_empty() { realm.clone() } else { realm.with_query(&query) };
        let response = match found.map(|found| &found.secret) {
            Some(Secret::Identity(token)) => self.ask(realm, Vec::new(), Some(challenge.refresh(token)))?,
            Some(secret) => {
                let header = secret.basic().map(|header| ("authorization".to_owned(), header));
                self.ask(&url, header.into_iter().collect(), None)?
            }
            None => self.ask(&url, Vec::new(), None)?,
        };
        match (response.status, found) {
            (200, _) => {}
            // Some token servers respond with 400 to an invalid identity token.
            (status @ (400 | 401 | 403), Some(found)) => {
                return Err(self.rejected(target, realm, status, found.from.clone()).into());
            }
            (status @ (401 | 403), None) => return Err(self.denied(target, realm, status).into()),
            (status, _) => return Err(FetchError::Status { url: realm.shown(), status }.into()),
        }
        let mut bytes = Vec::new();
        self.read(FetchedBody { response, url: realm.clone() }, |piece| {
            bytes.extend_from_slice(piece);
            bytes.len() <= LARGEST_TOKEN
        })?;
        challenge::token(&bytes).ok_or_else(|| {
            let what = "its response contains no token".to_owned();
            FetchError::Registry { url: realm.shown(), what }.into()
        })
    }

    fn rejected(&self, target: FetchTarget<'_>, at: &Url, status: u16, from: String) -> FetchError {
        let advice = auth::advice(self.host, target.scope, target.url);
        FetchError::CredentialsRejected(Box::new(RejectedCredentials {
            url: at.shown(),
            status,
            from,
            advice,
        }))
    }

    /// The error for a server that denies access.
    pub(super) fn denied(&self, target: FetchTarget<'_>, at: &Url, status: u16) -> FetchError {
        if let Some(from) = self.credentials.origin(at) {
            return self.rejected(target, at, status, from);
        }
        let lookup = self.find_credentials(target);
        match &lookup.found {
            Some(found) if !is_private(at) => not_encrypted(at, found),
            // The server requests an authentication scheme that gpubuild does not support.
            Some(_) => FetchError::Status { url: at.shown(), status },
            None => FetchError::NoCredentials(Box::new(MissingCredentials {
                url: at.shown(),
                status,
                subject: auth::subject(target.scope, target.url),
                searched: lookup.searched.clone(),
                advice: auth::advice(self.host, target.scope, target.url),
            })),
        }
    }
}

fn not_encrypted(at: &Url, found: &FoundCredentials) -> FetchError {
    FetchError::CredentialsNotEncrypted { url: at.shown(), from: found.from.clone() }
}
