//! Why the shared store is not used.

use gpubuild_core::clean;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::store::remote::RemoteProblem;
use gpubuild_host::net::NetError;
use gpubuild_release::fetch::FetchError;

/// The longest part of a problem in a message, in characters: a manifest can contain names of any length.
const SHOWN: usize = 400;

/// A failure of a transfer, or of a check of what was transferred.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The server reports an error status.
    #[error("`{url}` returned status {status}{}", .code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Status {
        /// The URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The server's error code.
        code: Option<String>,
    },
    /// What the server sent is not what it has to be.
    #[error("`{url}` sent a damaged entry: {}", clean::short(.what, SHOWN))]
    Damaged {
        /// The URL.
        url: String,
        /// The problem.
        what: String,
    },
    /// The list of entries is not one.
    #[error("`{url}` sent a damaged list of entries: {}", clean::short(.what, SHOWN))]
    DamagedList {
        /// The URL.
        url: String,
        /// The problem.
        what: String,
    },
    /// The entry has no valid signature, although one is required.
    #[error("the entry in `{url}` is not trusted: {}", clean::short(.what, SHOWN))]
    Unsigned {
        /// The URL.
        url: String,
        /// The problem.
        what: String,
    },
    /// A limit of the user was reached.
    #[error("{0}")]
    Budget(String),
    /// The server does not return an entry that it has accepted.
    #[error("`{0}` was accepted by the shared store, but it is not returned")]
    NotStored(String),
    /// The server has no list of its entries.
    #[error("`{0}` has no list of its entries")]
    NotListable(String),
    /// A local file cannot be read or written.
    #[error("the local store cannot be used: {0}")]
    Disk(std::io::Error),
}

impl RemoteError {
    /// Whether further requests would probably fail too.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Damaged { .. } | Self::Unsigned { .. })
    }

    /// The warning of a build.
    #[must_use]
    pub fn problem(&self) -> RemoteProblem {
        RemoteProblem { id: self.id(), message: self.to_string(), hint: self.hint() }
    }
}

/// Whether an error code of S3 means that temporary credentials are no longer valid.
fn is_expired(code: &str) -> bool {
    matches!(code, "ExpiredToken" | "TokenRefreshRequired" | "ExpiredTokenException")
}

impl Diagnostic for RemoteError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Fetch(error) => match error {
                FetchError::NoCredentials(_)
                | FetchError::CredentialsRejected(_)
                | FetchError::CredentialsNotEncrypted { .. }
                | FetchError::Status { status: 401 | 403, .. } => id!("remote.denied"),
                FetchError::Redirects(_) | FetchError::Redirected { .. } | FetchError::Downgrade { .. } => {
                    id!("remote.redirected")
                }
                FetchError::Net { error: NetError::Tls(_), .. } => error.id(),
                FetchError::Net { error: NetError::Garbage(_), .. }
                | FetchError::Length { .. }
                | FetchError::Registry { .. } => id!("remote.damaged"),
                FetchError::Status { .. } => id!("remote.status"),
                _ => id!("remote.unreachable"),
            },
            Self::Status { status: 401 | 403, .. } => id!("remote.denied"),
            // S3 reports credentials that are no longer valid with status 400.
            Self::Status { status: 400, code: Some(code), .. } if code.contains("Token") => {
                id!("remote.denied")
            }
            Self::Status { .. } => id!("remote.status"),
            Self::Damaged { .. } | Self::DamagedList { .. } | Self::NotStored(_) => id!("remote.damaged"),
            Self::Unsigned { .. } => id!("remote.unsigned"),
            Self::Budget(_) => id!("remote.budget"),
            Self::NotListable(_) => id!("remote.not-listable"),
            Self::Disk(_) => id!("cache.failed"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Fetch(FetchError::NotEncrypted(_)) => {
                "use `https://`; with `insecure_http = true` in `[cache]`, third parties can read and modify the data"
            }
            Self::Fetch(FetchError::CredentialsNotEncrypted { .. }) => {
                "use `https://`: without encryption, credentials are sent only within this machine"
            }
            Self::Fetch(error) => return error.hint(),
            Self::Status { code: Some(code), .. } if is_expired(code) => {
                "the temporary credentials have expired: request new ones and set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, for example with `aws configure export-credentials --format env`"
            }
            Self::Status { code: Some(code), .. } if code == "RequestTimeTooSkewed" => {
                "set the clock of this machine: the server refuses requests with another time"
            }
            Self::Status { status: 401 | 403, .. } => {
                "the credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN are wrong, have expired or lack permission: set other ones"
            }
            Self::Status { .. } => "check the URL of the store, and that its server accepts this request",
            Self::Damaged { .. } => {
                "build with `write = true` to replace the entry, or remove it from the server"
            }
            Self::DamagedList { .. } | Self::NotStored(_) => {
                "check the URL of the store, and that no proxy or login page answers instead of its server"
            }
            Self::Unsigned { .. } => {
                "name the public key of the builds that write the store in `[cache] keys`"
            }
            Self::Budget(_) => "`[cache] budget` and `max_upload` set the limits",
            Self::NotListable(_) => {
                "let the server expire old files; S3 and OCI registries can be pruned from here"
            }
            Self::Disk(_) => "check the free space and the permissions of the build store",
        };
        Some(hint.to_owned())
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the setting `{setting}` of the shared store is not valid: {what}")]
pub struct InvalidRemote {
    /// The key in `[cache]`, or the variable.
    pub setting: &'static str,
    /// The problem.
    pub what: String,
}

impl Diagnostic for InvalidRemote {
    fn id(&self) -> DiagnosticId {
        id!("remote.setting-invalid")
    }

    fn hint(&self) -> Option<String> {
        let hint = match self.setting {
            "remote" | "GPUBUILD_REMOTE" | "--remote" => {
                "the URL of a shared store is `s3://BUCKET/PREFIX`, `https://HOST/PATH` or `oci://REGISTRY/REPOSITORY`"
            }
            "GPUBUILD_SIGN_KEY" => {
                "GPUBUILD_SIGN_KEY is the text of a file that `minisign -G` writes, and GPUBUILD_SIGN_PASSWORD the password of the key if it has one"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
