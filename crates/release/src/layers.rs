//! Downloaded layers in gpubuild's cache, stored by hash. Variants share them, and cached layers need no network.

use std::io;

use gpubuild_exec::store::maintain::remove_temporary;
use gpubuild_host::folders::cache_folder;
use gpubuild_host::links::refuse_link;
use gpubuild_host::{FileLock, Host, HostInfo, HostPath, ReadFiles, Stat, Wait, WriteFiles};

use super::manifest::Layer;
use gpubuild_exec::store::hash_file;

/// The folder in gpubuild's cache with trusted manifests, for use without a network.
pub(crate) const TRUSTED: &str = "releases/fetched";

/// The folder in gpubuild's cache.
const FOLDER: &str = "layers/sha256";

/// The folder of the layers; `None` if the user has no cache folder.
#[must_use]
pub fn folder(host: &dyn HostInfo) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER))
}

/// The path of a cached layer, whether or not the file exists.
#[must_use]
pub fn path(host: &dyn HostInfo, layer: &Layer) -> Option<HostPath> {
    Some(folder(host)?.join(&layer.sha256))
}

/// The result of comparing a file with a layer of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerFile {
    /// The file does not exist.
    Missing,
    /// The file is the layer.
    Matches,
    /// The file differs from the layer, in this way.
    Differs(String),
}

/// Compares a file with a layer: the size first, then the hash.
///
/// # Errors
/// The file exists and cannot be read.
pub fn verify(host: &dyn ReadFiles, path: &HostPath, layer: &Layer) -> io::Result<LayerFile> {
    let stat = match host.stat(path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LayerFile::Missing),
        Err(error) => return Err(error),
    };
    if stat.size != layer.size {
        return Ok(LayerFile::Differs(format!(
            "it has {} bytes, but the manifest declares {}",
            stat.size, layer.size
        )));
    }
    let (sha256, _) = hash_file(host, path)?;
    if sha256 == layer.sha256 {
        Ok(LayerFile::Matches)
    } else {
        Ok(LayerFile::Differs(format!("its sha256 is {sha256}, but the manifest declares {}", layer.sha256)))
    }
}

/// The path of a layer in the cache; `None` if it is not cached. A damaged file is removed.
///
/// # Errors
/// The cache cannot be read.
pub fn cached(host: &dyn WriteFiles, layer: &Layer) -> io::Result<Option<HostPath>> {
    let Some(path) = path(host, layer) else { return Ok(None) };
    match verify(host, &path, layer)? {
        LayerFile::Matches => Ok(Some(path)),
        LayerFile::Missing => Ok(None),
        LayerFile::Differs(_) => host.remove(&path).map(|()| None),
    }
}

/// Locks a layer, so that no other process downloads it while the lock is held.
///
/// # Errors
/// The cache cannot be written.
pub fn lock(host: &dyn WriteFiles, layer: &Layer) -> io::Result<Option<FileLock>> {
    let Some(folder) = folder(host) else { return Ok(None) };
    host.lock(&folder.join(&format!("{}.lock", layer.sha256)), Wait::Yes)
}

/// Number and size of downloads of one kind in gpubuild's cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DownloadUsage {
    /// Downloads, including partial ones.
    pub count: usize,
    /// Total size of the files in bytes.
    pub bytes: u64,
}

/// The disk usage of the layers in the cache.
#[must_use]
pub fn usage(host: &dyn ReadFiles) -> DownloadUsage {
    let mut usage = DownloadUsage::default();
    for (_, stat) in files(host) {
        usage.count += 1;
        usage.bytes += stat.size;
    }
    usage
}

/// Removes temporary files of killed processes. Deletes layers that were downloaded more than `age` seconds ago, or all layers. Returns what was deleted.
///
/// # Errors
/// The first file that cannot be deleted.
pub fn prune(host: &dyn Host, age: Option<u64>, all: bool) -> io::Result<DownloadUsage> {
    let mut deleted = DownloadUsage::default();
    if let Some(cache) = cache_folder(host) {
        for folder in [TRUSTED, FOLDER] {
            refuse_link(host, &cache.join(folder))?;
        }
        remove_temporary(host, &cache.join(TRUSTED))?;
        remove_temporary(host, &cache.join(FOLDER))?;
    }
    for (path, stat) in files(host) {
        let fetched =
            stat.modified.and_then(|time| u64::try_from(time / 1_000_000_000).ok()).unwrap_or_default();
        if all || age.is_some_and(|age| host.now().saturating_sub(fetched) > age) {
            host.remove(&path)?;
            deleted.count += 1;
            deleted.bytes += stat.size;
        }
    }
    Ok(deleted)
}

fn files(host: &dyn ReadFiles) -> Vec<(HostPath, Stat)> {
    let Some(folder) = folder(host) else { return Vec::new() };
    let names = host.list(&folder).unwrap_or_default();
    let layers =
        names.iter().filter(|name| name.rsplit('.').next() != Some("lock")).map(|name| folder.join(name));
    layers.filter_map(|path| host.stat(&path).ok().map(|stat| (path, stat))).collect()
}
