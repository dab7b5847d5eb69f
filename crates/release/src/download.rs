//! Downloads a layer into the cache. Partial downloads are resumed. A complete download that differs from the manifest is deleted.

use std::io;

use gpubuild_host::{HostInfo, HostPath};

use super::fetch::resume::{FileSize, PartialFiles, Resumed};
use super::fetch::{Client, DownloadError, FetchError, FetchTarget};
use super::layers::{self, LayerFile};
use super::manifest::Layer;
use super::source_error::{SourceError, VerifiedLayer};

/// Returns a layer from the cache, or downloads it.
///
/// # Errors
/// The download failed, or the layer differs from the manifest.
pub(super) fn layer(
    client: &Client<'_>,
    target: FetchTarget<'_>,
    layer: &Layer,
    on_bytes: &dyn Fn(u64),
) -> Result<VerifiedLayer, SourceError> {
    let host = client.host;
    if let Some(path) = layers::cached(host, layer).map_err(SourceError::Io)? {
        return Ok(VerifiedLayer { path, fetched: 0 });
    }
    let Some(path) = layers::path(host, layer) else {
        return Err(SourceError::Io(io::Error::other("this user has no cache folder")));
    };
    if client.network == gpubuild_exec::python::Network::Offline {
        return Err(FetchError::Offline(target.url.shown()).into());
    }
    if let Some(free) = host.free_space(&path)
        && free < layer.size
    {
        return Err(SourceError::NoSpace { needed: layer.size, free });
    }
    let _lock = layers::lock(host, layer).map_err(SourceError::Io)?;
    // Another process may have downloaded it while this one waited.
    if let Some(path) = layers::cached(host, layer).map_err(SourceError::Io)? {
        return Ok(VerifiedLayer { path, fetched: 0 });
    }
    let files = PartialFiles { part: suffixed(host, &path, ".part"), state: suffixed(host, &path, ".begun") };
    let mut fetched = 0;
    let mut was_restarted = false;
    loop {
        let outcome = client.resume(target, &files, FileSize::Exact(layer.size), &mut |count| {
            fetched += count;
            on_bytes(count);
        });
        let resumed = match outcome {
            Ok(outcome) => outcome == Resumed::InParts,
            Err(DownloadError::Fetch(error)) => return Err(error.into()),
            Err(DownloadError::Disk(error)) => return Err(SourceError::Io(error)),
        };
        match layers::verify(host, &files.part, layer).map_err(SourceError::Io)? {
            LayerFile::Matches => break,
            found => {
                files.delete(host).map_err(SourceError::Io)?;
                // The content on the server may have changed between the parts, so the complete file is downloaded once more.
                if !resumed || std::mem::replace(&mut was_restarted, true) {
                    let what = match found {
                        LayerFile::Differs(what) => what,
                        _ => "the file does not exist".to_owned(),
                    };
                    return Err(SourceError::Differs { sha256: layer.sha256.clone(), what });
                }
            }
        }
    }
    let publish = || {
        host.rename(&files.part, &path)?;
        host.remove(&files.state)?;
        host.remove(&suffixed(host, &path, ".lock"))
    };
    publish().map_err(SourceError::Io)?;
    Ok(VerifiedLayer { path, fetched })
}

fn suffixed(host: &dyn HostInfo, path: &HostPath, suffix: &str) -> HostPath {
    host.path(&format!("{path}{suffix}"))
}
