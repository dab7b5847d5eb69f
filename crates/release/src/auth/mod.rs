//! Finds the credentials that the user has given to other tools, and the servers that they are for.
//!
//! ```text
//! files      containers' auth.json and Docker's config.json, by registry and path
//! helper     credential helpers: docker-credential-NAME
//! netrc      ~/.netrc, by host
//! challenge  the server's WWW-Authenticate header (pure)
//! ```
//!
//! Nothing is written. Messages name the place of credentials, never their content.

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

/// A file or a helper that can't be used.
const FILE_INVALID: DiagnosticId = id!("credentials.file-invalid");
const HELPER_FAILED: DiagnosticId = id!("credentials.helper-failed");
/// The largest file that is read.
const MOST_BYTES: usize = 1 << 20;

/// Which of the customs a server follows.
#[derive(Debug, Clone, Copy)]
pub enum Door<'a> {
    /// A web server.
    Server,
    /// A registry, asked for this image.
    Registry(&'a Reference),
}

/// What opens a door.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Secret {
    /// Name and password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// What a registry's server of tokens gives tokens for.
    Identity(String),
}

/// Never printed.
impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Password { .. } => "Password(…)",
            Self::Identity(_) => "Identity(…)",
        })
    }
}

impl Secret {
    /// The header, where there is one.
    pub(super) fn basic(&self) -> Option<String> {
        match self {
            Self::Password { user, password } => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
            }
            Self::Identity(_) => None,
        }
    }
}

/// When it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// With the first request: it is for this host by name, and many a server says to strangers that there is nothing.
    AtOnce,
    /// When the server asks.
    WhenAsked,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundCredentials {
    pub(super) secret: Secret,
    /// Where: `` `ghcr.io` in /home/me/.docker/config.json ``.
    pub(super) from: String,
    pub(super) sent: Sent,
}

/// The result of a lookup.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CredentialLookup {
    pub(super) found: Option<FoundCredentials>,
    /// Files and helpers that were looked at, or would have been if they were there.
    pub(super) looked: Vec<String>,
    /// What can't be used, for a warning each.
    pub(super) problems: Vec<String>,
}

impl CredentialLookup {
    fn broken(&mut self, file: &HostPath, what: &str) {
        self.problems.push(format!("`{file}` is not used: {what} [{FILE_INVALID}]"));
    }

    /// Reads a file that may be missing.
    fn read(&mut self, host: &dyn ReadFiles, file: &HostPath) -> Option<Vec<u8>> {
        self.looked.push(file.to_string());
        match host.read_start(file, MOST_BYTES + 1) {
            Ok(bytes) if bytes.len() > MOST_BYTES => {
                self.broken(file, "it has more than a megabyte");
                None
            }
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                self.broken(file, &error.to_string());
                None
            }
        }
    }
}

/// Looks for what opens a door. Opens files, and may start a helper, which has `patience` to answer.
pub(super) fn look(
    host: &dyn InspectHost,
    door: Door<'_>,
    url: &Url,
    patience: Duration,
) -> CredentialLookup {
    match door {
        Door::Server => netrc::look(host, url.host()),
        Door::Registry(image) => {
            files::look(host, &files::registry(image.registry()), image.name(), patience)
        }
    }
}

/// The server, as shown to the user.
pub(super) fn subject(door: Door<'_>, url: &Url) -> String {
    match door {
        Door::Server => url.host().to_owned(),
        Door::Registry(image) => files::registry(image.registry()),
    }
}

/// What to do for them to be found.
pub(super) fn advice(host: &dyn HostInfo, door: Door<'_>, url: &Url) -> String {
    let subject = subject(door, url);
    match door {
        Door::Server => {
            let file = netrc::places(host).first().map_or_else(|| "~/.netrc".to_owned(), HostPath::to_string);
            format!("put them into {file}: `machine {subject} login NAME password PASSWORD`")
        }
        Door::Registry(_) => format!("`docker login {subject}` or `podman login {subject}` stores them"),
    }
}

/// The user's home folder, as other tools see it.
fn home(host: &dyn HostInfo) -> Option<HostPath> {
    let name = if host.platform().os == Os::Windows { "USERPROFILE" } else { "HOME" };
    host.env().get(name).map(|folder| host.path(folder))
}

/// A path of a variable, from the current folder.
fn of_variable(host: &dyn HostInfo, name: &str) -> Option<HostPath> {
    let path = host.path(host.env().get(name)?);
    if path.is_absolute() { Some(path) } else { Some(host.current_dir().ok()?.join(path.as_str())) }
}

#[cfg(test)]
mod tests;
