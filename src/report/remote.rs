//! The documents of `gpubuild cache push`, `pull`, `stat` and `prune --remote`, and the line of a build.

use gpubuild_plan::plan::bytes;
use gpubuild_remote::{RemotePruned, RemoteUsage};
use serde::Serialize;

use super::Schema;

/// The line of a build that has used the shared store; `None` if it has not.
#[must_use]
pub fn summary(usage: &RemoteUsage) -> Option<String> {
    let RemoteUsage { hits, misses, saved, downloaded, uploaded, seconds } = *usage;
    if hits + misses + saved == 0 {
        return None;
    }
    let sent = match saved {
        0 => String::new(),
        _ => format!(", {saved} saved ({})", bytes::show(uploaded)),
    };
    let (all, received) = (hits + misses, bytes::show(downloaded));
    Some(format!("shared store: {hits} of {all} lookups hit ({received}){sent}, in {seconds:.1} s"))
}

/// What happened with a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransferState {
    /// The result was copied.
    Copied,
    /// The local store has the result already.
    Present,
    /// There is no result that could be copied.
    Missing,
}

/// A tree of `cache push` or `cache pull`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TransferredTree {
    /// Id of the tree.
    pub tree: String,
    /// The outcome.
    pub state: TransferState,
    /// Transferred bytes, compressed.
    pub bytes: u64,
    /// Why nothing was copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The document of `cache push` and `cache pull`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TransferReport {
    schema: Schema,
    /// URL of the shared store.
    store: String,
    /// The trees.
    trees: Vec<TransferredTree>,
}

impl TransferReport {
    /// The document of `name`: `cache-push` or `cache-pull`.
    #[must_use]
    pub fn new(name: &'static str, store: String, trees: Vec<TransferredTree>) -> Self {
        Self { schema: Schema { name, version: 1 }, store, trees }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |tree: &TransferredTree| match (tree.state, &tree.why) {
            (TransferState::Copied, _) => format!("{}  copied, {}", tree.tree, bytes::show(tree.bytes)),
            (TransferState::Present, _) => format!("{}  already in the local store", tree.tree),
            (TransferState::Missing, Some(why)) => format!("{}  not copied: {why}", tree.tree),
            (TransferState::Missing, None) => format!("{}  not copied", tree.tree),
        };
        let lines: Vec<String> = self.trees.iter().map(line).collect();
        format!("{}\n{}", lines.join("\n"), self.store)
    }
}

/// The document of `cache stat`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatReport {
    schema: Schema,
    /// URL of the shared store.
    store: String,
    /// Whether builds save results in it.
    write: bool,
    /// Duration of a lookup in seconds.
    seconds: f64,
    /// Number of entries, if the server lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<usize>,
}

impl StatReport {
    /// The document.
    #[must_use]
    pub fn new(store: String, write: bool, seconds: f64, entries: Option<usize>) -> Self {
        Self { schema: Schema { name: "cache-stat", version: 1 }, store, write, seconds, entries }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let access = if self.write { "read and write" } else { "read only" };
        let entries = self.entries.map_or_else(|| "the server does not list its entries".to_owned(), entries);
        format!("{}: {entries}, {access}, a lookup takes {:.0} ms", self.store, self.seconds * 1e3)
    }
}

/// The document of `cache prune --remote`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RemotePruneReport {
    schema: Schema,
    /// URL of the shared store.
    store: String,
    /// Number of entries that were removed.
    removed: usize,
    /// Number of entries that remain.
    left: usize,
    /// Number of files that were removed because no entry needs them.
    removed_files: usize,
    /// Their size in bytes, compressed.
    removed_bytes: u64,
}

impl RemotePruneReport {
    /// The document of a cleanup.
    #[must_use]
    pub fn new(store: String, pruned: RemotePruned) -> Self {
        Self {
            schema: Schema { name: "cache-prune-remote", version: 1 },
            store,
            removed: pruned.removed,
            left: pruned.left,
            removed_files: pruned.blobs,
            removed_bytes: pruned.bytes,
        }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes = bytes::show(self.removed_bytes);
        let files = if self.removed_files == 1 { "file" } else { "files" };
        let (removed, left) = (entries(self.removed), entries(self.left));
        format!("removed {removed} and {} {files} ({bytes}), {left} left", self.removed_files)
    }
}

fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}
