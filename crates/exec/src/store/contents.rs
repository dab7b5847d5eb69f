//! Hashes of many files, each read once: what did not change since the last time is not read again.
//!
//! Whether a file changed is told by size, time of modification and, where there is one, time of change. A file that was
//! written about when its hash was noted could have been written again within the same tick of the clock, so its hash counts
//! only once it is older than the note. That compares two times of the same disk: a clock that goes back costs reading, no more.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::files::{FileSnapshot, FileStamp};
use super::settings::Store;
use super::sha256;

/// Version of the form; another one is as good as none.
const SCHEMA: u32 = 1;

/// Times closer than this may be the same one, in nanoseconds. Some disks count in two seconds.
const TICK: u128 = 2_000_000_000;

/// Folder of a store with the notes of source folders.
pub const NOTES: &str = "sources";

/// Readers at once: more wait for the same disk.
const MOST_READERS: usize = 8;

/// Hashes by absolute path, with what the files looked like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    schema: u32,
    /// Whether everything in the build folder was made of files that were noted here.
    pub trusted: bool,
    /// By path.
    pub files: BTreeMap<String, KnownContents>,
    /// When it was written, by the disk's clock.
    #[serde(skip)]
    written: u128,
    /// How many files were read for it.
    #[serde(skip)]
    pub read: usize,
}

/// The hash of a file, and the file that had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownContents {
    /// What it looked like.
    pub stamp: FileStamp,
    /// Its hash; empty if it changed while it was needed.
    pub sha256: String,
    /// Whether it is a script of CMake that asks git.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_git: bool,
}

impl KnownContents {
    fn read(host: &dyn ReadFiles, path: &str, stamp: FileStamp) -> Option<Self> {
        let bytes = host.read(&host.path(path)).ok()?;
        let is_script = ["CMakeLists.txt", ".cmake", ".cmake.in"].iter().any(|end| path.ends_with(end));
        let words = &super::table::StampTable::embedded().git_words;
        let asks_git =
            is_script && words.iter().any(|word| memchr::memmem::find(&bytes, word.as_bytes()).is_some());
        Some(Self { stamp, sha256: sha256(&bytes), asks_git })
    }
}

impl Contents {
    /// What was noted before, if it can be read.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, path: &HostPath) -> Option<Self> {
        let written = host.stat(path).ok()?.modified?;
        let read: Self = super::read_json(host, path)?;
        (read.schema == SCHEMA).then_some(Self { written, ..read })
    }

    /// Notes them for the next time.
    pub fn write(&self, host: &dyn WriteFiles, path: &HostPath) -> std::io::Result<()> {
        super::write_json(host, path, self)
    }

    /// The files of a snapshot with their hashes. Those that cannot be read are left out.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, files: &FileSnapshot, before: Option<&Self>) -> Self {
        let mut known = BTreeMap::new();
        let mut unknown = Vec::new();
        for (path, stamp) in files {
            match before.and_then(|before| before.settled(path, stamp)) {
                Some(settled) => {
                    known.insert(path.clone(), settled.clone());
                }
                None => unknown.push((path, *stamp)),
            }
        }
        for ((path, _), read) in unknown.iter().zip(read_all(host, &unknown)) {
            if let Some(read) = read {
                known.insert((*path).clone(), read);
            }
        }
        Self { schema: SCHEMA, trusted: false, files: known, written: 0, read: unknown.len() }
    }

    /// The hash of a file that looks as it did, if nothing can have happened to it unseen.
    fn settled(&self, path: &str, stamp: &FileStamp) -> Option<&KnownContents> {
        let known = self.files.get(path).filter(|known| known.stamp == *stamp && !known.sha256.is_empty())?;
        let newest = stamp.modified.max(stamp.changed);
        (stamp.modified > 0 && newest + TICK < self.written).then_some(known)
    }
}

/// The files of a source folder of which no build folder has a note yet. A store keeps one note for each source folder: the
/// next tree, a build folder that was removed, and whoever only asks for the key need not read them again.
#[must_use]
pub fn noted(host: &dyn WriteFiles, store: &Store, source: &HostPath, files: &FileSnapshot) -> Contents {
    let name = sha256(source.as_str().as_bytes());
    let place = store.root.join(NOTES).join(&format!("{}.json", &name[..16]));
    let contents = Contents::of(host, files, Contents::read(host, &place).as_ref());
    if contents.read > 0
        && store.is_writable()
        && let Err(error) = contents.write(host, &place)
    {
        log::debug!("failed to save file hashes in `{place}`: {error}");
    }
    contents
}

fn read_all(host: &dyn ReadFiles, files: &[(&String, FileStamp)]) -> Vec<Option<KnownContents>> {
    let readers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_READERS);
    let next = AtomicUsize::new(0);
    let hashes = Mutex::new(vec![None; files.len()]);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, stamp)) = files.get(index) else { break };
            done.push((index, KnownContents::read(host, path, *stamp)));
        }
        let mut hashes = hashes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (index, hash) in done {
            hashes[index] = hash;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..readers.min(files.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    hashes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::files;
    use gpubuild_host::{HostInfo, RealHost};

    #[test]
    fn what_did_not_change_is_not_read_again_and_what_is_new_is_not_trusted() {
        let host = RealHost::new();
        let folder = tempfile::tempdir().unwrap();
        let root = host.path(folder.path().to_str().unwrap());
        let (file, note) = (root.join("a"), root.join("note"));
        host.write(&file, b"abc").unwrap();
        let look = |before: Option<&Contents>| {
            let snapshot = files::snapshot(&host, [file.as_str()]);
            let reads = host.counts().files;
            let contents = Contents::of(&host, &snapshot, before);
            (contents.files[file.as_str()].sha256.clone(), host.counts().files - reads, contents)
        };
        let (first, reads, contents) = look(None);
        assert_eq!((first.as_str(), reads), (sha256(b"abc").as_str(), 1));
        contents.write(&host, &note).unwrap();
        let fresh = Contents::read(&host, &note).unwrap();
        assert_eq!(look(Some(&fresh)).1, 1, "written in the same moment: read again");
        let settled = Contents { written: fresh.written + 2 * TICK, ..fresh };
        assert_eq!(look(Some(&settled)).1, 0);
        host.write(&file, b"abd").unwrap();
        assert_eq!(look(Some(&settled)).0, sha256(b"abd"));
    }
}
