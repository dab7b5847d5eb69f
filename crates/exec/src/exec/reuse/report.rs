//! Reports hits and misses of the build store, with the parts of the key that differ.

use gpubuild_host::{HostPath, ReadFiles};

use super::{Reuse, TREES, parts_path};
use crate::event::BuildEvent;
use crate::store::entry::{Miss, StoreEntry};
use crate::store::key::{KeyDifference, KeyParts};
use crate::store::maintain;
use crate::store::settings::Store;

impl Reuse<'_> {
    /// Saves the parts of the key so that the next build can report differences.
    pub(super) fn save_parts(&self, parts: &KeyParts) {
        let path = parts_path(self.tree);
        if let Err(error) = crate::store::write_json(self.job.host, &path, parts) {
            log::debug!("failed to save the key in `{path}`: {error}");
        }
    }

    pub(super) fn report_hit(&self, key: &str, folder: &HostPath) {
        let (tree, key, entry) = (self.tree.id.clone(), key.to_owned(), folder.to_string());
        (self.job.sink)(&BuildEvent::Taken { tree, key, entry });
    }

    /// Reports a miss with the differences to the last build in this folder, or to the most similar entry.
    pub(super) fn report_miss(&self, store: &Store, key: &str, parts: &KeyParts, miss: &Miss) {
        let (since, different) = match miss {
            Miss::Absent => self.compared(store, parts),
            _ => (String::new(), Vec::new()),
        };
        (self.job.sink)(&BuildEvent::NotStored {
            tree: self.tree.id.clone(),
            key: key.to_owned(),
            why: miss.to_string(),
            since,
            different,
        });
    }

    pub(super) fn compared(&self, store: &Store, parts: &KeyParts) -> (String, Vec<KeyDifference>) {
        let host = self.job.host;
        let last: Option<KeyParts> = crate::store::read_json(host, &parts_path(self.tree));
        // Keys of different schema versions are not comparable.
        let schema = |parts: &KeyParts| parts.0.get("gpubuild").and_then(|part| part.get("schema")).cloned();
        if let Some(last) = last.filter(|last| schema(last) == schema(parts)) {
            return ("the last build in this folder".to_owned(), parts.since(&last));
        }
        let near = nearest(host, store, parts);
        near.map(|(label, near)| (format!("the stored result `{label}`"), parts.since(&near)))
            .unwrap_or_default()
    }

    pub(super) fn report_unused(&self, why: String) {
        (self.job.sink)(&BuildEvent::StoreUnused { tree: self.tree.id.clone(), why });
    }
}

/// Returns the entry whose key differs in the fewest parts, then in the fewest items.
fn nearest(host: &dyn ReadFiles, store: &Store, parts: &KeyParts) -> Option<(String, KeyParts)> {
    /// Maximum number of entries to compare, most recently used first. Each is read completely.
    const MOST: usize = 20;
    let items = maintain::items(host, store).into_iter().filter(|item| item.kind == TREES).take(MOST);
    let read = items.filter_map(|item| {
        let (entry, inputs) = (item.entry.ok()?, StoreEntry::inputs(host, &item.folder).ok()?);
        let different: Vec<KeyDifference> = parts.since(&inputs.parts);
        let items: usize = different.iter().map(|difference| difference.items.len()).sum();
        Some(((different.len(), items), entry.label, inputs.parts))
    });
    read.min_by_key(|(distance, ..)| *distance).map(|(_, label, parts)| (label, parts))
}
