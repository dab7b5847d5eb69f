//! What of a key is different, and from what.

use gpubuild_host::{HostPath, ReadFiles};

use super::{Reuse, TREES, parts_path};
use crate::event::BuildEvent;
use crate::store::entry::{Miss, StoreEntry};
use crate::store::key::{KeyDifference, KeyParts};
use crate::store::maintain;
use crate::store::settings::Store;

impl Reuse<'_> {
    /// Keeps what the key was made of, so that the next build can say what is different.
    pub(super) fn note_parts(&self, parts: &KeyParts) {
        let path = parts_path(self.tree);
        if let Err(error) = crate::store::write_json(self.job.host, &path, parts) {
            log::debug!("failed to save the key in `{path}`: {error}");
        }
    }

    pub(super) fn tell_hit(&self, key: &str, folder: &HostPath) {
        let (tree, key, entry) = (self.tree.id.clone(), key.to_owned(), folder.to_string());
        (self.job.sink)(&BuildEvent::Taken { tree, key, entry });
    }

    /// What is different from the last build in this folder, else from the entry that is most like it.
    pub(super) fn tell_miss(&self, store: &Store, key: &str, parts: &KeyParts, miss: &Miss) {
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
        // The parts of another version are not comparable.
        let schema = |parts: &KeyParts| parts.0.get("gpubuild").and_then(|part| part.get("schema")).cloned();
        if let Some(last) = last.filter(|last| schema(last) == schema(parts)) {
            return ("the last build here".to_owned(), parts.since(&last));
        }
        let near = nearest(host, store, parts);
        near.map(|(label, near)| (format!("the stored `{label}`"), parts.since(&near))).unwrap_or_default()
    }

    pub(super) fn tell_unused(&self, why: String) {
        (self.job.sink)(&BuildEvent::StoreUnused { tree: self.tree.id.clone(), why });
    }
}

/// The entry whose key differs in the fewest parts, and there in the fewest items.
fn nearest(host: &dyn ReadFiles, store: &Store, parts: &KeyParts) -> Option<(String, KeyParts)> {
    /// So many are looked at, those used last first: each is read whole.
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
