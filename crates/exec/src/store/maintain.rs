//! Lists and prunes the entries of a build store.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::links::refuse_link;
use gpubuild_host::{Host, HostPath, ReadFiles, Wait, WriteFiles};

use super::entry::{self, Miss, StoreEntry, USED};
use super::settings::Store;
use super::{contents, uploads};

/// Kinds of entries.
pub const KINDS: [&str; 2] = ["trees", "objects"];

/// An entry in a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreItem {
    /// Folder of the entry.
    pub folder: HostPath,
    /// `trees` or `objects`.
    pub kind: &'static str,
    /// The description of the entry, or why it cannot be used.
    pub entry: Result<StoreEntry, Miss>,
    /// Time of the last use in seconds since 1970.
    pub used: u64,
}

impl StoreItem {
    /// Size of the entry in bytes; 0 if it cannot be used.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.bytes)
    }
}

/// Returns all entries, most recently used first.
#[must_use]
pub fn items(host: &dyn ReadFiles, store: &Store) -> Vec<StoreItem> {
    let mut found = Vec::new();
    for kind in KINDS {
        let all = entry::folder(store, kind);
        for name in host.list(&all).unwrap_or_default().iter().filter(|name| !name.starts_with('.')) {
            let folder = all.join(name);
            let modified = host.stat(&folder.join(USED)).ok().and_then(|stat| stat.modified);
            let used = modified.and_then(|nanoseconds| u64::try_from(nanoseconds / 1_000_000_000).ok());
            let entry = StoreEntry::read(host, &folder);
            found.push(StoreItem { folder, kind, entry, used: used.unwrap_or_default() });
        }
    }
    found.sort_indirect_by(|left, right| (right.used, &left.folder).cmp(&(left.used, &right.folder)));
    found
}

/// Limits for pruning. Entries beyond any limit are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreLimits {
    /// Maximum total size in bytes.
    pub size: Option<u64>,
    /// Maximum time since the last use in seconds.
    pub age: Option<u64>,
    /// Whether to remove all entries.
    pub all: bool,
}

/// The result of pruning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pruned {
    /// Removed entries.
    pub removed: Vec<StoreItem>,
    /// Entries that were not removed because they are in use.
    pub in_use: Vec<StoreItem>,
    /// Total size of the remaining entries in bytes.
    pub left: u64,
}

/// Removes unusable entries, entries that are too old, and the least recently used entries beyond the size limit. Entries
/// that are in use or being written are kept, and so are entries of newer versions.
///
/// # Errors
/// A file or folder cannot be removed.
pub fn prune(host: &dyn Host, store: &Store, limits: StoreLimits) -> std::io::Result<Pruned> {
    let now = host.now();
    let mut pruned = Pruned::default();
    for folder in KINDS.iter().map(|kind| entry::folder(store, kind)) {
        refuse_link(host, &folder)?;
    }
    remove_leftovers(host, store)?;
    uploads::remove_leftovers(host, store)?;
    remove_temporary(host, &store.root)?;
    remove_old_hashes(host, store, limits.all)?;
    for item in items(host, store) {
        let bytes = item.bytes();
        // After the clock was set back, entries may have a time in the future. They count as new.
        let is_old = limits.age.is_some_and(|age| now.saturating_sub(item.used) > age);
        let is_too_much = limits.size.is_some_and(|size| pruned.left + bytes > size);
        let is_removed = match item.entry {
            Err(Miss::Newer) => false,
            Err(_) => true,
            Ok(_) => limits.all || is_old || is_too_much,
        };
        let removal = if is_removed { remove(host, store, &item)? } else { Removal::Kept };
        match removal {
            Removal::Removed => pruned.removed.push(item),
            Removal::Gone => {}
            Removal::Kept => {
                remove_temporary(host, &item.folder)?;
                pruned.left += bytes;
            }
            Removal::InUse => {
                pruned.left += bytes;
                pruned.in_use.push(item);
            }
        }
    }
    Ok(pruned)
}

/// The outcome of removing an entry.
enum Removal {
    Kept,
    Removed,
    /// Another process removed it first.
    Gone,
    InUse,
}

/// Removes an entry unless it is in use.
fn remove(host: &dyn WriteFiles, store: &Store, item: &StoreItem) -> std::io::Result<Removal> {
    let name = item.folder.file_name().unwrap_or_default();
    let key = name.split('-').next().unwrap_or(name);
    let lock = entry::lock_file(host, &entry::lock_path(store, key), Wait::No)?;
    let Some(_lock) = lock else { return Ok(Removal::InUse) };
    if !host.exists(&item.folder) {
        return Ok(Removal::Gone);
    }
    discard(host, &item.folder)?;
    Ok(Removal::Removed)
}

/// Removes the folder of an entry. Renames it first so that other processes never see a partial entry. The caller must hold
/// the key's lock. A missing folder is not an error.
///
/// # Errors
/// The folder cannot be renamed or removed.
pub fn discard(host: &dyn WriteFiles, folder: &HostPath) -> std::io::Result<()> {
    let (Some(all), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    let old = all.join(&format!(".{name}.old"));
    host.remove(&old)?;
    match host.rename(folder, &old) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => host.remove(&old),
    }
}

/// Maximum age in seconds of the saved hashes of a source folder. Older ones are probably of removed projects.
const MAX_HASHES_AGE: u64 = 60 * 24 * 3600;

fn remove_old_hashes(host: &dyn Host, store: &Store, all: bool) -> std::io::Result<()> {
    let folder = store.root.join(contents::SOURCE_HASHES);
    remove_temporary(host, &folder)?;
    for name in host.list(&folder).unwrap_or_default() {
        let hashes = folder.join(&name);
        let written = host.stat(&hashes).ok().and_then(|stat| stat.modified);
        let written = written.and_then(|time| u64::try_from(time / 1_000_000_000).ok()).unwrap_or_default();
        if all || host.now().saturating_sub(written) > MAX_HASHES_AGE {
            host.remove(&hashes)?;
        }
    }
    Ok(())
}

/// Removes temporary files that killed processes left in a folder.
///
/// # Errors
/// A file cannot be removed.
pub fn remove_temporary(host: &dyn Host, folder: &HostPath) -> std::io::Result<()> {
    /// A file is written within seconds. A younger temporary file may belong to a running process.
    const MIN_AGE: u64 = 60;
    for name in host.list(folder).unwrap_or_default().iter().filter(|name| name.starts_with(".gpubuild-")) {
        let path = folder.join(name);
        let written = host.stat(&path).ok().and_then(|stat| stat.modified);
        let written = written.and_then(|time| u64::try_from(time / 1_000_000_000).ok());
        if written.is_some_and(|written| host.now().saturating_sub(written) > MIN_AGE) {
            host.remove(&path)?;
        }
    }
    Ok(())
}

/// Removes partial and renamed entries of interrupted processes. Those of running processes are locked.
fn remove_leftovers(host: &dyn WriteFiles, store: &Store) -> std::io::Result<()> {
    for kind in KINDS {
        let all = entry::folder(store, kind);
        for name in host.list(&all).unwrap_or_default() {
            let name_in_use = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(".partial").or_else(|| name.strip_suffix(".old")));
            let Some(name_in_use) = name_in_use else { continue };
            let key = name_in_use.split('-').next().unwrap_or(name_in_use);
            if let Some(_lock) = entry::lock_file(host, &entry::lock_path(store, key), Wait::No)? {
                host.remove(&all.join(&name))?;
            }
        }
    }
    Ok(())
}
