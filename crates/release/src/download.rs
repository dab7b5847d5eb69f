//! Downloads a layer into the cache. Partial downloads are resumed. A complete download that differs from the manifest is deleted.

use std::io::{self, Write};

use gpubuild_exec::store::{read_json, write_json};
use gpubuild_host::net::Response;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::fetch::{AttemptError, Client, FetchError, FetchTarget, length};
use super::layers::{self, LayerFile};
use super::manifest::Layer;
use super::source_error::{SourceError, VerifiedLayer};

/// The state of a partial download, stored beside it.
#[derive(Debug, Serialize, Deserialize)]
struct PartialState {
    /// The strong `ETag` of the content on the server.
    etag: Option<String>,
}

enum Attempt {
    /// All bytes have arrived.
    Complete,
    /// The partial download could not be resumed and was deleted.
    Restart,
}

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
    let files =
        DownloadFiles { part: suffixed(host, &path, ".part"), state: suffixed(host, &path, ".begun") };
    let mut fetched = 0;
    let mut was_restarted = false;
    loop {
        let resumed = complete(client, target, layer, &files, &mut |count| {
            fetched += count;
            on_bytes(count);
        })?;
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

/// The files of a partial download.
struct DownloadFiles {
    part: HostPath,
    /// The [`PartialState`].
    state: HostPath,
}

impl DownloadFiles {
    fn size(&self, host: &dyn ReadFiles) -> io::Result<u64> {
        match host.stat(&self.part) {
            Ok(stat) => Ok(stat.size),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn delete(&self, host: &dyn WriteFiles) -> io::Result<()> {
        host.remove(&self.part)?;
        host.remove(&self.state)
    }
}

/// Repeats attempts until all bytes have arrived. Returns whether the content was downloaded in several parts.
fn complete(
    client: &Client<'_>,
    target: FetchTarget<'_>,
    layer: &Layer,
    files: &DownloadFiles,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<bool, SourceError> {
    let mut disk_error = None;
    let mut largest = files.size(client.host).map_err(SourceError::Io)?;
    let mut resumed = largest > 0;
    let outcome = client.attempts(target.url, || {
        loop {
            match attempt(client, target, layer, files, on_bytes, &mut disk_error) {
                Ok(Attempt::Complete) => return Ok(()),
                Ok(Attempt::Restart) => {}
                Err(failed) => {
                    let now = files.size(client.host).unwrap_or_default();
                    let progress = now > largest;
                    resumed |= now > 0;
                    largest = largest.max(now);
                    return Err(AttemptError { progress, ..failed });
                }
            }
        }
    });
    match (outcome, disk_error) {
        // A disk error ends the transfer, so it is the cause.
        (_, Some(error)) => Err(SourceError::Io(error)),
        (Err(error), None) => Err(error.into()),
        (Ok(()), None) => Ok(resumed),
    }
}

fn attempt(
    client: &Client<'_>,
    target: FetchTarget<'_>,
    layer: &Layer,
    files: &DownloadFiles,
    on_bytes: &mut dyn FnMut(u64),
    disk_error: &mut Option<io::Error>,
) -> Result<Attempt, AttemptError> {
    let host = client.host;
    macro_rules! on_disk {
        ($result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => {
                    *disk_error = Some(error);
                    return Ok(Attempt::Complete);
                }
            }
        };
    }
    let mut have = on_disk!(files.size(host));
    if have > layer.size {
        on_disk!(files.delete(host));
        have = 0;
    }
    if have == layer.size {
        return Ok(Attempt::Complete);
    }
    let mut headers = Vec::new();
    if have > 0 {
        headers.push(("range".to_owned(), format!("bytes={have}-")));
        if let Some(PartialState { etag: Some(etag) }) = read_json(host, &files.state) {
            headers.push(("if-range".to_owned(), etag));
        }
    }
    let body = match client.request(target, &headers) {
        // The partial download does not match the file on the server.
        Err(AttemptError { error: FetchError::Status { status: 416, .. }, .. }) if have > 0 => {
            on_disk!(files.delete(host));
            return Ok(Attempt::Restart);
        }
        other => other?,
    };
    if body.response.status == 200 && have > 0 {
        on_disk!(files.delete(host));
        have = 0;
    }
    let unexpected = |what: String| AttemptError::from(FetchError::Length { url: body.url.shown(), what });
    check_length(&body.response, have, layer).map_err(unexpected)?;
    on_disk!(write_json(host, &files.state, &PartialState { etag: strong_etag(&body.response) }));
    let mut file = on_disk!(host.append(&files.part));
    let left = layer.size - have;
    let mut received = 0;
    let shown = body.url.shown();
    let mut failed = None;
    let outcome = client.read(body, |piece| {
        let room = usize::try_from(left - received).map_or(piece.len(), |room| room.min(piece.len()));
        if let Err(error) = file.write_all(&piece[..room]) {
            failed = Some(error);
            return false;
        }
        received += room as u64;
        on_bytes(room as u64);
        received < left
    });
    // Bytes that arrived before an error are kept.
    let kept = file.finish();
    if let Some(error) = failed {
        *disk_error = Some(error);
        return Ok(Attempt::Complete);
    }
    on_disk!(kept);
    outcome?;
    if received < left {
        let error = gpubuild_host::net::NetError::Cut(format!("after {received} of {left} bytes"));
        return Err(FetchError::Net { url: shown, error }.into());
    }
    Ok(Attempt::Complete)
}

/// Checks that the length and range of a response are the requested ones.
fn check_length(response: &Response, have: u64, layer: &Layer) -> Result<(), String> {
    let left = layer.size - have;
    if let Some(length) = length(response)
        && length != left
    {
        return Err(format!("it has {length} bytes, but {left} were requested"));
    }
    if response.status != 206 {
        return Ok(());
    }
    if have == 0 {
        return Err("it is a part, but the complete file was requested".to_owned());
    }
    let range = response.header("content-range").unwrap_or_default();
    let parsed = (|| {
        let (range, total) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?, total.trim().to_owned()))
    })();
    match parsed {
        Some((first, last, total))
            if first == have
                && last.checked_add(1) == Some(layer.size)
                && (total == "*" || total == layer.size.to_string()) =>
        {
            Ok(())
        }
        _ => Err(format!("its range is `{range}`, but bytes from {have} of {} were requested", layer.size)),
    }
}

/// The `ETag` of a response, if it is a strong one: a weak one does not guarantee identical bytes.
fn strong_etag(response: &Response) -> Option<String> {
    let etag = response.header("etag")?.trim();
    (etag.starts_with('"') && etag.len() < 512).then(|| etag.to_owned())
}
