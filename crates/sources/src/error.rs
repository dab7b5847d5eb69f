//! Errors of fetching sources.

use std::io;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::HostPath;
use gpubuild_host::links::LinkRefused;
use gpubuild_plan::project::ProjectError;
use gpubuild_release::fetch::{DownloadError, FetchError};
use gpubuild_release::unpack::RejectedArchive;
use gpubuild_release::url::BadUrl;

/// The largest accepted archive in bytes, if its size is not known.
pub(crate) const LARGEST_ARCHIVE: u64 = 2 << 30;

/// Why sources are not available.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The lock file is invalid, or `path` names no folder.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The lock file must not be changed.
    #[error("`{lock}` {}, and `--locked` does not allow changing it", if *.exists { "does not match gpubuild.toml" } else { "does not exist" })]
    Locked {
        /// Whether there is a lock file.
        exists: bool,
        /// Path of the lock file.
        lock: String,
    },
    /// A download would be necessary.
    #[error("{source_name} {}, and downloads are forbidden", if *.is_pinned { "is not on this machine" } else { "is not pinned by gpubuild.lock" })]
    Offline {
        /// The sources.
        source_name: String,
        /// Whether the version is known.
        is_pinned: bool,
    },
    /// An archive of a toolkit would have to be downloaded.
    #[error("`{name}` is not on this machine, and downloads are forbidden")]
    OfflineArchive {
        /// Its file name.
        name: String,
    },
    /// A download failed.
    #[error(transparent)]
    Fetch(#[from] Box<FetchError>),
    /// An address in the configuration or in an index is invalid.
    #[error(transparent)]
    Address(#[from] BadUrl),
    /// The registry has no such package.
    #[error("`{registry}` has no {kind} `{name}`")]
    UnknownPackage {
        /// `crate` or `Python package`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// URL of the registry.
        registry: String,
    },
    /// No release matches.
    #[error("no release of `{name}` matches `{requirement}`{}", versions(.known))]
    UnknownVersion {
        /// The package.
        name: String,
        /// The requested version.
        requirement: String,
        /// The newest versions.
        known: Vec<String>,
    },
    /// The release cannot be unpacked.
    #[error("{name} {version} has no source distribution{}", others(.files))]
    NoArchive {
        /// The package.
        name: String,
        /// The version.
        version: String,
        /// Its files.
        files: Vec<String>,
    },
    /// The index has no pinned wheel that this machine supports.
    #[error("`{index}` has no pinned wheel of {name} {version} for this machine")]
    NoWheel {
        /// The package.
        name: String,
        /// The version.
        version: String,
        /// URL of its page in the index.
        index: String,
    },
    /// An index is malformed.
    #[error("`{url}` is not a valid index: {why}")]
    Index {
        /// The URL.
        url: String,
        /// The problem.
        why: String,
    },
    /// The configuration of cargo names a registry that is not supported.
    #[error("`{file}` replaces crates.io with {what}, which gpubuild does not read")]
    Registry {
        /// The file of cargo.
        file: String,
        /// The kind of registry.
        what: String,
    },
    /// An archive does not exist on its server.
    #[error("`{url}` does not exist")]
    Missing {
        /// The URL.
        url: String,
    },
    /// An archive is larger than the limit.
    #[error("`{url}` has more than {limit} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// The limit.
        limit: u64,
    },
    /// The content is not the pinned one.
    #[error("the hash of `{place}` is {found}, but {expected} is expected")]
    Hash {
        /// URL of the archive.
        place: String,
        /// The sha256 of the download.
        found: String,
        /// The pinned sha256.
        expected: String,
    },
    /// The archive breaks a rule.
    #[error("`{name}` was not unpacked: {error}")]
    Rejected {
        /// The sources.
        name: String,
        /// The broken rule.
        error: Box<RejectedArchive>,
    },
    /// git is not installed.
    #[error("fetching `{url}` requires git, which was not found")]
    NoGit {
        /// URL of the repository.
        url: String,
    },
    /// git failed.
    #[error("failed to fetch `{url}`: {message}")]
    Git {
        /// URL of the repository.
        url: String,
        /// Output of git.
        message: String,
    },
    /// The server or the connection is too slow for git.
    #[error("failed to fetch `{url}` in time: {message}")]
    GitSlow {
        /// URL of the repository.
        url: String,
        /// Output of git.
        message: String,
    },
    /// The commit does not exist.
    #[error("`{url}` has no commit {rev}")]
    NoRev {
        /// URL of the repository.
        url: String,
        /// The hash.
        rev: String,
    },
    /// A file cannot be written.
    #[error("failed to write `{path}`: {message}")]
    Write {
        /// The file or folder.
        path: String,
        /// The system's message.
        message: String,
    },
    /// The folder of the vendored copy exists and is not one.
    #[error("`{path}` exists, and gpubuild did not write it")]
    Occupied {
        /// The folder.
        path: String,
    },
    /// The folder of the vendored copy is reached through a link.
    #[error(transparent)]
    Link(#[from] LinkRefused),
    /// There is no folder for the cache.
    #[error("no cache folder is known: set GPUBUILD_CACHE or HOME")]
    NoCache,
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

fn versions(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; the newest are {}", known.join(", ")) }
}

fn others(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!("; it has {}", files.join(", ")) }
}

impl From<FetchError> for SourceError {
    fn from(error: FetchError) -> Self {
        Self::Fetch(Box::new(error))
    }
}

impl SourceError {
    pub(crate) fn write(path: &HostPath, error: &io::Error) -> Self {
        Self::Write { path: path.to_string(), message: error.to_string() }
    }

    pub(crate) fn download(path: &HostPath, error: DownloadError) -> Self {
        match error {
            DownloadError::Fetch(error) => error.into(),
            DownloadError::Disk(error) => Self::write(path, &error),
        }
    }
}

impl Diagnostic for SourceError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Project(error) => error.id(),
            Self::Locked { .. } => id!("source.locked"),
            Self::Offline { .. } => id!("source.offline"),
            Self::OfflineArchive { .. } => id!("fetch.offline"),
            Self::Fetch(error) => error.id(),
            Self::Address(_) => id!("net.address-invalid"),
            Self::UnknownPackage { .. } => id!("source.package-unknown"),
            Self::UnknownVersion { .. } => id!("source.version-unknown"),
            Self::NoArchive { .. } => id!("source.no-archive"),
            Self::NoWheel { .. } => id!("wheel.not-found"),
            Self::Index { .. } => id!("source.index-invalid"),
            Self::Registry { .. } => id!("source.registry-unsupported"),
            Self::Missing { .. } => id!("net.status"),
            Self::TooLarge { .. } => id!("archive.size"),
            Self::Hash { .. } => id!("source.hash-mismatch"),
            Self::Rejected { error, .. } => error.id(),
            Self::NoGit { .. } => id!("source.git-missing"),
            Self::Git { .. } => id!("source.git-failed"),
            Self::GitSlow { .. } => id!("source.git-slow"),
            Self::NoRev { .. } => id!("source.rev-missing"),
            Self::Write { .. } => id!("source.write-failed"),
            Self::Occupied { .. } => id!("source.vendor-occupied"),
            Self::Link(error) => error.id(),
            Self::NoCache => id!("cache.missing"),
            Self::Interrupted => id!("build.interrupted"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Project(error) => return error.hint(),
            Self::Fetch(error) => return error.hint(),
            Self::Link(error) => return error.hint(),
            Self::Occupied { .. } => "move or delete the folder, or set `vendor` to another one",
            Self::Locked { .. } => "run `gpubuild update` and commit gpubuild.lock",
            Self::Offline { .. } => "run `gpubuild fetch` once with a network",
            Self::OfflineArchive { .. } => {
                "run the command once without `--offline`, or download the archive elsewhere and name its folder with `--from`"
            }
            Self::UnknownPackage { .. } => "correct the name in `source`",
            Self::UnknownVersion { .. } => "correct `version` in `source`",
            Self::NoWheel { .. } => "check the index that uv or pip are configured to use",
            Self::NoArchive { .. } => "use another version, or `url`, `git` or `crate` as the source",
            Self::Registry { .. } => {
                "use a sparse registry, or run `cargo fetch` in a project that depends on the crate: gpubuild reads cargo's cache"
            }
            Self::Missing { .. } => "check the URL",
            Self::Hash { .. } => {
                "nothing was unpacked: check where the file comes from; if the publisher replaced it, verify it and change the hash"
            }
            Self::NoGit { .. } => "install git (Debian, Ubuntu: `git`)",
            Self::Git { .. } => "check the URL, the network, and that git can read the repository",
            Self::GitSlow { .. } => {
                "run the same command later, or set GPUBUILD_HTTP_TIMEOUT to more than 30 seconds for a server that needs long to prepare the commit"
            }
            Self::NoRev { .. } => {
                "correct `rev`; the commit must belong to a branch or tag of the repository"
            }
            Self::Rejected { error, .. } if !error.id().starts_with("install.") => {
                "nothing was unpacked: report this to the publisher, or use another version"
            }
            Self::Write { .. } | Self::Rejected { .. } => {
                "check the free space and the permissions of the folder"
            }
            Self::Index { .. } => {
                "check the URL of the index, and that no proxy or sign-in page answers in its place"
            }
            Self::TooLarge { limit, .. } if *limit < LARGEST_ARCHIVE => {
                "check the URL: the server sends another file than the pinned one"
            }
            Self::TooLarge { .. } => "check the URL; larger sources can be cloned with `git` or vendored",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
