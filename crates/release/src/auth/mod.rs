//! Finds the credentials that other tools have stored for a server.
//!
//! ```text
//! files      containers' auth.json and Docker's config.json, by registry and path
//! helper     credential helpers: docker-credential-NAME
//! netrc      ~/.netrc, by host
//! challenge  the server's WWW-Authenticate header (pure)
//! ```
//!
//! Nothing is written. Messages name the location of credentials, never their content.

pub(super) mod challenge;
mod files;
mod helper;
mod netrc;

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_host::{HostInfo, HostPath, InspectHost, Os, ReadFiles};

use super::oci::Reference;
use super::url::Url;

const FILE_INVALID: DiagnosticId = id!("credentials.file-invalid");
const HELPER_FAILED: DiagnosticId = id!("credentials.helper-failed");
/// The largest credentials file that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The server that credentials are for, which determines where they are looked up.
#[derive(Debug, Clone, Copy)]
pub enum CredentialScope<'a> {
    /// A web server: `~/.netrc`, by host name.
    Server,
    /// A registry: the files and helpers of container tools, by registry and image name.
    Registry(&'a Reference),
    /// Object storage whose URLs are signed, if the caller has found no credentials in this place.
    Unsigned(&'a str),
    /// Object storage whose URLs the caller has signed. The caller handles a refusal, whose body says why.
    Signed,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Secret {
    Password {
        user: String,
        password: String,
    },
    /// An identity token, which a registry's token server exchanges for access tokens.
    Identity(String),
}

/// Omits the secret values.
impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Password { .. } => "Password(…)",
            Self::Identity(_) => "Identity(…)",
        })
    }
}

impl Secret {
    /// The value of an `Authorization` header with the `Basic` scheme; `None` for an identity token.
    pub(super) fn basic(&self) -> Option<String> {
        match self {
            Self::Password { user, password } => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
            }
            Self::Identity(_) => None,
        }
    }
}

/// When credentials are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendPolicy {
    /// With the first request, because they name this host and some servers answer anonymous requests with 404.
    Preemptive,
    /// After the server has requested them.
    OnChallenge,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundCredentials {
    pub(super) secret: Secret,
    /// Where they were found: `` `ghcr.io` in /home/me/.docker/config.json ``.
    pub(super) from: String,
    pub(super) policy: SendPolicy,
}

/// The result of a lookup.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CredentialLookup {
    pub(super) found: Option<FoundCredentials>,
    /// Files and helpers that were searched, including files that do not exist.
    pub(super) searched: Vec<String>,
    /// Warnings about files and helpers that cannot be used.
    pub(super) problems: Vec<String>,
}

impl CredentialLookup {
    fn ignore(&mut self, file: &HostPath, reason: &str) {
        self.problems.push(format!("ignoring `{file}`: {reason} [{FILE_INVALID}]"));
    }

    /// Reads a file. A file that exists but cannot be read becomes a warning.
    fn read(&mut self, host: &dyn ReadFiles, file: &HostPath) -> Option<Vec<u8>> {
        self.searched.push(file.to_string());
        match host.read_start(file, MAX_BYTES + 1) {
            Ok(bytes) if bytes.len() > MAX_BYTES => {
                self.ignore(file, "it is larger than 1 MiB");
                None
            }
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.ignore(file, &error.to_string());
                None
            }
        }
    }
}

/// Looks up the credentials for a server. Reads files, and may run a credential helper, which is killed after `timeout`.
pub(super) fn find(
    host: &dyn InspectHost,
    scope: CredentialScope<'_>,
    url: &Url,
    timeout: Duration,
) -> CredentialLookup {
    match scope {
        CredentialScope::Server => netrc::find(host, &url.host()),
        CredentialScope::Registry(image) => {
            files::find(host, &files::registry(image.registry()), image.name(), timeout)
        }
        CredentialScope::Unsigned(from) => {
            CredentialLookup { searched: vec![from.to_owned()], ..CredentialLookup::default() }
        }
        CredentialScope::Signed => CredentialLookup::default(),
    }
}

/// The host or registry, as shown to the user.
pub(super) fn subject(scope: CredentialScope<'_>, url: &Url) -> String {
    match scope {
        CredentialScope::Server | CredentialScope::Unsigned(_) | CredentialScope::Signed => url.host(),
        CredentialScope::Registry(image) => files::registry(image.registry()),
    }
}

/// How the user can store credentials for a server.
pub(super) fn advice(host: &dyn HostInfo, scope: CredentialScope<'_>, url: &Url) -> String {
    let subject = subject(scope, url);
    match scope {
        CredentialScope::Server => {
            let file = netrc::paths(host).first().map_or_else(|| "~/.netrc".to_owned(), HostPath::to_string);
            format!("add to {file}: `machine {subject} login NAME password PASSWORD`")
        }
        CredentialScope::Registry(_) => {
            format!("run `docker login {subject}` or `podman login {subject}`")
        }
        CredentialScope::Unsigned(_) | CredentialScope::Signed => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN for temporary credentials"
                .to_owned()
        }
    }
}

/// The user's home folder, from the variable that curl and Docker also use.
fn home(host: &dyn HostInfo) -> Option<HostPath> {
    let name = if host.platform().os == Os::Windows { "USERPROFILE" } else { "HOME" };
    host.env().get(name).map(|folder| host.path(folder))
}

/// The path in a variable. A relative path is resolved against the current folder.
fn path_from_env(host: &dyn HostInfo, name: &str) -> Option<HostPath> {
    let path = host.path(host.env().get(name)?);
    if path.is_absolute() { Some(path) } else { Some(host.current_dir().ok()?.join(path.as_str())) }
}

#[cfg(test)]
mod tests;
