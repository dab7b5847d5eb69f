//! Copies an entry from the server into the local store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpubuild_exec::store::entry::{self, ENTRY, EntryInputs, INPUTS, Miss, Stored, USED};
use gpubuild_exec::store::maintain::{self, StoreLimits};
use gpubuild_exec::store::remote::CheckInputs;
use gpubuild_exec::store::settings::Store;
use gpubuild_exec::store::write_json;
use gpubuild_host::HostPath;

use super::content::{Blob, Content, decompress, is_same};
use super::error::RemoteError;
use super::manifest::{RemoteManifest, TREES};
use super::parallel;
use super::resume::BlobBody;
use super::server::{Call, Object};
use super::session::RemoteStore;

/// Why an entry was not copied.
pub(crate) enum PullError {
    Remote(RemoteError),
    /// It is for a machine with other files.
    Unusable(Miss),
}

impl From<RemoteError> for PullError {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

/// Copies an entry into the local store and publishes it. Returns the bytes and blobs that were received, or `None` if the server does
/// not have it. What a killed process has received is used again.
pub(crate) fn entry(
    remote: &RemoteStore<'_>,
    store: &Store,
    name: &str,
    check: CheckInputs<'_>,
    call: &Call<'_>,
) -> Result<Option<(u64, usize)>, PullError> {
    let host = call.host();
    let Some((url, manifest)) = remote.open(name, call)? else { return Ok(None) };
    let (inputs_bytes, inputs) = inputs(remote, &url, &manifest, call)?;
    check(&manifest.entry, &inputs).map_err(PullError::Unusable)?;
    if manifest.entry.bytes > store.limit {
        return Err(RemoteError::Budget("an entry is larger than the local store".to_owned()).into());
    }
    // Building again is an alternative, so a pull may not take longer.
    let call = call.within(Duration::from_secs_f64(manifest.entry.seconds.clamp(0.0, 1e6)).max(MIN_TIME));
    let folder = entry::partial(store, TREES, name);
    let received = files(remote, &url, &manifest, &folder, &call);
    if let Err(RemoteError::Disk(_)) = received {
        // The build needs the space.
        let _ = host.remove(&folder);
    }
    let received = received?;
    let publish = || {
        host.write(&folder.join(INPUTS), &inputs_bytes)?;
        host.write(&folder.join(USED), b"")?;
        write_json(host, &folder.join(ENTRY), &manifest.entry)?;
        entry::publish_partial(host, store, TREES, name)?;
        let limits = StoreLimits { size: Some(store.limit), ..StoreLimits::default() };
        maintain::prune(host, store, limits)
    };
    if let Err(error) = publish() {
        let _ = host.remove(&folder);
        return Err(RemoteError::Disk(error).into());
    }
    Ok(Some((received.0 + inputs_blob(&manifest), received.1 + 1)))
}

/// The time that a pull may take in any case.
const MIN_TIME: Duration = Duration::from_secs(10);

fn inputs_blob(manifest: &RemoteManifest) -> u64 {
    manifest.blob(&manifest.inputs.sha256).map_or(0, |blob| blob.bytes)
}

/// Reads and verifies the inputs of an entry.
pub(crate) fn inputs(
    remote: &RemoteStore<'_>,
    url: &str,
    manifest: &RemoteManifest,
    call: &Call<'_>,
) -> Result<(Vec<u8>, EntryInputs), PullError> {
    let damaged = |what: String| RemoteError::Damaged { url: url.to_owned(), what };
    let mut bytes = Vec::new();
    receive(remote, manifest, &manifest.inputs, &mut bytes, call)?;
    let inputs = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    Ok((bytes, inputs))
}

/// Receives the files of an entry that its folder does not have yet.
fn files(
    remote: &RemoteStore<'_>,
    url: &str,
    manifest: &RemoteManifest,
    folder: &HostPath,
    call: &Call<'_>,
) -> Result<(u64, usize), RemoteError> {
    let host = call.host();
    let wanted: BTreeSet<&str> = manifest.entry.files.iter().map(|file| file.name.as_str()).collect();
    let own = folder.join("files");
    for name in host.list(&own).unwrap_or_default() {
        if !wanted.contains(format!("files/{name}").as_str()) {
            host.remove(&own.join(&name)).map_err(RemoteError::Disk)?;
        }
    }
    host.create_dir_all(&own).map_err(RemoteError::Disk)?;
    if let Some(free) = host.free_space(&own)
        && free < manifest.entry.bytes
    {
        let what = format!("{} bytes are needed, and {free} are free", manifest.entry.bytes);
        return Err(RemoteError::Disk(std::io::Error::new(std::io::ErrorKind::StorageFull, what)));
    }
    let mut largest_first: Vec<&Stored> = manifest.entry.files.iter().collect();
    largest_first.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    let (bytes, blobs) = (AtomicU64::new(0), AtomicU64::new(0));
    parallel::for_each(&largest_first, |file| {
        let content = Content { sha256: file.sha256.clone(), bytes: file.bytes };
        let path = folder.join(&file.name);
        if is_same(host, &path, &content) {
            return Ok(());
        }
        // A killed process leaves a part of the file.
        host.remove(&path).map_err(RemoteError::Disk)?;
        let mut target = host.create(&path).map_err(RemoteError::Disk)?;
        let received = receive(remote, manifest, &content, &mut target, call);
        let closed = target.close().map_err(RemoteError::Disk);
        if received.is_err() || closed.is_err() {
            // A damaged file is never used again.
            host.remove(&path).map_err(RemoteError::Disk)?;
        }
        bytes.fetch_add(received?, Ordering::Relaxed);
        closed?;
        blobs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })?;
    log::debug!("received {} from {url}", manifest.name);
    Ok((bytes.into_inner(), usize::try_from(blobs.into_inner()).unwrap_or(usize::MAX)))
}

/// Receives and verifies one content. Returns the number of compressed bytes.
fn receive(
    remote: &RemoteStore<'_>,
    manifest: &RemoteManifest,
    content: &Content,
    target: &mut dyn std::io::Write,
    call: &Call<'_>,
) -> Result<u64, RemoteError> {
    let missing = |url: String| RemoteError::Damaged { url, what: "a file is missing".to_owned() };
    let blob: &Blob = manifest.blob(&content.sha256).ok_or_else(|| missing(content.sha256.clone()))?;
    let server = &*remote.settings.server;
    let found = server.get(Object::Blob(blob), 0, call)?;
    let (url, response) = found.ok_or_else(|| missing(remote.settings.url.clone()))?;
    let mut body = BlobBody::new(server, blob, call, (url.clone(), response));
    decompress((&url, &mut body), blob, content, target)
}
