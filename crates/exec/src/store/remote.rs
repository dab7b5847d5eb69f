//! The interface of a second level behind the local store, which several machines share.
//!
//! The crate `gpubuild-remote` implements it. Build scripts use the local store only, so they need no network client.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_host::HostPath;

use super::entry::{EntryInputs, Miss, StoreEntry};
use super::settings::Store;

/// What a transfer has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TransferCost {
    /// Bytes that were sent or received, compressed.
    pub bytes: u64,
    /// Number of blobs that were sent or received.
    pub blobs: usize,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Why the shared store is not used. The build continues without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteProblem {
    /// The id of the warning.
    pub id: DiagnosticId,
    /// The message, on one line.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

/// The result of a lookup in the shared store.
#[derive(Debug, Clone, PartialEq)]
pub enum PullOutcome {
    /// The store has no entry, or is not used any more in this build.
    Absent,
    /// The entry is in the local store now.
    Pulled(TransferCost),
    /// The entry is for a machine with other files.
    Unusable(Miss),
    /// A check or the transfer failed.
    Failed(RemoteProblem),
}

/// The result of saving an entry in the shared store.
#[derive(Debug, Clone, PartialEq)]
pub enum PushOutcome {
    /// This build does not save entries, or not any more.
    Off,
    /// The store has the entry now.
    Pushed(TransferCost),
    /// The entry cannot be shared, for this reason.
    NotShared(String),
    /// The transfer failed.
    Failed(RemoteProblem),
}

/// What a build would download for an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum RemoteLookup {
    /// The store has no entry, or is not used.
    Absent,
    /// The store has a usable entry.
    Usable(TransferCost),
    /// The entry is for a machine with other files.
    Unusable(Miss),
    /// The lookup failed.
    Failed(RemoteProblem),
}

/// Checks that a build on this machine would have the same inputs as an entry.
pub type CheckInputs<'a> = &'a mut dyn FnMut(&StoreEntry, &EntryInputs) -> Result<(), Miss>;

/// A store that several machines share.
pub trait RemoteLevel: Sync {
    /// The store as shown to the user.
    fn name(&self) -> String;

    /// Copies an entry of complete trees into the local store, with all checks. The caller holds the lock of its key.
    fn pull(&self, store: &Store, name: &str, check: CheckInputs<'_>) -> PullOutcome;

    /// Looks an entry up without downloading its files.
    fn look_up(&self, name: &str, check: CheckInputs<'_>) -> RemoteLookup;

    /// Saves the entry in a folder of the local store.
    fn push(&self, store: &Store, folder: &HostPath) -> PushOutcome;
}
