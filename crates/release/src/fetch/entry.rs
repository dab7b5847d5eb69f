//! Shows a server who asks, where it wants to know.
//!
//! What a user has given to other tools goes to the server that it is for, by encryption or within this machine. What it is exchanged
//! for (a token) goes to the registry that sent us for it. Nothing follows a redirect to another server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{MissingFile, RefusedRequest};
use super::{Again, Client, FetchError, FetchTarget, FetchedBody};
use crate::auth::challenge::{self, Challenge, LARGEST_TOKEN};
use crate::auth::{self, CredentialLookup, Door, FoundCredentials, Secret, Sent};
use crate::url::{Scheme, Url};

/// What is known of who asks.
#[derive(Default)]
pub(super) struct FetchEntry {
    /// What a server has taken, or will.
    pass: Mutex<Option<Pass>>,
    /// Credentials and the server that they are for.
    looked: Mutex<Option<(String, Arc<CredentialLookup>)>>,
}

/// A header for one server.
struct Pass {
    server: Url,
    header: String,
    /// Where what it was made of was found.
    from: Option<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FetchEntry {
    /// The header that goes with a request.
    pub(super) fn header(&self, at: &Url) -> Option<(String, String)> {
        let pass = locked(&self.pass);
        let pass = pass.as_ref().filter(|pass| pass.server.is_same_server(at))?;
        Some(("authorization".to_owned(), pass.header.clone()))
    }

    /// Where what was sent to a server was found.
    fn from(&self, at: &Url) -> Option<String> {
        let pass = locked(&self.pass);
        pass.as_ref().filter(|pass| pass.server.is_same_server(at))?.from.clone()
    }

    fn set(&self, at: &Url, header: String, from: Option<&FoundCredentials>) {
        let from = from.map(|found| found.from.clone());
        *locked(&self.pass) = Some(Pass { server: at.clone(), header, from });
    }
}

/// Whether credentials may be sent to this address.
fn is_private(at: &Url) -> bool {
    at.scheme() == Scheme::Https || at.is_loopback()
}

impl Client<'_> {
    /// Looks once for what opens a door.
    fn look(&self, target: FetchTarget<'_>) -> Arc<CredentialLookup> {
        let mut subject = auth::subject(target.door, target.url);
        if let Door::Registry(image) = target.door {
            subject = format!("{subject}/{}", image.name());
        }
        let mut looked = locked(&self.entry.looked);
        if let Some((_, lookup)) = looked.as_ref().filter(|(own, _)| *own == subject) {
            return Arc::clone(lookup);
        }
        let lookup = Arc::new(auth::look(self.host, target.door, target.url, self.patience));
        for problem in &lookup.problems {
            (self.warn)(problem);
        }
        *looked = Some((subject, Arc::clone(&lookup)));
        lookup
    }

    /// Before the first request: a web server gets what is for it by name, as from curl.
    pub(super) fn greet(&self, target: FetchTarget<'_>) {
        let FetchTarget { url, door: Door::Server } = target else { return };
        if !is_private(url) || self.entry.header(url).is_some() {
            return;
        }
        let lookup = self.look(target);
        let found = lookup.found.as_ref().filter(|found| found.sent == Sent::AtOnce);
        if let Some((found, header)) = found.and_then(|found| Some((found, found.secret.basic()?))) {
            self.entry.set(url, header, Some(found));
        }
    }

    /// Does what a server asks for.
    pub(super) fn enter(
        &self,
        target: FetchTarget<'_>,
        at: &Url,
        response: &gpubuild_host::net::Response,
    ) -> Result<(), Again> {
        let challenges = Challenge::all(response);
        let lookup = self.look(target);
        let found = lookup.found.as_ref();
        if let Some(found) = found.filter(|_| !is_private(at)) {
            return Err(not_encrypted(at, found).into());
        }
        let realm = challenges.iter().find_map(|one| Some((one, one.realm()?)));
        if let Some((challenge, realm)) = realm {
            let realm = realm.map_err(FetchError::Url)?;
            // Credentials for a web server are not sent to the token server that it names.
            let found = found.filter(|_| matches!(target.door, Door::Registry(_)));
            let token = self.token(target, at, challenge, &realm, found)?;
            self.entry.set(at, format!("Bearer {token}"), found);
            return Ok(());
        }
        let is_basic = challenges.iter().any(|one| one.scheme == "basic");
        let header = found.filter(|_| is_basic).and_then(|found| found.secret.basic());
        match header {
            // It was sent already.
            Some(header) if self.entry.header(at).is_some_and(|(_, sent)| sent == header) => {}
            Some(header) => {
                self.entry.set(at, header, found);
                return Ok(());
            }
            None => {}
        }
        Err(self.denied(target, at, 401).into())
    }

    /// Requests a token, with the credentials found or anonymously. Redirects are not followed.
    fn token(
        &self,
        target: FetchTarget<'_>,
        at: &Url,
        challenge: &Challenge,
        realm: &Url,
        found: Option<&FoundCredentials>,
    ) -> Result<String, Again> {
        if let Some(found) = found
            // Only a registry on this machine may name a token server on this machine.
            && (!is_private(realm) || realm.scheme() == Scheme::Http && !at.is_loopback())
        {
            return Err(not_encrypted(realm, found).into());
        }
        let query = challenge.query();
        let asked = if query.is_empty() { realm.clone() } else { realm.with_query(&query) };
        let response = match found.map(|found| &found.secret) {
            Some(Secret::Identity(token)) => self.send(realm, Vec::new(), Some(challenge.refresh(token)))?,
            Some(secret) => {
                let header = secret.basic().map(|header| ("authorization".to_owned(), header));
                self.send(&asked, header.into_iter().collect(), None)?
            }
            None => self.send(&asked, Vec::new(), None)?,
        };
        match (response.status, found) {
            (200, _) => {}
            // Some say of a wrong identity token that the request is bad.
            (status @ (400 | 401 | 403), Some(found)) => {
                return Err(self.refused(target, realm, status, found.from.clone()).into());
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
            let what = "it hands out no token".to_owned();
            FetchError::Registry { url: realm.shown(), what }.into()
        })
    }

    fn refused(&self, target: FetchTarget<'_>, at: &Url, status: u16, from: String) -> FetchError {
        let advice = auth::advice(self.host, target.door, target.url);
        FetchError::CredentialsRefused(Box::new(RefusedRequest { url: at.shown(), status, from, advice }))
    }

    /// Why it does not let us in.
    pub(super) fn denied(&self, target: FetchTarget<'_>, at: &Url, status: u16) -> FetchError {
        if let Some(from) = self.entry.from(at) {
            return self.refused(target, at, status, from);
        }
        let lookup = self.look(target);
        match &lookup.found {
            Some(found) if !is_private(at) => not_encrypted(at, found),
            // It did not ask for it in a way that we know.
            Some(_) => FetchError::Status { url: at.shown(), status },
            None => FetchError::NoCredentials(Box::new(MissingFile {
                url: at.shown(),
                status,
                subject: auth::subject(target.door, target.url),
                looked: lookup.looked.clone(),
                advice: auth::advice(self.host, target.door, target.url),
            })),
        }
    }
}

fn not_encrypted(at: &Url, found: &FoundCredentials) -> FetchError {
    FetchError::CredentialsNotEncrypted { url: at.shown(), from: found.from.clone() }
}
