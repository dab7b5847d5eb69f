//! Downloads a layer into the cache. Partial downloads are resumed. A complete download that differs from the manifest is deleted.

use std::io::{self, Write};

use gpubuild_exec::store::{read_json, write_json};
use gpubuild_host::net::Response;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::fetch::{Again, Client, FetchError, FetchTarget, length};
use super::layers::{self, LayerSource};
use super::manifest::Layer;
use super::source_error::{SourceError, TakenSource};

/// The state of a partially downloaded layer.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    /// What its server calls this content.
    etag: Option<String>,
}

/// How an attempt ended.
enum Attempt {
    /// All bytes are there.
    Complete,
    /// The partial download cannot be resumed.
    Anew,
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
) -> Result<TakenSource, SourceError> {
    let host = client.host;
    if let Some(path) = layers::cached(host, layer).map_err(SourceError::Io)? {
        return Ok(TakenSource { path, fetched: 0 });
    }
    let Some(place) = layers::place(host, layer) else {
        return Err(SourceError::Io(io::Error::other("this user has no folder for a cache")));
    };
    if client.network == gpubuild_exec::python::Network::Offline {
        return Err(FetchError::Offline(target.url.shown()).into());
    }
    if let Some(free) = host.free_space(&place)
        && free < layer.size
    {
        return Err(SourceError::NoSpace { needed: layer.size, free });
    }
    let _lock = layers::lock(host, layer).map_err(SourceError::Io)?;
    // Another process may have downloaded it while this one waited.
    if let Some(path) = layers::cached(host, layer).map_err(SourceError::Io)? {
        return Ok(TakenSource { path, fetched: 0 });
    }
    let files =
        DownloadFiles { part: suffixed(host, &place, ".part"), begun: suffixed(host, &place, ".begun") };
    let mut fetched = 0;
    let mut is_second = false;
    loop {
        let resumed = complete(client, target, layer, &files, &mut |count| {
            fetched += count;
            on_bytes(count);
        })?;
        match layers::verify(host, &files.part, layer).map_err(SourceError::Io)? {
            LayerSource::Whole => break,
            found => {
                files.forget(host).map_err(SourceError::Io)?;
                // Its parts may have been of different things: once more, as a whole.
                if !resumed || std::mem::replace(&mut is_second, true) {
                    let what = match found {
                        LayerSource::Other(what) => what,
                        _ => "it is not there".to_owned(),
                    };
                    return Err(SourceError::Other { sha256: layer.sha256.clone(), what });
                }
            }
        }
    }
    let publish = || {
        host.rename(&files.part, &place)?;
        host.remove(&files.begun)?;
        host.remove(&suffixed(host, &place, ".lock"))
    };
    publish().map_err(SourceError::Io)?;
    Ok(TakenSource { path: place, fetched })
}

fn suffixed(host: &dyn HostInfo, path: &HostPath, suffix: &str) -> HostPath {
    host.path(&format!("{path}{suffix}"))
}

/// The files of a layer that is not whole.
struct DownloadFiles {
    part: HostPath,
    begun: HostPath,
}

impl DownloadFiles {
    fn size(&self, host: &dyn ReadFiles) -> io::Result<u64> {
        match host.stat(&self.part) {
            Ok(stat) => Ok(stat.size),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn forget(&self, host: &dyn WriteFiles) -> io::Result<()> {
        host.remove(&self.part)?;
        host.remove(&self.begun)
    }
}

/// Downloads until all bytes have arrived. An attempt that delivered some bytes is followed by another. Returns whether it took several
/// parts.
fn complete(
    client: &Client<'_>,
    target: FetchTarget<'_>,
    layer: &Layer,
    files: &DownloadFiles,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<bool, SourceError> {
    let mut disk = None;
    let mut most = files.size(client.host).map_err(SourceError::Io)?;
    let mut resumed = most > 0;
    let outcome = client.attempts(target.url, || {
        loop {
            match attempt(client, target, layer, files, on_bytes, &mut disk) {
                Ok(Attempt::Complete) => return Ok(()),
                Ok(Attempt::Anew) => {}
                Err(again) => {
                    let now = files.size(client.host).unwrap_or_default();
                    let progress = now > most;
                    resumed |= now > 0;
                    most = most.max(now);
                    return Err(Again { progress, ..again });
                }
            }
        }
    });
    match (outcome, disk) {
        // What the disk said comes first: it ended the reading.
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
    disk: &mut Option<io::Error>,
) -> Result<Attempt, Again> {
    let host = client.host;
    macro_rules! on_disk {
        ($result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => {
                    *disk = Some(error);
                    return Ok(Attempt::Complete);
                }
            }
        };
    }
    let mut have = on_disk!(files.size(host));
    if have > layer.size {
        on_disk!(files.forget(host));
        have = 0;
    }
    if have == layer.size {
        return Ok(Attempt::Complete);
    }
    let mut headers = Vec::new();
    if have > 0 {
        headers.push(("range".to_owned(), format!("bytes={have}-")));
        if let Some(Begun { etag: Some(etag) }) = read_json(host, &files.begun) {
            headers.push(("if-range".to_owned(), etag));
        }
    }
    let answer = match client.ask(target, &headers) {
        // The partial download does not match the file on the server.
        Err(Again { error: FetchError::Status { status: 416, .. }, .. }) if have > 0 => {
            on_disk!(files.forget(host));
            return Ok(Attempt::Anew);
        }
        other => other?,
    };
    if answer.response.status == 200 && have > 0 {
        on_disk!(files.forget(host));
        have = 0;
    }
    let wrong = |what: String| Again::from(FetchError::Length { url: answer.url.shown(), what });
    fits(&answer.response, have, layer).map_err(wrong)?;
    on_disk!(write_json(host, &files.begun, &Begun { etag: strong_etag(&answer.response) }));
    let mut file = on_disk!(host.append(&files.part));
    let left = layer.size - have;
    let mut got = 0;
    let shown = answer.url.shown();
    let mut failed = None;
    let outcome = client.read(answer, |piece| {
        let room = usize::try_from(left - got).map_or(piece.len(), |room| room.min(piece.len()));
        if let Err(error) = file.write_all(&piece[..room]) {
            failed = Some(error);
            return false;
        }
        got += room as u64;
        on_bytes(room as u64);
        got < left
    });
    // Also what came before an error is kept.
    let kept = file.finish();
    if let Some(error) = failed {
        *disk = Some(error);
        return Ok(Attempt::Complete);
    }
    on_disk!(kept);
    outcome?;
    if got < left {
        let error = gpubuild_host::net::NetError::Cut(format!("{got} of {left} bytes came"));
        return Err(FetchError::Net { url: shown, error }.into());
    }
    Ok(Attempt::Complete)
}

/// What an answer says of itself must be what was asked for.
fn fits(response: &Response, have: u64, layer: &Layer) -> Result<(), String> {
    let left = layer.size - have;
    if let Some(length) = length(response)
        && length != left
    {
        return Err(format!("{length} bytes, and {left} are missing"));
    }
    if response.status != 206 {
        return Ok(());
    }
    if have == 0 {
        return Err("a part, and the whole was asked for".to_owned());
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
        _ => Err(format!("the part `{range}`, and bytes from {have} of {} were asked for", layer.size)),
    }
}

/// A weak ETag does not guarantee identical bytes.
fn strong_etag(response: &Response) -> Option<String> {
    let etag = response.header("etag")?.trim();
    (etag.starts_with('"') && etag.len() < 512).then(|| etag.to_owned())
}
