//! Restores the result of a complete tree from the build store.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{FileLock, HostPath};
use gpubuild_plan::artifacts::BuiltTree;

use super::{RestoredFiles, Reuse, ReuseResult, TREES, restored_path};
use crate::cmake;
use crate::event::BuildEvent;
use crate::exec::editor::EditorInfo;
use crate::exec::error::BuildError;
use crate::exec::stamp;
use crate::store::entry::{self, EntryInputs, Miss, StoreEntry};
use crate::store::maintain;
use crate::store::settings::Store;

/// An entry of the local store that has passed all checks.
pub(super) struct UsableEntry {
    entry: StoreEntry,
    inputs: EntryInputs,
    built: BuiltTree,
}

impl Reuse<'_> {
    /// Restores the result if the store has a usable entry.
    pub(in crate::exec) fn restore(&mut self) -> Result<ReuseResult, BuildError> {
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else {
            return Ok(ReuseResult::Miss(None));
        };
        let host = self.job.host;
        let key = parts.key();
        let lock = if self.writable { self.lock(store, &key)? } else { None };
        let mut found = self.find_local(store, &key);
        if found.is_err() && self.pull(store, &key) {
            found = self.find_local(store, &key);
        }
        let (folder, UsableEntry { entry, inputs, built }) = match found {
            Ok(found) => found,
            Err(why) => {
                self.report_miss(store, &key, &parts, &why);
                return Ok(ReuseResult::Miss(lock));
            }
        };
        self.restore_files(&folder, &entry)?;
        self.restore_editor(&inputs)?;
        let read = inputs.read.iter().map(|path| self.roots.path(path).to_string()).collect();
        if self.writable {
            entry::record_use(host, &folder);
        }
        self.external.write();
        self.report_hit(&key, &folder);
        self.save_parts(&parts);
        Ok(ReuseResult::Hit(Box::new(built), read))
    }

    /// Finds a usable entry in the local store. Removes damaged ones.
    pub(super) fn find_local(&mut self, store: &Store, key: &str) -> Result<(HostPath, UsableEntry), Miss> {
        let host = self.job.host;
        let mut why = Miss::Absent;
        for folder in entry::candidates(store, TREES, key, &self.roots) {
            match self.usable_entry(&folder, key) {
                Ok(found) => return Ok((folder, found)),
                Err(Miss::Absent) => {}
                Err(miss) => {
                    if let (Miss::Damaged(_), true) = (&miss, self.writable) {
                        // An entry that cannot be removed is replaced when the new result is saved.
                        let _ = maintain::discard(host, &folder);
                    }
                    if miss == Miss::Newer {
                        self.writable = false;
                    }
                    why = miss;
                }
            }
        }
        Err(why)
    }

    /// Locks the key. Waits for another build that produces the same result, which is then in the store.
    pub(super) fn lock(&mut self, store: &Store, key: &str) -> Result<Option<FileLock>, BuildError> {
        let (sink, tree) = (self.job.sink, &self.tree.id);
        let waiting = |path: &HostPath| {
            sink(&BuildEvent::WaitingForStore { tree: tree.clone(), lock: path.to_string() });
        };
        match entry::lock(self.job.host, store, key, &waiting) {
            Ok(lock) => Ok(lock),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Err(BuildError::Interrupted),
            Err(error) => {
                self.writable = false;
                self.report_unused(format!("nothing is saved in the build store: {error}"));
                Ok(None)
            }
        }
    }

    /// Reads the entry in a folder and checks that it is usable.
    pub(super) fn usable_entry(&mut self, folder: &HostPath, key: &str) -> Result<UsableEntry, Miss> {
        let (entry, inputs) =
            StoreEntry::read_usable(self.job.host, folder, key, &self.roots, &mut self.external)?;
        let built = self.built(&inputs)?;
        Ok(UsableEntry { entry, inputs, built })
    }

    /// Copies the files of an entry into the build folder.
    fn restore_files(&mut self, folder: &HostPath, entry: &StoreEntry) -> Result<(), BuildError> {
        let host = self.job.host;
        let paths = entry.paths(&self.roots);
        // The folder no longer matches the state that CMake and Ninja left. Removing these files invalidates that state.
        let own = cmake::own_folder(self.tree);
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        for name in ["stamp.json", "configured.json"] {
            host.remove(&own.join(name)).map_err(failed)?;
        }
        let mut restored: RestoredFiles =
            crate::store::read_json(host, &restored_path(self.tree)).unwrap_or_default();
        restored.files.extend(paths);
        restored.files.sort_indirect();
        restored.files.dedup();
        crate::store::write_json(host, &restored_path(self.tree), &restored).map_err(failed)?;
        entry.restore(host, folder, &self.roots).map_err(failed)
    }

    /// Writes the stored list of sources, and the files with which an editor can configure the tree. An entry of an earlier version
    /// of gpubuild has no list.
    fn restore_editor(&self, inputs: &EntryInputs) -> Result<(), BuildError> {
        let (host, tree) = (self.job.host, self.tree);
        let editor = EditorInfo::restored(tree, self.roots.expand_in(inputs.sources.clone()));
        let written = editor.write(host, tree).and_then(|()| cmake::write_inputs(host, tree));
        written.map_err(|error| BuildError::io("write into", &tree.build, &error))
    }

    /// The stored result with the id, paths and options of this tree.
    fn built(&self, inputs: &EntryInputs) -> Result<BuiltTree, Miss> {
        let value = self.roots.expand_in(inputs.result.clone());
        let built: BuiltTree =
            serde_json::from_value(value).map_err(|error| Miss::Damaged(error.to_string()))?;
        Ok(BuiltTree {
            id: self.tree.id.clone(),
            key: stamp::key(self.tree, self.job.host.env()),
            source: self.tree.source.to_string(),
            build: self.tree.build.to_string(),
            cache: self.tree.cache.clone(),
            ..built
        })
    }
}
