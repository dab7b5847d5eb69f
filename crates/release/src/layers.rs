//! The layers that were fetched, in gpubuild's cache by their hash: a second variant fetches only what differs, and without a network
//! what is there is enough.

use std::io;

use gpubuild_host::folders::cache_folder;
use gpubuild_host::{Host, HostPath, Lock, Stat, Wait};

use super::manifest::Layer;
use super::unpack::hash_file;

/// The folder in gpubuild's cache.
const FOLDER: &str = "layers/sha256";

/// The folder of the layers; none where the user has no cache.
#[must_use]
pub fn folder(host: &dyn Host) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER))
}

/// Where a layer lies once it is verified.
#[must_use]
pub fn place(host: &dyn Host, layer: &Layer) -> Option<HostPath> {
    Some(folder(host)?.join(&layer.sha256))
}

/// What a file is to a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is not there.
    Nothing,
    /// It is the layer.
    Whole,
    /// It is something else.
    Other(String),
}

/// Holds a file against a layer: its size, then its hash.
///
/// # Errors
/// It is there and can't be read.
pub fn verify(host: &dyn Host, path: &HostPath, layer: &Layer) -> io::Result<Found> {
    let stat = match host.stat(path) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    if stat.size != layer.size {
        return Ok(Found::Other(format!("it has {} bytes, and the manifest says {}", stat.size, layer.size)));
    }
    let (sha256, _) = hash_file(host, path)?;
    if sha256 == layer.sha256 {
        Ok(Found::Whole)
    } else {
        Ok(Found::Other(format!("its sha256 is {sha256}, and the manifest says {}", layer.sha256)))
    }
}

/// Takes a layer that is in the cache and whole. One that is damaged there is thrown away.
///
/// # Errors
/// The cache can't be read.
pub fn cached(host: &dyn Host, layer: &Layer) -> io::Result<Option<HostPath>> {
    let Some(place) = place(host, layer) else { return Ok(None) };
    match verify(host, &place, layer)? {
        Found::Whole => Ok(Some(place)),
        Found::Nothing => Ok(None),
        Found::Other(_) => host.remove(&place).map(|()| None),
    }
}

/// Nobody else fetches this layer while the lock is held.
///
/// # Errors
/// The cache can't be written.
pub fn lock(host: &dyn Host, layer: &Layer) -> io::Result<Option<Lock>> {
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
pub fn usage(host: &dyn Host) -> Usage {
    let mut usage = Usage::default();
    for (_, stat) in files(host) {
        usage.count += 1;
        usage.bytes += stat.size;
    }
    usage
}

/// Throws away layers that were fetched longer ago than `age` seconds, or all. Tells what is gone.
///
/// # Errors
/// The first file that can't be removed.
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

fn files(host: &dyn Host) -> Vec<(HostPath, Stat)> {
    let Some(folder) = folder(host) else { return Vec::new() };
    let names = host.list(&folder).unwrap_or_default();
    let layers =
        names.iter().filter(|name| name.rsplit('.').next() != Some("lock")).map(|name| folder.join(name));
    layers.filter_map(|path| host.stat(&path).ok().map(|stat| (path, stat))).collect()
}
