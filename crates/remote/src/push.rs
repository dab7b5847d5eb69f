//! Copies an entry of the local store to the server: first its blobs, then its manifest. A kill in between leaves blobs that no manifest
//! names.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use gpubuild_exec::store::entry::{self, ENTRY, INPUTS, StoreEntry};
use gpubuild_exec::store::hash_file;
use gpubuild_exec::store::settings::Store;
use gpubuild_exec::store::uploads;
use gpubuild_host::{Host, HostPath, Wait};
use gpubuild_plan::plan::bytes;

use super::content::{Blob, Content, compress};
use super::error::RemoteError;
use super::manifest::{RemoteManifest, check_shareable, id};
use super::parallel;
use super::server::{Call, Object};
use super::session::RemoteStore;

/// Removes its folder when it is dropped.
struct Temporary<'a> {
    host: &'a dyn Host,
    folder: HostPath,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // A leftover folder does no harm, and a later upload removes it.
        let _ = self.host.remove(&self.folder);
    }
}

/// Saves the entry in a folder. Returns the bytes and blobs that were sent, or why the entry cannot be shared.
pub(crate) fn entry(
    remote: &RemoteStore<'_>,
    store: &Store,
    folder: &HostPath,
    call: &Call<'_>,
) -> Result<Result<(u64, usize), String>, RemoteError> {
    let host = call.host();
    let entry =
        match StoreEntry::read(host, folder).and_then(|entry| entry.verify(host, folder).map(|()| entry)) {
            Ok(entry) => entry,
            Err(miss) => return Ok(Err(format!("`{}`: {miss}", folder.join(ENTRY)))),
        };
    if let Err(why) = check_shareable(&entry) {
        return Ok(Err(format!("the result is not shared: {why}")));
    }
    let name = entry::name(&entry.key, entry.place.as_deref());
    uploads::remove_leftovers(host, store).map_err(RemoteError::Disk)?;
    let lock =
        entry::lock_file(host, &uploads::lock_path(store, &name), Wait::No).map_err(RemoteError::Disk)?;
    let Some(_lock) = lock else { return Ok(Err("another process is copying the result".to_owned())) };
    let temporary = Temporary { host, folder: uploads::folder(store, &name) };
    host.create_dir_all(&temporary.folder).map_err(RemoteError::Disk)?;
    let (sha256, size) = hash_file(host, &folder.join(INPUTS)).map_err(RemoteError::Disk)?;
    let inputs = Content { sha256, bytes: size };
    let blobs = compressed(host, folder, &entry, &inputs, &temporary.folder)?;
    let missing = missing(remote, &blobs, call)?;
    let total: u64 = missing.iter().map(|content| blobs[*content].bytes).sum();
    let before = remote.uploaded.fetch_add(total, Ordering::Relaxed);
    if before + total > remote.settings.max_upload {
        return Err(RemoteError::Budget(format!(
            "a result is not saved in the shared store: it has {}, and `max_upload` is {}",
            bytes::show(total),
            bytes::show(remote.settings.max_upload)
        )));
    }
    parallel::for_each(&missing, |content| {
        remote.settings.server.put_blob(&blobs[*content], &temporary.folder.join(content), call)
    })?;
    let manifest = RemoteManifest { name, entry, inputs, blobs: blobs.clone() };
    let sealed = manifest.seal(remote.settings.signer.as_ref());
    let sealed = sealed.map_err(|error| RemoteError::Disk(std::io::Error::other(error)))?;
    let all: Vec<Blob> = blobs.values().cloned().collect();
    let id = id(&manifest.name);
    remote.settings.server.put_manifest(&id, sealed.clone(), &all, call)?;
    confirm(remote, &id, &sealed, call)?;
    Ok(Ok((total, missing.len())))
}

/// Checks that the server returns the manifest. A login page in place of the server accepts every request.
fn confirm(remote: &RemoteStore<'_>, id: &str, sealed: &[u8], call: &Call<'_>) -> Result<(), RemoteError> {
    let stored = remote.settings.server.get(Object::Manifest(id), 0, call)?;
    let Some((url, response)) = stored else { return Err(RemoteError::NotStored(id.to_owned())) };
    let is_same = call.document(&url, response).is_ok_and(|stored| stored == sealed);
    if is_same { Ok(()) } else { Err(RemoteError::NotStored(url)) }
}

/// Compresses the inputs and every different file into a folder, where each file has the sha256 of its content as its name.
fn compressed(
    host: &dyn Host,
    folder: &HostPath,
    entry: &StoreEntry,
    inputs: &Content,
    to: &HostPath,
) -> Result<BTreeMap<String, Blob>, RemoteError> {
    let files = entry.files.iter().map(|file| (file.sha256.clone(), folder.join(&file.name)));
    let sources: BTreeMap<String, HostPath> =
        files.chain([(inputs.sha256.clone(), folder.join(INPUTS))]).collect();
    let sources: Vec<(String, HostPath)> = sources.into_iter().collect();
    let blobs = Mutex::new(BTreeMap::new());
    parallel::for_each(&sources, |(content, path)| {
        let blob = compress(host, path, &to.join(content)).map_err(RemoteError::Disk)?;
        blobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(content.clone(), blob);
        Ok(())
    })?;
    Ok(blobs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// The contents whose blobs the server does not have.
fn missing<'a>(
    remote: &RemoteStore<'_>,
    blobs: &'a BTreeMap<String, Blob>,
    call: &Call<'_>,
) -> Result<Vec<&'a str>, RemoteError> {
    let found = Mutex::new(Vec::new());
    let all: Vec<(&String, &Blob)> = blobs.iter().collect();
    parallel::for_each(&all, |(content, blob)| {
        if !remote.settings.server.has(blob, call)? {
            found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(content.as_str());
        }
        Ok(())
    })?;
    Ok(found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}
