//! Downloads into a file that continue where an earlier one has ended, also one of another process.

use std::io::{self, Write as _};

use gpubuild_core::clean;
use gpubuild_exec::store::{read_json, write_json};
use gpubuild_host::net::{NetError, Response};
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::{AttemptError, Client, DownloadError, FetchError, FetchTarget, FetchedBody, SHOWN, length};

/// The state of a partial download, stored beside it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct PartialState {
    /// The strong `ETag` of the content on the server.
    etag: Option<String>,
    /// `Last-Modified`, if it identifies the content.
    modified: Option<String>,
    /// The size of the complete file in bytes.
    total: Option<u64>,
}

/// The files of a partial download.
pub(crate) struct PartialFiles {
    /// The bytes that have arrived.
    pub(crate) part: HostPath,
    /// The [`PartialState`].
    pub(crate) state: HostPath,
}

/// What is known about the size of a file before it is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSize {
    /// The number of bytes.
    Exact(u64),
    /// The largest accepted number of bytes.
    AtMost(u64),
}

/// How a download has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// All bytes were received by one request.
    AtOnce,
    /// Several requests received a part each, so the content may have changed between them.
    InParts,
    /// The file is larger than [`FileSize::AtMost`].
    TooLarge,
}

enum Attempt {
    /// All bytes have arrived.
    Complete,
    /// The partial download could not be resumed and was deleted.
    Restart,
    /// The file is larger than allowed.
    TooLarge,
}

/// Why an attempt has failed.
enum PartError {
    /// The server or the network.
    Attempt(AttemptError),
    /// A local file could not be read or written. No attempt follows.
    Disk(io::Error),
}

impl From<AttemptError> for PartError {
    fn from(error: AttemptError) -> Self {
        Self::Attempt(error)
    }
}

impl From<FetchError> for PartError {
    fn from(error: FetchError) -> Self {
        Self::Attempt(error.into())
    }
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl PartialFiles {
    /// The number of bytes that have arrived.
    pub(crate) fn size(&self, host: &dyn ReadFiles) -> io::Result<u64> {
        match host.stat(&self.part) {
            Ok(stat) => Ok(stat.size),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Deletes what has arrived.
    pub(crate) fn delete(&self, host: &dyn WriteFiles) -> io::Result<()> {
        host.remove(&self.part)?;
        host.remove(&self.state)
    }
}

impl Client<'_> {
    /// Repeats requests until all bytes of a file have arrived. Continues what `files` already has. The content is unverified.
    pub(crate) fn resume(
        &self,
        target: FetchTarget<'_>,
        files: &PartialFiles,
        size: FileSize,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<Resumed, DownloadError> {
        let mut largest = files.size(self.host).map_err(DownloadError::Disk)?;
        let mut resumed = largest > 0;
        let outcome = self.attempts(target.url, || {
            loop {
                match self.attempt_part(target, files, size, on_bytes) {
                    Ok(Attempt::Restart) => {}
                    Ok(Attempt::Complete) => return Ok(Ok(true)),
                    Ok(Attempt::TooLarge) => return Ok(Ok(false)),
                    Err(PartError::Disk(error)) => return Ok(Err(error)),
                    Err(PartError::Attempt(failed)) => {
                        let now = files.size(self.host).unwrap_or_default();
                        let progress = now.saturating_sub(largest);
                        resumed |= now > 0;
                        largest = largest.max(now);
                        return Err(AttemptError { progress, ..failed });
                    }
                }
            }
        })?;
        let fits = outcome.map_err(DownloadError::Disk)?;
        Ok(match (fits, resumed) {
            (false, _) => Resumed::TooLarge,
            (true, true) => Resumed::InParts,
            (true, false) => Resumed::AtOnce,
        })
    }

    fn attempt_part(
        &self,
        target: FetchTarget<'_>,
        files: &PartialFiles,
        size: FileSize,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<Attempt, PartError> {
        let host = self.host;
        let mut have = files.size(host)?;
        let before: PartialState = read_json(host, &files.state).unwrap_or_default();
        let known = if let FileSize::Exact(size) = size { Some(size) } else { before.total };
        if known.is_some_and(|size| have > size) {
            files.delete(host)?;
            have = 0;
        }
        if known == Some(have) {
            // An empty file has no response that creates it.
            host.append(&files.part)?.finish()?;
            return Ok(Attempt::Complete);
        }
        let body = match self.request(target, &range(have, &before)) {
            // The partial download does not match the file on the server.
            Err(AttemptError { error: FetchError::Status { status: 416, .. }, .. }) if have > 0 => {
                files.delete(host)?;
                return Ok(Attempt::Restart);
            }
            other => other?,
        };
        let is_part = body.response.status == 206 && have > 0;
        let now = PartialState::of(&body.response, is_part.then_some(&before));
        if is_part && now.differs(&before) {
            // The server has other content now and ignores `If-Range`.
            files.delete(host)?;
            return Ok(Attempt::Restart);
        }
        if !is_part {
            files.delete(host)?;
            have = 0;
        }
        let total = total(&body.response, have, size)
            .map_err(|what| FetchError::Length { url: body.url.shown(), what })?;
        if matches!(size, FileSize::AtMost(max) if total.is_some_and(|total| total > max)) {
            return Ok(Attempt::TooLarge);
        }
        write_json(host, &files.state, &PartialState { total, ..now })?;
        self.append(body, files, Expected { have, total, size }, on_bytes)
    }

    /// Appends a body to the partial file.
    fn append(
        &self,
        body: FetchedBody,
        files: &PartialFiles,
        Expected { have, total, size }: Expected,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<Attempt, PartError> {
        let mut file = self.host.append(&files.part)?;
        let limit = match size {
            FileSize::Exact(size) => size,
            // One more byte shows that the file is too large.
            FileSize::AtMost(max) => total.unwrap_or(max + 1),
        };
        let mut received = have;
        let shown = body.url.shown();
        let mut failed = None;
        let outcome = self.read(body, |piece| {
            let room = usize::try_from(limit - received).map_or(piece.len(), |room| room.min(piece.len()));
            if let Err(error) = file.write_all(&piece[..room]) {
                failed = Some(error);
                return false;
            }
            received += room as u64;
            on_bytes(room as u64);
            received < limit
        });
        // Bytes that arrived before an error are kept.
        let kept = file.finish();
        failed.map_or(Ok(()), Err)?;
        kept?;
        outcome?;
        match total {
            Some(total) if received < total => {
                let error = NetError::Cut(format!("after {} of {} bytes", received - have, total - have));
                Err(FetchError::Net { url: shown, error }.into())
            }
            None if received == limit => Ok(Attempt::TooLarge),
            _ => Ok(Attempt::Complete),
        }
    }
}

/// What a response has to contain.
#[derive(Clone, Copy)]
struct Expected {
    /// The number of bytes that arrived before.
    have: u64,
    /// The size of the complete file, if it is known.
    total: Option<u64>,
    size: FileSize,
}

impl PartialState {
    /// The state after a response. A part does not have to repeat what identifies the content.
    fn of(response: &Response, before: Option<&Self>) -> Self {
        let kept = |field: fn(&Self) -> &Option<String>| before.and_then(|before| field(before).clone());
        Self {
            etag: strong_etag(response).or_else(|| kept(|state| &state.etag)),
            modified: strong_date(response).or_else(|| kept(|state| &state.modified)),
            total: None,
        }
    }

    /// Whether both states identify the content, and differently.
    fn differs(&self, other: &Self) -> bool {
        match (&self.etag, &other.etag) {
            (Some(one), Some(other)) => one != other,
            _ => matches!((&self.modified, &other.modified), (Some(one), Some(other)) if one != other),
        }
    }
}

/// The headers that request everything after the first bytes, if the content is still the same.
fn range(have: u64, state: &PartialState) -> Vec<(String, String)> {
    if have == 0 {
        return Vec::new();
    }
    let condition = state.etag.as_ref().or(state.modified.as_ref());
    let condition = condition.map(|value| ("if-range".to_owned(), value.clone()));
    [("range".to_owned(), format!("bytes={have}-"))].into_iter().chain(condition).collect()
}

/// The size of the complete file, if the response or the caller says it. Checks that the length and range of the response are the
/// requested ones.
fn total(response: &Response, have: u64, size: FileSize) -> Result<Option<u64>, String> {
    let exact = if let FileSize::Exact(size) = size { Some(size) } else { None };
    let length = length(response);
    if let (Some(length), Some(exact)) = (length, exact)
        && length != exact - have
    {
        return Err(format!("it has {length} bytes, but {} were requested", exact - have));
    }
    let announced = length.and_then(|length| length.checked_add(have));
    if response.status != 206 {
        return Ok(exact.or(announced));
    }
    if have == 0 {
        return Err("it is a part, but the complete file was requested".to_owned());
    }
    let range = response.header("content-range").unwrap_or_default();
    let expected = exact.or(announced);
    let end = rest_of_range(range, have).filter(|end| expected.is_none_or(|expected| expected == *end));
    end.map(Some).ok_or_else(|| {
        let of = exact.map(|size| format!(" of {size}")).unwrap_or_default();
        let range = clean::short(range, SHOWN);
        format!("its range is `{range}`, but bytes from {have}{of} were requested")
    })
}

/// The end of the range in a `Content-Range`, if it starts at `first` and reaches the end of the content.
#[must_use]
pub fn rest_of_range(value: &str, first: u64) -> Option<u64> {
    let (range, total) = value.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    let total = if total.trim() == "*" { end } else { total.trim().parse().ok()? };
    (start.parse() == Ok(first) && first < end && total == end).then_some(end)
}

/// The `ETag` of a response, if it is a strong one: a weak one does not guarantee identical bytes.
fn strong_etag(response: &Response) -> Option<String> {
    let etag = response.header("etag")?.trim();
    (etag.starts_with('"') && etag.len() < 512).then(|| etag.to_owned())
}

/// `Last-Modified`, if the response is from a later second: the content may change twice within one second.
fn strong_date(response: &Response) -> Option<String> {
    let modified = response.header("last-modified")?.trim();
    let date = response.header("date")?.trim();
    (modified != date && modified.len() < 64).then(|| modified.to_owned())
}
