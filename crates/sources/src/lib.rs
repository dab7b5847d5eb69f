//! Fetches the sources of a project that `source` in gpubuild.toml names. [`ensure`] does everything:
//!
//! ```text
//! gpubuild.toml, gpubuild.lock -> the exact version and hash     registry, python_index (network)
//!                              -> an archive or a repository      archive, git
//!                              -> a verified, read-only folder    store (gpubuild's cache)
//!                              -> a copy in the project           vendor
//! ```
//!
//! `gpubuild_plan::project::source::locate` finds the folder again without a network.

mod archive;
pub mod cache;
mod cargo_config;
mod error;
mod git;
mod python_index;
mod registry;
mod store;
pub mod toolkit;
mod vendor;
mod wheel;

use gpubuild_exec::python::Network;
use gpubuild_host::{Host, HostPath};
use gpubuild_plan::project::source::locate;
use gpubuild_plan::project::source::lock::{LOCK_NAME, LockedSource};
use gpubuild_plan::project::source::{FetchedSource, SourceOrigin};
use gpubuild_plan::project::{ProjectError, ProjectTable};
use gpubuild_release::fetch::Client;

pub use error::SourceError;
pub use wheel::IndexWheels;

/// What the lock file means for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockPolicy {
    /// Use the lock file. Write it if it is missing or is for other sources.
    Keep,
    /// Use the lock file. Fail if it is missing or is for other sources.
    Locked,
    /// Find the newest matching version, and write the lock file.
    Update,
}

/// A progress message: an action and what it is done with.
pub type Progress<'a> = &'a dyn Fn(&str);

/// The sources to fetch.
#[derive(Clone, Copy)]
pub struct SourceRequest<'a> {
    /// The machine.
    pub host: &'a dyn Host,
    /// Downloads indexes and archives.
    pub client: &'a Client<'a>,
    /// Folder of gpubuild.toml.
    pub root: &'a HostPath,
    /// `[project]` of gpubuild.toml.
    pub table: &'a ProjectTable,
    /// The sources that it names.
    pub source: &'a FetchedSource,
    /// How the lock file is used.
    pub policy: LockPolicy,
    /// Receives one message per download.
    pub progress: Progress<'a>,
}

/// Where the sources were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// In the cache or in the vendored folder.
    Present,
    /// They were downloaded.
    Fetched,
}

/// Sources that are on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadySource {
    /// Their exact version and hash.
    pub locked: LockedSource,
    /// The folder that was downloaded.
    pub folder: HostPath,
    /// Whether they were downloaded now.
    pub state: SourceState,
    /// What the lock file pinned before, if that was the same package in another version.
    pub before: Option<LockedSource>,
    /// Whether the lock file was written.
    pub is_lock_new: bool,
}

/// Makes the sources of a project available, and writes the lock file. An error leaves the lock file and the cache as they were.
///
/// # Errors
/// See [`SourceError`].
pub fn ensure(request: &SourceRequest<'_>) -> Result<ReadySource, SourceError> {
    let SourceRequest { host, root, table, source, policy, .. } = *request;
    let old = match locate::read_lock(host, root) {
        // `update` replaces an invalid lock file.
        Err(ProjectError::SourceLock { .. }) if policy == LockPolicy::Update => None,
        other => other?,
    };
    let matching = old.clone().filter(|locked| locked.origin == source.origin);
    if policy == LockPolicy::Locked && matching.is_none() {
        return Err(SourceError::Locked { exists: old.is_some(), lock: root.join(LOCK_NAME).to_string() });
    }
    let locked = match matching.filter(|_| policy != LockPolicy::Update) {
        Some(locked) => locked,
        None => resolve(request)?,
    };
    let (folder, state) = store::provide(request, &locked)?;
    let folder = match vendor::update(host, root, table, &locked, &folder)? {
        Some(vendored) => vendored,
        None => folder,
    };
    locate::inside(host, &folder, source)?;
    let is_lock_new = old.as_ref() != Some(&locked);
    if is_lock_new {
        let path = root.join(LOCK_NAME);
        host.write(&path, locked.text().as_bytes()).map_err(|error| SourceError::write(&path, &error))?;
    }
    let before = old.filter(|old| is_lock_new && is_same_package(&old.origin, &locked.origin));
    Ok(ReadySource { locked, folder, state, before, is_lock_new })
}

/// Whether the registry that cargo uses for a folder has a version of a crate that a requirement allows.
///
/// # Errors
/// The registry cannot be read.
pub fn has_crate(
    (host, client): (&dyn Host, &Client<'_>),
    folder: &HostPath,
    name: &str,
    requirement: &str,
) -> Result<bool, SourceError> {
    registry::has((host, client), folder, name, requirement)
}

/// The newest version that the origin allows, with its hash.
fn resolve(request: &SourceRequest<'_>) -> Result<LockedSource, SourceError> {
    let origin = &request.source.origin;
    if let Some(exact) = LockedSource::exact(origin) {
        return Ok(exact);
    }
    if request.client.network == Network::Offline {
        return Err(SourceError::Offline { source_name: origin.shown(), is_pinned: false });
    }
    match origin {
        SourceOrigin::Crate { name, requirement } => registry::resolve(request, name, requirement),
        SourceOrigin::Pypi { name, version } => python_index::resolve(request, name, version),
        SourceOrigin::Git { .. } | SourceOrigin::Url { .. } => {
            Err(SourceError::Index { url: origin.shown(), why: "it needs no index".to_owned() })
        }
    }
}

fn is_same_package(one: &SourceOrigin, other: &SourceOrigin) -> bool {
    match (one, other) {
        (SourceOrigin::Crate { name, .. }, SourceOrigin::Crate { name: other, .. })
        | (SourceOrigin::Pypi { name, .. }, SourceOrigin::Pypi { name: other, .. }) => name == other,
        (SourceOrigin::Git { url, .. }, SourceOrigin::Git { url: other, .. }) => url == other,
        _ => false,
    }
}
