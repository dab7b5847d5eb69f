//! Why something was not fetched.

use std::time::Duration;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::net::NetError;

use super::MOST_REDIRECTS;
use crate::url::BadUrl;

/// A server that requires credentials, none of which were found.
#[derive(Debug)]
pub struct MissingFile {
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

impl MissingFile {
    fn places(&self) -> String {
        if self.looked.is_empty() { String::new() } else { format!(" in {}", self.looked.join(", ")) }
    }
}

/// A server that rejected the credentials.
#[derive(Debug)]
pub struct RefusedRequest {
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
    /// The network is disabled by the user.
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
    /// The server reports an error status.
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
    /// The server requires credentials, and none were found.
    #[error("`{}` answers with status {}, and no credentials for `{}` were found{}", .0.url, .0.status, .0.subject, .0.places())]
    NoCredentials(Box<MissingFile>),
    /// The server rejected the credentials.
    #[error("`{}` answers with status {} to the credentials of {}", .0.url, .0.status, .0.from)]
    CredentialsRefused(Box<RefusedRequest>),
    /// Credentials would be sent without encryption.
    #[error("`{url}` asks for credentials and is not encrypted: those of {from} are not sent")]
    CredentialsNotEncrypted {
        /// The address.
        url: String,
        /// Where they were found.
        from: String,
    },
    /// A registry's answer.
    #[error("`{url}` is not a readable registry: {what}")]
    Registry {
        /// The address.
        url: String,
        /// What.
        what: String,
    },
}

impl FetchError {
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

impl Diagnostic for FetchError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Offline(_) => id!("net.offline"),
            Self::NotEncrypted(_) => id!("net.not-encrypted"),
            Self::Downgrade { .. } => id!("net.downgrade"),
            Self::Redirects(_) => id!("net.redirects"),
            Self::Url(_) => id!("net.address-invalid"),
            Self::Net { error, .. } => match error {
                NetError::Unreachable(_) | NetError::None => id!("net.unreachable"),
                NetError::Timeout(_) => id!("net.timeout"),
                NetError::Tls(_) => id!("net.tls"),
                NetError::Cut(_) => id!("net.cut"),
                NetError::Garbage(_) => id!("net.garbage"),
            },
            Self::Slow { .. } => id!("net.slow"),
            Self::Status { .. } => id!("net.status"),
            Self::NoCredentials(_) => id!("credentials.missing"),
            Self::CredentialsRefused(_) => id!("credentials.refused"),
            Self::CredentialsNotEncrypted { .. } => id!("credentials.not-encrypted"),
            Self::Length { .. } => id!("net.length"),
            Self::Registry { .. } => id!("net.registry"),
        }
    }

    fn hint(&self) -> Option<String> {
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
                "write `https://`; `--insecure-http` downloads without encryption, so that third parties can change the data"
            }
            Self::Downgrade { .. } | Self::Redirects(_) | Self::Length { .. } | Self::Registry { .. } => {
                "tell who serves it"
            }
            Self::Url(_) => "an address begins with `https://` or `oci://`",
            Self::Net { error: NetError::Tls(_), .. } => {
                "if a proxy of your company stands between, name its certificates with SSL_CERT_FILE"
            }
            Self::Net { .. } => {
                "check the connection, HTTPS_PROXY and NO_PROXY; partial downloads are kept, and the same command resumes them"
            }
            Self::Slow { .. } => {
                "the same command resumes the download; GPUBUILD_HTTP_TIMEOUT sets the time limit in seconds"
            }
            Self::Status { status: 401 | 403, .. } => {
                "it forbids this, or wants to be shown who asks in another way than `Basic` and `Bearer`"
            }
            Self::Status { .. } => "check the address",
        };
        Some(hint.to_owned())
    }
}
