//! Errors of downloads.

use std::time::Duration;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::net::NetError;

use super::MAX_REDIRECTS;
use crate::url::BadUrl;

/// A server that requires credentials, none of which were found.
#[derive(Debug)]
pub struct MissingCredentials {
    /// The URL.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The registry or host.
    pub subject: String,
    /// The files and helpers that were searched.
    pub searched: Vec<String>,
    /// How the user can store credentials.
    pub advice: String,
}

impl MissingCredentials {
    fn places(&self) -> String {
        if self.searched.is_empty() { String::new() } else { format!(" in {}", self.searched.join(", ")) }
    }
}

/// A server that rejected the credentials.
#[derive(Debug)]
pub struct RejectedCredentials {
    /// The URL.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// Where the credentials were found.
    pub from: String,
    /// How the user can store other credentials.
    pub advice: String,
}

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The user has disabled network access.
    #[error("`{0}` is not in the cache and cannot be downloaded offline")]
    Offline(String),
    /// The URL uses `http`, which was not allowed.
    #[error("`{0}` is not encrypted")]
    NotEncrypted(String),
    /// A redirect from `https` to `http`.
    #[error("`{from}` redirects to `{to}`, which is not encrypted")]
    Downgrade {
        /// The URL that redirects.
        from: String,
        /// The target of the redirect.
        to: String,
    },
    /// A redirect that is not followed.
    #[error("`{from}` redirects to `{to}`")]
    Redirected {
        /// The URL that redirects.
        from: String,
        /// The target of the redirect.
        to: String,
    },
    /// Too many redirects, possibly a loop.
    #[error("`{0}` redirects more than {MAX_REDIRECTS} times")]
    Redirects(String),
    /// An invalid URL.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// The connection failed.
    #[error("failed to fetch `{url}`: {error}")]
    Net {
        /// The URL.
        url: String,
        /// The error of the HTTP client.
        error: NetError,
    },
    /// The transfer rate is below the minimum.
    #[error("failed to fetch `{url}`: only {got} bytes arrived within {} s", .within.as_secs_f32())]
    Slow {
        /// The URL.
        url: String,
        /// Bytes that arrived.
        got: u64,
        /// The time in which they arrived.
        within: Duration,
    },
    /// The server reports an error status.
    #[error("`{url}` returned status {status}")]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The response's length, range or encoding is not the requested one.
    #[error("`{url}` sent an unexpected response: {what}")]
    Length {
        /// The URL.
        url: String,
        /// The problem.
        what: String,
    },
    /// The server requires credentials, and none were found.
    #[error("`{}` returned status {}, and no credentials for `{}` were found{}", .0.url, .0.status, .0.subject, .0.places())]
    NoCredentials(Box<MissingCredentials>),
    /// The server rejected the credentials.
    #[error("`{}` rejected the credentials from {} with status {}", .0.url, .0.from, .0.status)]
    CredentialsRejected(Box<RejectedCredentials>),
    /// Credentials would be sent without encryption.
    #[error("`{url}` requires credentials but is not encrypted, so those from {from} are not sent")]
    CredentialsNotEncrypted {
        /// The URL.
        url: String,
        /// Where the credentials were found.
        from: String,
    },
    /// A registry's response is invalid.
    #[error("invalid response from registry `{url}`: {what}")]
    Registry {
        /// The URL.
        url: String,
        /// The problem.
        what: String,
    },
}

impl FetchError {
    /// Whether a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
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
            Self::Redirects(_) | Self::Redirected { .. } => id!("net.redirects"),
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
            Self::CredentialsRejected(_) => id!("credentials.refused"),
            Self::CredentialsNotEncrypted { .. } => id!("credentials.not-encrypted"),
            Self::Length { .. } => id!("net.length"),
            Self::Registry { .. } => id!("net.registry"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoCredentials(missing) => return missing.advice.clone().into(),
            Self::CredentialsRejected(rejected) => {
                return format!("they are wrong or lack permission; to replace them, {}", rejected.advice)
                    .into();
            }
            Self::CredentialsNotEncrypted { .. } => {
                "use `https://`, or omit `--insecure-http`; without encryption, credentials are sent only within this machine"
            }
            Self::Offline(_) => {
                "run the command once with network access: without `--offline`, GPUBUILD_OFFLINE and CARGO_NET_OFFLINE"
            }
            Self::NotEncrypted(_) => {
                "use `https://`; with `--insecure-http`, third parties can modify the data"
            }
            Self::Downgrade { .. }
            | Self::Redirects(_)
            | Self::Redirected { .. }
            | Self::Length { .. }
            | Self::Registry { .. } => "report this to the operator of the server",
            Self::Url(_) => "a URL starts with `https://` or `oci://`",
            Self::Net { error: NetError::Tls(_), .. } => {
                "check the URL and the clock of this machine; if a company proxy intercepts TLS, set SSL_CERT_FILE to a file with its certificates"
            }
            Self::Net { .. } => {
                "check the connection, HTTPS_PROXY and NO_PROXY; partial downloads are kept, and the same command resumes them"
            }
            Self::Slow { .. } => {
                "the same command resumes the download; GPUBUILD_HTTP_TIMEOUT sets the time limit in seconds"
            }
            Self::Status { status: 401 | 403, .. } => {
                "the server denies access, or requires an authentication scheme other than `Basic` and `Bearer`"
            }
            Self::Status { .. } => "check the URL",
        };
        Some(hint.to_owned())
    }
}
