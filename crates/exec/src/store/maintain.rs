//! What lies in a store, and throwing away what was not used for longest.

use gpubuild_host::{Host, HostPath, ReadFiles, Wait, WriteFiles};

use super::contents;
use super::entry::{self, Miss, StoreEntry, USED};
use super::settings::Store;

/// Kinds of entries.
pub const KINDS: [&str; 2] = ["trees", "objects"];

/// An entry with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreItem {
    /// Its folder.
    pub folder: HostPath,
    /// `trees` or `objects`.
    pub kind: &'static str,
    /// What it says of itself, or why it cannot be used.
    pub entry: Result<StoreEntry, Miss>,
    /// When it was used last, in seconds since 1970.
    pub used: u64,
}

impl StoreItem {
    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.bytes)
    }
}

/// All entries, those used last first.
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
    found.sort_by(|left, right| (right.used, &left.folder).cmp(&(left.used, &right.folder)));
    found
}

/// What may be thrown away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes that may stay.
    pub size: Option<u64>,
    /// Seconds without use after which an entry goes.
    pub age: Option<u64>,
    /// Everything goes.
    pub all: bool,
}

/// What was thrown away.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pruned {
    /// Entries that are gone.
    pub removed: Vec<StoreItem>,
    /// Entries that would have gone, and are in use.
    pub in_use: Vec<StoreItem>,
    /// Bytes that stay.
    pub left: u64,
}

/// Throws away entries: those that cannot be used, those that are too old, then those not used for longest. An entry that
/// somebody uses or makes stays, and so does one of a later version.
///
/// # Errors
/// The first folder that cannot be removed.
pub fn prune(host: &dyn Host, store: &Store, limits: StoreLimits) -> std::io::Result<Pruned> {
    let now = host.now();
    let mut pruned = Pruned::default();
    remove_leftovers(host, store)?;
    remove_notes(host, store, limits.all)?;
    for item in items(host, store) {
        let bytes = item.bytes();
        // A clock that went back makes entries look as if they came from the future: they count as new.
        let is_old = limits.age.is_some_and(|age| now.saturating_sub(item.used) > age);
        let is_too_much = limits.size.is_some_and(|size| pruned.left + bytes > size);
        let goes = match item.entry {
            Err(Miss::Newer) => false,
            Err(_) => true,
            Ok(_) => limits.all || is_old || is_too_much,
        };
        let removal = if goes { remove(host, store, &item)? } else { Removal::Kept };
        match removal {
            Removal::Removed => pruned.removed.push(item),
            Removal::Gone => {}
            Removal::Kept => pruned.left += bytes,
            Removal::InUse => {
                pruned.left += bytes;
                pruned.in_use.push(item);
            }
        }
    }
    Ok(pruned)
}

/// What became of an entry.
enum Removal {
    Kept,
    Removed,
    /// Another process removed it first.
    Gone,
    InUse,
}

/// Removes an entry unless it is in use: its name goes at once, then its files.
fn remove(host: &dyn WriteFiles, store: &Store, item: &StoreItem) -> std::io::Result<Removal> {
    let name = item.folder.file_name().unwrap_or_default();
    let key = name.split('-').next().unwrap_or(name);
    let Some(_lock) = host.lock(&entry::lock_path(store, key), Wait::No)? else { return Ok(Removal::InUse) };
    if !host.exists(&item.folder) {
        return Ok(Removal::Gone);
    }
    discard(host, &item.folder)?;
    Ok(Removal::Removed)
}

/// Removes the folder of an entry so that nobody sees half of it. Only under the key's lock. An entry that is not there is
/// no error.
///
/// # Errors
/// What the system said.
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

/// Notes of source folders that were not written for this long are of projects that are gone; if not, they are made again.
const NOTED: u64 = 60 * 24 * 3600;

fn remove_notes(host: &dyn Host, store: &Store, all: bool) -> std::io::Result<()> {
    let folder = store.root.join(contents::NOTES);
    for name in host.list(&folder).unwrap_or_default() {
        let note = folder.join(&name);
        let written = host.stat(&note).ok().and_then(|stat| stat.modified);
        let written = written.and_then(|time| u64::try_from(time / 1_000_000_000).ok()).unwrap_or_default();
        if all || host.now().saturating_sub(written) > NOTED {
            host.remove(&note)?;
        }
    }
    Ok(())
}

/// What kills have left: halves of entries that nobody makes any more.
fn remove_leftovers(host: &dyn WriteFiles, store: &Store) -> std::io::Result<()> {
    for kind in KINDS {
        let all = entry::folder(store, kind);
        for name in host.list(&all).unwrap_or_default() {
            let ours = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(".partial").or_else(|| name.strip_suffix(".old")));
            let Some(ours) = ours else { continue };
            let key = ours.split('-').next().unwrap_or(ours);
            if let Some(_lock) = host.lock(&entry::lock_path(store, key), Wait::No)? {
                host.remove(&all.join(&name))?;
            }
        }
    }
    Ok(())
}
