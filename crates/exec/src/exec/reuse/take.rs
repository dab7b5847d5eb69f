//! Taking the result of a whole tree from the store.

use gpubuild_host::{FileLock, HostPath};
use gpubuild_plan::artifacts::BuiltTree;

use super::{Reuse, ReuseResult, TREES, TakenTree, taken_path};
use crate::cmake;
use crate::event::BuildEvent;
use crate::exec::error::BuildError;
use crate::exec::stamp;
use crate::store::entry::{self, EntryInputs, Miss, StoreEntry};
use crate::store::maintain;
use crate::store::settings::Store;

impl Reuse<'_> {
    /// Takes the result from the store if it is there.
    pub(in crate::exec) fn take(&mut self) -> Result<ReuseResult, BuildError> {
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else {
            return Ok(ReuseResult::Miss(None));
        };
        let host = self.job.host;
        let key = parts.key();
        let lock = if self.writable { self.lock(store, &key)? } else { None };
        let mut why = Miss::Absent;
        for folder in entry::candidates(store, TREES, &key, &self.places) {
            match self.look(&folder) {
                Ok((found, inputs, built)) => {
                    self.put(&folder, &found)?;
                    let read = inputs.read.iter().map(|path| self.places.path(path).to_string()).collect();
                    if self.writable {
                        entry::note_use(host, &folder);
                    }
                    self.elsewhere.write();
                    self.tell_hit(&key, &folder);
                    self.note_parts(&parts);
                    return Ok(ReuseResult::Hit(Box::new(built), read));
                }
                Err(Miss::Absent) => {}
                Err(miss) => {
                    if let (Miss::Damaged(_), true) = (&miss, self.writable) {
                        // What cannot be removed is replaced when the result is stored.
                        let _ = maintain::discard(host, &folder);
                    }
                    if miss == Miss::Newer {
                        self.writable = false;
                    }
                    why = miss;
                }
            }
        }
        self.tell_miss(store, &key, &parts, &why);
        Ok(ReuseResult::Miss(lock))
    }

    /// Whoever makes the same at this moment is waited for: then it is there.
    fn lock(&mut self, store: &Store, key: &str) -> Result<Option<FileLock>, BuildError> {
        let (sink, tree) = (self.job.sink, &self.tree.id);
        let waiting = |path: &HostPath| {
            sink(&BuildEvent::WaitingForStore { tree: tree.clone(), lock: path.to_string() });
        };
        match entry::lock(self.job.host, store, key, &waiting) {
            Ok(lock) => Ok(lock),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Err(BuildError::Interrupted),
            Err(error) => {
                self.writable = false;
                self.tell_unused(format!("nothing is put into the store: {error}"));
                Ok(None)
            }
        }
    }

    /// The entry in a folder, if it serves.
    pub(super) fn look(&mut self, folder: &HostPath) -> Result<(StoreEntry, EntryInputs, BuiltTree), Miss> {
        let (entry, inputs) = StoreEntry::serving(self.job.host, folder, &self.places, &mut self.elsewhere)?;
        let built = self.built(&inputs)?;
        Ok((entry, inputs, built))
    }

    /// Puts the files of an entry into their places.
    fn put(&mut self, folder: &HostPath, entry: &StoreEntry) -> Result<(), BuildError> {
        let host = self.job.host;
        let paths = entry.paths(&self.places);
        // From here on the folder is not what CMake and Ninja left: they are told by files that are missing.
        let own = cmake::own_folder(self.tree);
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        for name in ["stamp.json", "configured.json"] {
            host.remove(&own.join(name)).map_err(failed)?;
        }
        let mut taken: TakenTree = crate::store::read_json(host, &taken_path(self.tree)).unwrap_or_default();
        taken.files.extend(paths);
        taken.files.sort();
        taken.files.dedup();
        crate::store::write_json(host, &taken_path(self.tree), &taken).map_err(failed)?;
        entry.put(host, folder, &self.places).map_err(failed)
    }

    /// The result in the words of this tree.
    fn built(&self, inputs: &EntryInputs) -> Result<BuiltTree, Miss> {
        let value = self.places.put_into(inputs.result.clone());
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
