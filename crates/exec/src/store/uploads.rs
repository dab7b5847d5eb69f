//! Compressed copies of entries, which exist while an entry is copied to a shared store.

use gpubuild_host::{HostPath, Wait, WriteFiles};

use super::entry;
use super::settings::Store;

/// The folder for the compressed files of an entry. Its user holds the lock [`lock_path`].
#[must_use]
pub fn folder(store: &Store, name: &str) -> HostPath {
    all(store).join(name)
}

/// The lock file for the compressed files of an entry.
#[must_use]
pub fn lock_path(store: &Store, name: &str) -> HostPath {
    entry::lock_path(store, &format!("upload-{name}"))
}

/// Removes the files of killed processes. Those of running processes are locked.
///
/// # Errors
/// A folder cannot be removed.
pub fn remove_leftovers(host: &dyn WriteFiles, store: &Store) -> std::io::Result<()> {
    for name in host.list(&all(store)).unwrap_or_default() {
        if let Some(_lock) = entry::lock_file(host, &lock_path(store, &name), Wait::No)? {
            host.remove(&folder(store, &name))?;
        }
    }
    Ok(())
}

fn all(store: &Store) -> HostPath {
    store.root.join("uploads")
}
