//! Why something was not fetched.

use std::borrow::Cow;
use std::time::Duration;

use gpubuild_host::net::NetError;

use super::MOST_REDIRECTS;
use crate::url::BadUrl;

/// A server that wants to know who asks, and what nobody has found.
#[derive(Debug)]
pub struct Missing {
    /// The address.
    pub url: String,
    /// Status.
    pub status: u16,
    /// The registry or host.
    pub subject: String,
    /// Where they were looked for.
    pub looked: Vec<String>,
    /// What to do.
    pub advice: String,
}

impl Missing {
    fn places(&self) -> String {
        if self.looked.is_empty() { String::new() } else { format!(" in {}", self.looked.join(", ")) }
    }
}

/// A server that wants somebody else.
#[derive(Debug)]
pub struct Refused {
    /// The address.
    pub url: String,
    /// Status.
    pub status: u16,
    /// Where the credentials were found.
    pub from: String,
    /// What to do.
    pub advice: String,
}

/// Why something was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no network, by the user's wish.
    #[error("`{0}` is not in the cache, and nothing is fetched offline")]
    Offline(String),
    /// Without encryption.
    #[error("`{0}` is not encrypted")]
    NotEncrypted(String),
    /// A redirect leaves encryption.
    #[error("`{from}` leads to `{to}`, which is not encrypted")]
    Downgrade {
        /// From.
        from: String,
        /// To.
        to: String,
    },
    /// A circle.
    #[error("`{0}` leads on and on: more than {MOST_REDIRECTS} redirects")]
    Redirects(String),
    /// No address.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// The connection.
    #[error("failed to fetch `{url}`: {error}")]
    Net {
        /// The address.
        url: String,
        /// Why.
        error: NetError,
    },
    /// Bytes come too slowly.
    #[error("failed to fetch `{url}`: {got} bytes came within {} s", .within.as_secs_f32())]
    Slow {
        /// The address.
        url: String,
        /// Bytes.
        got: u64,
        /// Time.
        within: Duration,
    },
    /// It says that there is none.
    #[error("`{url}` answers with status {status}")]
    Status {
        /// The address.
        url: String,
        /// Status.
        status: u16,
    },
    /// What it says of its length can't be.
    #[error("`{url}` sends something else than it was asked for: {what}")]
    Length {
        /// The address.
        url: String,
        /// What.
        what: String,
    },
    /// It wants to know who asks, and nobody has said that.
    #[error("`{}` answers with status {}, and no credentials for `{}` were found{}", .0.url, .0.status, .0.subject, .0.places())]
    NoCredentials(Box<Missing>),
    /// It wants somebody else.
    #[error("`{}` answers with status {} to the credentials of {}", .0.url, .0.status, .0.from)]
    CredentialsRefused(Box<Refused>),
    /// Whoever is on the way could read them.
    #[error("`{url}` asks for credentials and is not encrypted: those of {from} are not sent")]
    CredentialsNotEncrypted {
        /// The address.
        url: String,
        /// Where they were found.
        from: String,
    },
    /// A registry's answer.
    #[error("`{url}` is no registry that can be read: {what}")]
    Registry {
        /// The address.
        url: String,
        /// What.
        what: String,
    },
}

impl FetchError {
    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &'static str {
        match self {
            Self::Offline(_) => "net.offline",
            Self::NotEncrypted(_) => "net.not-encrypted",
            Self::Downgrade { .. } => "net.downgrade",
            Self::Redirects(_) => "net.redirects",
            Self::Url(_) => "net.address-invalid",
            Self::Net { error, .. } => match error {
                NetError::Unreachable(_) | NetError::None => "net.unreachable",
                NetError::Timeout(_) => "net.timeout",
                NetError::Tls(_) => "net.tls",
                NetError::Cut(_) => "net.cut",
                NetError::Garbage(_) => "net.garbage",
            },
            Self::Slow { .. } => "net.slow",
            Self::Status { .. } => "net.status",
            Self::NoCredentials(_) => "credentials.missing",
            Self::CredentialsRefused(_) => "credentials.refused",
            Self::CredentialsNotEncrypted { .. } => "credentials.not-encrypted",
            Self::Length { .. } => "net.length",
            Self::Registry { .. } => "net.registry",
        }
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Cow<'static, str> {
        let hint = match self {
            Self::NoCredentials(missing) => return missing.advice.clone().into(),
            Self::CredentialsRefused(refused) => {
                return format!("they are wrong, or may not read this; others: {}", refused.advice).into();
            }
            Self::CredentialsNotEncrypted { .. } => {
                "ask with `https://`, or without `--insecure-http`: only within this machine credentials go without encryption"
            }
            Self::Offline(_) => {
                "run it once with a network; leave out `--offline`, GPUBUILD_OFFLINE and CARGO_NET_OFFLINE"
            }
            Self::NotEncrypted(_) => {
                "write `https://`; `--insecure-http` takes it as it is, and whoever is on the way can change what comes"
            }
            Self::Downgrade { .. } | Self::Redirects(_) | Self::Length { .. } | Self::Registry { .. } => {
                "tell who serves it"
            }
            Self::Url(_) => "an address begins with `https://` or `oci://`",
            Self::Net { error: NetError::Tls(_), .. } => {
                "if a proxy of your company stands between, name its certificates with SSL_CERT_FILE"
            }
            Self::Net { .. } => {
                "look at the connection and at HTTPS_PROXY and NO_PROXY; what was fetched is kept, and the same command goes on with it"
            }
            Self::Slow { .. } => {
                "the same command goes on with what was fetched; GPUBUILD_HTTP_TIMEOUT sets the seconds that are waited"
            }
            Self::Status { status: 401 | 403, .. } => {
                "it forbids this, or wants to be shown who asks in another way than `Basic` and `Bearer`"
            }
            Self::Status { .. } => "check the address",
        };
        hint.into()
    }

    /// Whether another time may be better.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Net { error, .. } => {
                matches!(error, NetError::Unreachable(_) | NetError::Timeout(_) | NetError::Cut(_))
            }
            Self::Slow { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }
}
