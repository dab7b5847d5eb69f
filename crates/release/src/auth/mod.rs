//! Names and passwords that a user has given to other tools: where they lie, for whom they are, and never more than that.
//!
//! ```text
//! files      containers' auth.json and docker's config.json, by registry and path
//! helper     programs that keep them: docker-credential-NAME
//! netrc      ~/.netrc, by host
//! challenge  what a server says it wants (pure)
//! ```
//!
//! Nothing here is written anywhere, and no message has anything of what was found but its place.

pub(super) mod challenge;
mod files;
mod helper;
mod netrc;

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gpubuild_host::{Host, HostPath, Os};

use super::oci::Reference;
use super::url::Url;

/// A file or a helper that can't be used.
const FILE_INVALID: &str = "credentials.file-invalid";
const HELPER_FAILED: &str = "credentials.helper-failed";
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

/// It is for nobody's eyes.
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
pub(super) struct Found {
    pub(super) secret: Secret,
    /// Where: `` `ghcr.io` in /home/me/.docker/config.json ``.
    pub(super) from: String,
    pub(super) sent: Sent,
}

/// What came of looking.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lookup {
    pub(super) found: Option<Found>,
    /// Files and helpers that were looked at, or would have been if they were there.
    pub(super) looked: Vec<String>,
    /// What can't be used, for a warning each.
    pub(super) problems: Vec<String>,
}

impl Lookup {
    fn broken(&mut self, file: &HostPath, what: &str) {
        self.problems.push(format!("`{file}` is not used: {what} [{FILE_INVALID}]"));
    }

    /// Reads a file that may be missing.
    fn read(&mut self, host: &dyn Host, file: &HostPath) -> Option<Vec<u8>> {
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
pub(super) fn look(host: &dyn Host, door: Door<'_>, url: &Url, patience: Duration) -> Lookup {
    match door {
        Door::Server => netrc::look(host, url.host()),
        Door::Registry(image) => {
            files::look(host, &files::registry(image.registry()), image.name(), patience)
        }
    }
}

/// For whom it is, as the user knows it.
pub(super) fn subject(door: Door<'_>, url: &Url) -> String {
    match door {
        Door::Server => url.host().to_owned(),
        Door::Registry(image) => files::registry(image.registry()),
    }
}

/// What to do for them to be found.
pub(super) fn advice(host: &dyn Host, door: Door<'_>, url: &Url) -> String {
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
fn home(host: &dyn Host) -> Option<HostPath> {
    let name = if host.platform().os == Os::Windows { "USERPROFILE" } else { "HOME" };
    host.env().get(name).map(|folder| host.path(folder))
}

/// A path of a variable, from the current folder.
fn of_variable(host: &dyn Host, name: &str) -> Option<HostPath> {
    let path = host.path(host.env().get(name)?);
    if path.is_absolute() { Some(path) } else { Some(host.current_dir().ok()?.join(path.as_str())) }
}

#[cfg(test)]
mod tests;
