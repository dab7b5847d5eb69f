//! A shared store during one command: its limits, and what was transferred.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpubuild_exec::python::Network;
use gpubuild_host::Host;
use gpubuild_release::fetch::Client;

use super::error::RemoteError;
use super::manifest::{Rejected, RemoteManifest, id};
use super::server::{Call, ListedEntry, Object};
use super::settings::{RemoteAccess, RemoteSettings};

/// A shared store during one command.
pub struct RemoteStore<'a> {
    pub(crate) settings: RemoteSettings,
    pub(crate) client: Client<'a>,
    /// Whether a failure has ended its use.
    is_off: AtomicBool,
    /// The time that all operations took.
    spent: Mutex<Duration>,
    pub(crate) uploaded: AtomicU64,
    usage: Mutex<RemoteUsage>,
    /// The keys that were looked up, each under one or two names.
    pub(crate) keys: Mutex<BTreeSet<String>>,
}

/// What a command has transferred.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RemoteUsage {
    /// Entries that were used.
    pub hits: u64,
    /// Entries that the store does not have, or that cannot be used here.
    pub misses: u64,
    /// Entries that were saved.
    pub saved: u64,
    /// Bytes that were received.
    pub downloaded: u64,
    /// Bytes that were sent.
    pub uploaded: u64,
    /// The time that all operations took, in seconds.
    pub seconds: f64,
}

impl<'a> RemoteStore<'a> {
    /// The store of these settings. Nothing is contacted yet.
    #[must_use]
    pub fn new(host: &'a dyn Host, settings: RemoteSettings, warn: Box<dyn Fn(&str) + Sync + 'a>) -> Self {
        let client = Client::new(host, Network::Allowed, settings.plain, warn).impatient(settings.timeout);
        Self {
            settings,
            client,
            is_off: AtomicBool::new(false),
            spent: Mutex::default(),
            uploaded: AtomicU64::new(0),
            usage: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// Whether builds save results.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.settings.access == RemoteAccess::Write
    }

    /// What was transferred until now.
    #[must_use]
    pub fn usage(&self) -> RemoteUsage {
        let mut usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        usage.misses = keys.saturating_sub(usage.hits);
        usage
    }

    /// The number of entries and their ids.
    ///
    /// # Errors
    /// The server cannot be reached or has no list.
    pub fn list(&self) -> Result<Vec<ListedEntry>, RemoteError> {
        self.operation(|call| self.settings.server.list(call))
    }

    /// Asks the server for an entry that does not exist, which shows whether it can be used.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn check(&self) -> Result<Duration, RemoteError> {
        let started = self.client.host.elapsed();
        self.operation(|call| self.settings.server.get(Object::Manifest(&id("")), 0, call))?;
        Ok(self.client.host.elapsed().saturating_sub(started))
    }

    /// Removes entries that were saved more than `age` seconds ago, or all. Then removes blobs that no entry uses.
    ///
    /// # Errors
    /// The server has no list, or refuses.
    pub fn prune(&self, age: Option<u64>, all: bool) -> Result<RemotePruned, RemoteError> {
        let now = self.client.host.now();
        self.operation(|call| {
            let mut pruned = RemotePruned::default();
            let mut keep = BTreeSet::new();
            for entry in self.settings.server.list(call)? {
                let manifest = self.manifest(&entry.id, call)?;
                let Some((manifest, created)) = manifest else { continue };
                let written = entry.modified.unwrap_or(created);
                if all || age.is_some_and(|age| now.saturating_sub(written) > age) {
                    self.settings.server.remove(&entry.id, call)?;
                    pruned.removed += 1;
                } else {
                    keep.extend(manifest);
                    pruned.left += 1;
                }
            }
            (pruned.blobs, pruned.bytes) = self.settings.server.remove_unused_blobs(&keep, call)?;
            Ok(pruned)
        })
    }

    /// The blobs of an entry and its creation time. Its signature does not matter. Entries that cannot be read have no blobs.
    fn manifest(&self, id: &str, call: &Call<'_>) -> Result<Option<(Vec<String>, u64)>, RemoteError> {
        let Some((url, response)) = self.settings.server.get(Object::Manifest(id), 0, call)? else {
            return Ok(None);
        };
        let bytes = call.document(&url, response)?;
        Ok(Some(RemoteManifest::references(&bytes).unwrap_or_default()))
    }

    /// Runs an operation within the time that is left.
    pub(crate) fn operation<T, E: From<RemoteError>>(
        &self,
        run: impl FnOnce(&Call<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let host = self.client.host;
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let started = host.elapsed();
        let deadline = started + self.settings.budget.saturating_sub(spent);
        let outcome = run(&Call { client: &self.client, timeout: self.settings.timeout, deadline });
        let time = host.elapsed().saturating_sub(started);
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += time;
        self.count(|usage| usage.seconds += time.as_secs_f64());
        outcome
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut RemoteUsage)) {
        change(&mut self.usage.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// Notes a failure. Returns whether it is the first lasting one, which is worth a warning.
    pub(crate) fn failed(&self, error: &RemoteError) -> bool {
        !error.is_lasting() || !self.is_off.swap(true, Ordering::Relaxed)
    }

    /// Reads and verifies the manifest of an entry.
    pub(crate) fn open(
        &self,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Option<(String, RemoteManifest)>, RemoteError> {
        let Some((url, response)) = self.settings.server.get(Object::Manifest(&id(name)), 0, call)? else {
            return Ok(None);
        };
        let bytes = call.document(&url, response)?;
        let manifest = RemoteManifest::open(&bytes, name, self.settings.keys.as_deref());
        match manifest {
            Ok(manifest) => Ok(Some((url, manifest))),
            Err(Rejected::Damaged(what)) => Err(RemoteError::Damaged { url, what }),
            Err(Rejected::Unsigned(what)) => Err(RemoteError::Unsigned { url, what }),
        }
    }
}

/// The result of pruning a shared store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemotePruned {
    /// Entries that were removed.
    pub removed: usize,
    /// Entries that remain.
    pub left: usize,
    /// Blobs that were removed.
    pub blobs: usize,
    /// Their size in bytes.
    pub bytes: u64,
}
