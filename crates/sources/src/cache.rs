//! Size and removal of the downloaded sources in gpubuild's cache.

use std::io;

use gpubuild_host::folders::cache_folder;
use gpubuild_host::links::refuse_link;
use gpubuild_host::{FileKind, Host, HostPath, ReadFiles, Wait};
use gpubuild_plan::project::source::locate::{MARKER, SOURCES};
use gpubuild_release::layers::DownloadUsage;

/// The disk usage of the sources in the cache.
#[must_use]
pub fn usage(host: &dyn ReadFiles) -> DownloadUsage {
    let mut usage = DownloadUsage::default();
    for folder in folders(host) {
        usage.count += 1;
        usage.bytes += size(host, &folder);
    }
    usage
}

/// Removes sources that were downloaded more than `age` seconds ago, or all, and what killed downloads have left. Keeps what is being
/// downloaded. Returns what was removed.
///
/// # Errors
/// The first folder that cannot be removed.
pub fn prune(host: &dyn Host, age: Option<u64>, all: bool) -> io::Result<DownloadUsage> {
    let mut removed = DownloadUsage::default();
    if let Some(cache) = cache_folder(host) {
        refuse_link(host, &cache.join(SOURCES))?;
    }
    for folder in folders(host) {
        let name = folder.file_name().unwrap_or_default();
        let incomplete = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
        let is_old = || age.is_some_and(|age| host.now().saturating_sub(downloaded(host, &folder)) > age);
        if incomplete.is_none() && !all && !is_old() {
            continue;
        }
        let lock =
            folder.parent().map(|parent| parent.join(&format!(".{}.lock", incomplete.unwrap_or(name))));
        let Some(_lock) = lock.map(|lock| host.lock(&lock, Wait::No)).transpose()?.flatten() else {
            continue;
        };
        let bytes = size(host, &folder);
        host.remove(&folder)?;
        removed.count += 1;
        removed.bytes += bytes;
    }
    Ok(removed)
}

fn folders(host: &dyn ReadFiles) -> Vec<HostPath> {
    let Some(all) = cache_folder(host).map(|cache| cache.join(SOURCES)) else { return Vec::new() };
    let names = host.list(&all).unwrap_or_default();
    names.iter().map(|name| all.join(name)).filter(|path| host.is_dir(path)).collect()
}

/// When sources were downloaded, in seconds since 1970: the marker is written last.
fn downloaded(host: &dyn ReadFiles, folder: &HostPath) -> u64 {
    let modified = host.stat(&folder.join(MARKER)).ok().and_then(|stat| stat.modified);
    modified.and_then(|time| u64::try_from(time / 1_000_000_000).ok()).unwrap_or_default()
}

fn size(host: &dyn ReadFiles, folder: &HostPath) -> u64 {
    let (mut bytes, mut pending) = (0, vec![folder.clone()]);
    while let Some(folder) = pending.pop() {
        for name in host.list(&folder).unwrap_or_default() {
            let path = folder.join(&name);
            if host.read_link(&path).is_ok() {
                continue;
            }
            match host.stat(&path) {
                Ok(stat) if stat.kind == FileKind::Directory => pending.push(path),
                Ok(stat) => bytes += stat.size,
                Err(_) => {}
            }
        }
    }
    bytes
}
