//! Hashes of many files. The hashes are saved, and unchanged files are not read again.
//!
//! A file counts as unchanged if its size, modification time and, if available, change time are the same. A file that was
//! written shortly before its hash was saved may have been written again within the same tick of the clock, so its hash is
//! used only if the file is sufficiently older than the saved hashes. Both times are from the same disk, so a clock that is
//! set back only causes files to be read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{Environment, HostPath, ReadFiles, WriteFiles};
use gpubuild_object::PieceSearch;
use serde::{Deserialize, Serialize};

use super::files::{FileSnapshot, FileStamp};
use super::settings::Store;
use super::table::StampTable;
use super::{hash_blocks, sha256};

/// Version of the format. Files with another version are ignored.
const SCHEMA: u32 = 4;

/// Resolution of time stamps in nanoseconds. FAT file systems have a resolution of two seconds.
const TICK: u128 = 2_000_000_000;

/// Folder in a store with the hashes of source folders.
pub const SOURCE_HASHES: &str = "sources";

/// Maximum number of parallel readers. More would wait for the disk.
const MOST_READERS: usize = 8;

/// Hashes of files by absolute path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    schema: u32,
    /// Files whose content changed since the last build that succeeded.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub changed: BTreeSet<String>,
    /// Hashes by absolute path.
    pub files: BTreeMap<String, FileHash>,
    /// Modification time of the file with the hashes, in nanoseconds since 1970.
    #[serde(skip)]
    written: u128,
    /// Number of files that were read to compute hashes.
    #[serde(skip)]
    pub read: usize,
}

/// The hash of a file, with the size and times that the file had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// Size and times of the file when it was hashed.
    pub stamp: FileStamp,
    /// SHA-256 hash; empty if the file changed during a build.
    pub sha256: String,
    /// What else matters about the file.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub traits: BTreeSet<FileTrait>,
    /// Environment variables that the file names, if it is a CMake script.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub variables: BTreeSet<String>,
}

/// What the text of a file says about the inputs of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileTrait {
    /// A CMake script that runs git.
    AsksGit,
    /// A CMake script that reads other files, or starts programs that may.
    ReadsFiles,
    /// Contains `incbin`: assemblers do not report the files that they embed.
    Embeds,
}

/// The hash of the value of an environment variable; empty if it is not set.
#[must_use]
pub fn variable_hash(env: &Environment, name: &str) -> String {
    env.get(name).map(|value| sha256(value.as_bytes())).unwrap_or_default()
}

/// Text that shows that a file other than a script embeds others.
const EMBEDS: &[u8] = b"incbin";

impl FileHash {
    fn read(host: &dyn ReadFiles, path: &str, stamp: FileStamp) -> Option<Self> {
        let file = host.path(path);
        if is_script(path) {
            return Self::read_script(host, &file, stamp);
        }
        let mut search = PieceSearch::new(&[EMBEDS]);
        let mut traits = BTreeSet::new();
        let mut found = |_, _| {
            traits.insert(FileTrait::Embeds);
        };
        // Source folders can contain models, which are larger than the memory.
        let (sha256, _) = hash_blocks(host, &file, &mut |block| search.add(block, &mut found)).ok()?;
        Some(Self { stamp, sha256, traits, variables: BTreeSet::new() })
    }

    /// Reads a CMake script.
    fn read_script(host: &dyn ReadFiles, file: &HostPath, stamp: FileStamp) -> Option<Self> {
        let text = host.read(file).ok()?;
        // Names of commands have no case, and spaces are allowed around parentheses.
        let plain: Vec<u8> =
            text.iter().filter(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase).collect();
        let contains = |word: &String| memchr::memmem::find(&plain, word.as_bytes()).is_some();
        let table = StampTable::embedded();
        let words = [(&table.git_words, FileTrait::AsksGit), (&table.reading_words, FileTrait::ReadsFiles)];
        let traits = words.into_iter().filter(|(words, _)| words.iter().any(contains));
        let traits = traits.map(|(_, found)| found).collect_set();
        let variables = &script_variables(&text) - &table.ignored_variables;
        Some(Self { stamp, sha256: sha256(&text), traits, variables })
    }

    /// Whether the file has a trait.
    #[must_use]
    pub fn has(&self, wanted: FileTrait) -> bool {
        self.traits.contains(&wanted)
    }
}

/// The names in `$ENV{NAME}` and `DEFINED ENV{NAME}`, and the variables with the folder of a package that `find_package` reads.
fn script_variables(text: &[u8]) -> BTreeSet<String> {
    const FIND: &[u8] = b"find_package";
    let name_at = |at: usize| {
        let rest = text.get(at..)?;
        let length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
        let name = str::from_utf8(&rest[..length]).ok().filter(|name| !name.is_empty())?;
        Some((name, rest[length]))
    };
    let read = memchr::memmem::find_iter(text, b"ENV{").filter_map(|at| name_at(at + 4));
    let read = read.filter(|(_, next)| *next == b'}').map(|(name, _)| name.to_owned());
    let lower = text.to_ascii_lowercase();
    let behind_spaces = |at: usize| {
        let spaces = text[at..].iter().position(|byte| !byte.is_ascii_whitespace());
        spaces.map(|spaces| at + spaces)
    };
    let package_at = |at: usize| {
        let open = behind_spaces(at).filter(|at| text[*at] == b'(')?;
        name_at(behind_spaces(open + 1)?)
    };
    let packages = memchr::memmem::find_iter(&lower, FIND).filter_map(|at| package_at(at + FIND.len()));
    let folders = packages.flat_map(|(name, _)| {
        [format!("{name}_ROOT"), format!("{name}_DIR"), format!("{}_ROOT", name.to_ascii_uppercase())]
    });
    read.chain(folders).collect()
}

/// Whether a path has the name of a CMake script.
fn is_script(path: &str) -> bool {
    ["CMakeLists.txt", ".cmake", ".cmake.in"].iter().any(|end| path.ends_with(end))
}

/// Hashes of the variables that CMake scripts name which are outside of the source folder or have another name than scripts.
#[must_use]
pub fn outside_variables(
    host: &dyn ReadFiles,
    scripts: BTreeSet<&String>,
    sources: &FileSnapshot,
) -> BTreeMap<String, String> {
    let others = scripts.into_iter().filter(|path| !sources.contains_key(*path) || !is_script(path));
    let read = others.filter_map(|path| {
        FileHash::read_script(host, &host.path(path), super::files::stamp(host, &host.path(path))?)
    });
    let names = read.flat_map(|script| script.variables);
    names.map(|name| (name.clone(), variable_hash(host.env(), &name))).collect()
}

impl Contents {
    /// Hashes of the variables that the CMake scripts name; empty for those that are not set.
    #[must_use]
    pub fn variables(&self, env: &Environment) -> BTreeMap<String, String> {
        let names = self.files.values().flat_map(|file| &file.variables);
        names.map(|name| (name.clone(), variable_hash(env, name))).collect()
    }

    /// Reads saved hashes; `None` if they are missing or have another version.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, path: &HostPath) -> Option<Self> {
        let written = host.stat(path).ok()?.modified?;
        let read: Self = super::read_json(host, path)?;
        (read.schema == SCHEMA).then_some(Self { written, ..read })
    }

    /// Saves the hashes.
    pub fn write(&self, host: &dyn WriteFiles, path: &HostPath) -> std::io::Result<()> {
        super::write_json(host, path, self)
    }

    /// Returns the hashes of the files of a snapshot, from `before` if a file is unchanged. Unreadable files are omitted.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, files: &FileSnapshot, before: Option<&Self>) -> Self {
        let mut known = BTreeMap::new();
        let mut unknown = Vec::new();
        for (path, stamp) in files {
            match before.and_then(|before| before.reliable(path, stamp)) {
                Some(reliable) => {
                    known.insert(path.clone(), reliable.clone());
                }
                None => unknown.push((path, *stamp)),
            }
        }
        for ((path, _), read) in unknown.iter().zip(read_all(host, &unknown)) {
            if let Some(read) = read {
                known.insert((*path).clone(), read);
            }
        }
        Self { schema: SCHEMA, files: known, read: unknown.len(), ..Self::default() }
    }

    /// Returns the saved hash of a file if the file is certainly unchanged.
    fn reliable(&self, path: &str, stamp: &FileStamp) -> Option<&FileHash> {
        let known = self.files.get(path).filter(|known| known.stamp == *stamp && !known.sha256.is_empty())?;
        let newest = stamp.modified.max(stamp.changed);
        (stamp.modified > 0 && newest + TICK < self.written).then_some(known)
    }
}

/// Returns the hashes of a source folder that are not saved in the build folder. The store keeps the hashes of each source
/// folder, so that other trees, new build folders and queries of the key need not read the files again.
#[must_use]
pub fn with_store(host: &dyn WriteFiles, store: &Store, source: &HostPath, files: &FileSnapshot) -> Contents {
    let name = sha256(source.as_str().as_bytes());
    let path = store.root.join(SOURCE_HASHES).join(&format!("{}.json", &name[..16]));
    let contents = Contents::of(host, files, Contents::read(host, &path).as_ref());
    if contents.read > 0
        && store.is_writable()
        && let Err(error) = contents.write(host, &path)
    {
        log::debug!("failed to save file hashes in `{path}`: {error}");
    }
    contents
}

fn read_all(host: &dyn ReadFiles, files: &[(&String, FileStamp)]) -> Vec<Option<FileHash>> {
    let readers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_READERS);
    let next = AtomicUsize::new(0);
    let hashes = Mutex::new(vec![None; files.len()]);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, stamp)) = files.get(index) else { break };
            done.push((index, FileHash::read(host, path, *stamp)));
        }
        let mut hashes = hashes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (index, hash) in done {
            hashes[index] = hash;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..readers.min(files.len().max(1)) {
            if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, work) {
                log::debug!("failed to create a thread: {error}");
                break;
            }
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
    fn variables_of_scripts_are_found() {
        let text = b"set(A $ENV{FOO})\nif(DEFINED ENV{BAR_1})\nfind_package(Zz REQUIRED)\nFIND_PACKAGE (\n  Yy)\n$ENV{$NAME} $ENV{} $ENV{END";
        let found: Vec<String> = script_variables(text).into_iter().collect();
        assert_eq!(found, ["BAR_1", "FOO", "YY_ROOT", "Yy_DIR", "Yy_ROOT", "ZZ_ROOT", "Zz_DIR", "Zz_ROOT"]);
    }

    #[test]
    fn unchanged_files_are_not_read_again_unless_recently_written() {
        let host = RealHost::new();
        let folder = tempfile::tempdir().unwrap();
        let root = host.path(folder.path().to_str().unwrap());
        let (file, note) = (root.join("a"), root.join("note"));
        host.write(&file, b"abc").unwrap();
        let hash = |before: Option<&Contents>| {
            let snapshot = files::snapshot(&host, [file.as_str()]);
            let reads = host.counts().files;
            let contents = Contents::of(&host, &snapshot, before);
            (contents.files[file.as_str()].sha256.clone(), host.counts().files - reads, contents)
        };
        let (first, reads, contents) = hash(None);
        assert_eq!((first.as_str(), reads), (sha256(b"abc").as_str(), 1));
        contents.write(&host, &note).unwrap();
        let fresh = Contents::read(&host, &note).unwrap();
        assert_eq!(hash(Some(&fresh)).1, 1, "a recently written file must be read again");
        let reliable = Contents { written: fresh.written + 2 * TICK, ..fresh };
        assert_eq!(hash(Some(&reliable)).1, 0);
        host.write(&file, b"abd").unwrap();
        assert_eq!(hash(Some(&reliable)).0, sha256(b"abd"));
    }
}
