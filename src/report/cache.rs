//! The documents of `gpubuild cache`, and their text.

use std::fmt::Write as _;

use gpubuild_exec::store::explain::TreeExplanation;
use gpubuild_exec::store::maintain::{Pruned, StoreItem};
use gpubuild_plan::plan::bytes;
use gpubuild_release::layers::DownloadUsage;
use serde::Serialize;

use super::Schema;

/// The document of `cache list` and `cache size`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CacheReport {
    schema: Schema,
    /// Folder of the build store.
    folder: String,
    /// Total size of all entries in bytes.
    bytes: u64,
    /// Maximum size of the build store in bytes.
    limit: u64,
    /// Number of entries.
    count: usize,
    /// Layers of releases in the download cache.
    layers: Downloads,
    /// Sources of projects in the download cache.
    sources: Downloads,
    /// The entries; absent for `cache size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<EntryDocument>>,
}

/// Downloads of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Downloads {
    /// Their number.
    pub count: usize,
    /// Their total size in bytes.
    pub bytes: u64,
}

impl From<DownloadUsage> for Downloads {
    fn from(DownloadUsage { count, bytes }: DownloadUsage) -> Self {
        Self { count, bytes }
    }
}

impl Downloads {
    /// A line of text that begins with `start`; empty without downloads.
    fn line(self, start: &str, what: &str) -> String {
        match self {
            Self { count: 0, .. } => String::new(),
            Self { count, bytes } => format!("\n{start}{count} {what}, {}", bytes::show(bytes)),
        }
    }
}

/// An entry of the build store.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EntryDocument {
    /// What it contains: `tree` or `objects`.
    kind: &'static str,
    /// Its key.
    key: String,
    /// Its folder.
    path: String,
    /// Description for users: `llama cpu-vulkan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Its size in bytes.
    bytes: u64,
    /// Number of files.
    files: usize,
    /// When it was last used, in seconds since 1970.
    used: u64,
    /// When it was created, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    /// How long the build took, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// Whether it can be used only in the folder that it was built in.
    only_there: bool,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl EntryDocument {
    /// The description of an entry.
    #[must_use]
    pub fn new(item: &StoreItem) -> Self {
        let entry = item.entry.as_ref().ok();
        let name = item.folder.file_name().unwrap_or_default();
        Self {
            kind: if item.kind == "trees" { "tree" } else { "objects" },
            key: entry.map_or_else(|| name.to_owned(), |entry| entry.key.clone()),
            path: item.folder.to_string(),
            label: entry.map(|entry| entry.label.clone()),
            bytes: item.bytes(),
            files: entry.map_or(0, |entry| entry.files.len()),
            used: item.used,
            created: entry.map(|entry| entry.created),
            seconds: entry.map(|entry| entry.seconds),
            only_there: entry.is_some_and(|entry| entry.place.is_some()),
            problem: item.entry.as_ref().err().map(ToString::to_string),
        }
    }

    fn line(&self, now: u64) -> String {
        let key = self.key.get(..12).unwrap_or(&self.key);
        let what = self.problem.as_deref().or(self.label.as_deref()).unwrap_or_default();
        let place = if self.only_there { ", only in its folder" } else { "" };
        let ago = age(now.saturating_sub(self.used));
        format!("{key}  {:>10}  {ago:>8}  {:<7}  {what}{place}", bytes::show(self.bytes), self.kind)
    }
}

/// `3 d`, `5 min`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

impl CacheReport {
    /// The document of these entries; without `with_entries`, only their number.
    #[must_use]
    pub fn new(
        folder: String,
        limit: u64,
        items: &[StoreItem],
        (layers, sources): (Downloads, Downloads),
        with_entries: bool,
    ) -> Self {
        Self {
            schema: Schema { name: "cache", version: 1 },
            folder,
            bytes: items.iter().map(StoreItem::bytes).sum(),
            limit,
            count: items.len(),
            layers,
            sources,
            entries: with_entries.then(|| items.iter().map(EntryDocument::new).collect()),
        }
    }

    /// The document as text. `now` is in seconds since 1970.
    #[must_use]
    pub fn text(&self, now: u64) -> String {
        let mut out = String::new();
        if let Some(entries) = self.entries.as_ref().filter(|entries| !entries.is_empty()) {
            let _ = writeln!(out, "{:<12}  {:>10}  {:>8}  {:<7}  what", "key", "size", "used", "kind");
            for entry in entries {
                let _ = writeln!(out, "{}", entry.line(now));
            }
        }
        let (bytes, limit) = (bytes::show(self.bytes), bytes::show(self.limit));
        let _ = write!(out, "{} entries, {bytes} of {limit}, in {}", self.count, self.folder);
        out + &self.layers.line("", "layers of releases") + &self.sources.line("", "downloaded sources")
    }
}

/// The document of `cache prune`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PruneDocument {
    schema: Schema,
    /// Entries that were removed.
    removed: Vec<EntryDocument>,
    /// Their total size in bytes.
    removed_bytes: u64,
    /// Entries that were kept because another process uses them.
    in_use: Vec<EntryDocument>,
    /// Total size of the remaining entries in bytes.
    left_bytes: u64,
    /// Layers of releases that were removed from the download cache.
    removed_layers: Downloads,
    /// Sources that were removed from the download cache.
    removed_sources: Downloads,
}

impl PruneDocument {
    /// The document of a cleanup.
    #[must_use]
    pub fn new(pruned: &Pruned, (removed_layers, removed_sources): (Downloads, Downloads)) -> Self {
        Self {
            schema: Schema { name: "cache-prune", version: 1 },
            removed: pruned.removed.iter().map(EntryDocument::new).collect(),
            removed_bytes: pruned.removed.iter().map(StoreItem::bytes).sum(),
            in_use: pruned.in_use.iter().map(EntryDocument::new).collect(),
            left_bytes: pruned.left,
            removed_layers,
            removed_sources,
        }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let busy = match self.in_use.len() {
            0 => String::new(),
            count => format!("; {count} in use were kept"),
        };
        let (gone, left) = (bytes::show(self.removed_bytes), bytes::show(self.left_bytes));
        let layers = self.removed_layers.line("removed ", "layers of releases");
        let sources = self.removed_sources.line("removed ", "downloaded sources");
        format!("removed {} entries, {gone}; {left} remain{busy}{layers}{sources}", self.removed.len())
    }
}

/// The document of `cache explain`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainDocument {
    schema: Schema,
    /// The trees of the project.
    trees: Vec<TreeExplanation>,
}

impl ExplainDocument {
    /// The document of these trees.
    #[must_use]
    pub fn new(trees: Vec<TreeExplanation>) -> Self {
        Self { schema: Schema { name: "cache-explain", version: 1 }, trees }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for tree in &self.trees {
            let word = if tree.hit { "hit" } else { "miss" };
            let key = tree.key.as_deref().and_then(|key| key.get(..12)).unwrap_or("none");
            lines.push(format!("{}  {word}: {} (key {key})", tree.tree, tree.what));
            match &tree.remote {
                Some(remote) if remote.hit => {
                    lines.push(format!("  shared store: {} to download", bytes::show(remote.bytes)));
                }
                Some(remote) => lines.push(format!("  shared store {}: {}", remote.store, remote.what)),
                None => {}
            }
            if !tree.since.is_empty() && !tree.different.is_empty() {
                lines.push(format!("  compared with {}:", tree.since));
            }
            lines.extend(tree.different.iter().map(|part| format!("    {}", part.line())));
            for (part, hash) in &tree.parts {
                lines.push(format!("  {part:<12} {}", hash.get(..12).unwrap_or(hash)));
            }
        }
        lines.join("\n")
    }
}
