//! Downloaded layers in gpubuild's cache, by hash. A second variant downloads only the layers that differ, and cached layers need no
//! network.

use std::io;

use gpubuild_host::folders::cache_folder;
use gpubuild_host::{FileLock, Host, HostInfo, HostPath, ReadFiles, Stat, Wait, WriteFiles};

use super::manifest::Layer;
use super::unpack::hash_file;

/// The folder in gpubuild's cache.
const FOLDER: &str = "layers/sha256";

/// The folder of the layers; none where the user has no cache.
#[must_use]
pub fn folder(host: &dyn HostInfo) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER))
}

/// Where a layer lies once it is verified.
#[must_use]
pub fn place(host: &dyn HostInfo, layer: &Layer) -> Option<HostPath> {
    Some(folder(host)?.join(&layer.sha256))
}

/// What a file is to a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerSource {
    /// It is not there.
    Nothing,
    /// It is the layer.
    Whole,
    /// It is something else.
    Other(String),
}

/// Compares a file with a layer: its size, then its hash.
///
/// # Errors
/// The file exists and cannot be read.
pub fn verify(host: &dyn ReadFiles, path: &HostPath, layer: &Layer) -> io::Result<LayerSource> {
    let stat = match host.stat(path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LayerSource::Nothing),
        Err(error) => return Err(error),
    };
    if stat.size != layer.size {
        return Ok(LayerSource::Other(format!(
            "it has {} bytes, and the manifest says {}",
            stat.size, layer.size
        )));
    }
    let (sha256, _) = hash_file(host, path)?;
    if sha256 == layer.sha256 {
        Ok(LayerSource::Whole)
    } else {
        Ok(LayerSource::Other(format!("its sha256 is {sha256}, and the manifest says {}", layer.sha256)))
    }
}

/// Takes a layer that is in the cache and whole. One that is damaged there is thrown away.
///
/// # Errors
/// The cache can't be read.
pub fn cached(host: &dyn WriteFiles, layer: &Layer) -> io::Result<Option<HostPath>> {
    let Some(place) = place(host, layer) else { return Ok(None) };
    match verify(host, &place, layer)? {
        LayerSource::Whole => Ok(Some(place)),
        LayerSource::Nothing => Ok(None),
        LayerSource::Other(_) => host.remove(&place).map(|()| None),
    }
}

/// Locks the layer: no other process downloads it while the lock is held.
///
/// # Errors
/// The cache cannot be written.
pub fn lock(host: &dyn WriteFiles, layer: &Layer) -> io::Result<Option<FileLock>> {
    let Some(folder) = folder(host) else { return Ok(None) };
    host.lock(&folder.join(&format!("{}.lock", layer.sha256)), Wait::Yes)
}

/// What layers take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files, those that are not whole among them.
    pub count: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What the layers in the cache take.
#[must_use]
pub fn usage(host: &dyn ReadFiles) -> Usage {
    let mut usage = Usage::default();
    for (_, stat) in files(host) {
        usage.count += 1;
        usage.bytes += stat.size;
    }
    usage
}

/// Deletes layers that were downloaded more than `age` seconds ago, or all. Returns the number of deleted files and bytes.
///
/// # Errors
/// The first file that cannot be deleted.
pub fn prune(host: &dyn Host, age: Option<u64>, all: bool) -> io::Result<Usage> {
    let mut gone = Usage::default();
    for (path, stat) in files(host) {
        let fetched =
            stat.modified.and_then(|time| u64::try_from(time / 1_000_000_000).ok()).unwrap_or_default();
        if all || age.is_some_and(|age| host.now().saturating_sub(fetched) > age) {
            host.remove(&path)?;
            gone.count += 1;
            gone.bytes += stat.size;
        }
    }
    Ok(gone)
}

fn files(host: &dyn ReadFiles) -> Vec<(HostPath, Stat)> {
    let Some(folder) = folder(host) else { return Vec::new() };
    let names = host.list(&folder).unwrap_or_default();
    let layers =
        names.iter().filter(|name| name.rsplit('.').next() != Some("lock")).map(|name| folder.join(name));
    layers.filter_map(|path| host.stat(&path).ok().map(|stat| (path, stat))).collect()
}
