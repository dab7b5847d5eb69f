//! Downloads a file whose size is unknown before the response.

use std::io::{self, Write as _};

use gpubuild_host::HostPath;

use super::{AttemptError, Client, FetchError, FetchTarget, NetError, length};

/// The result of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileDownload {
    /// The file is complete.
    Complete,
    /// The server has no such file (404, 410).
    Missing,
    /// The file is larger than allowed.
    TooLarge,
}

/// Why a file could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The server or the network.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The file cannot be written.
    #[error("{0}")]
    Disk(io::Error),
}

impl Client<'_> {
    /// Downloads a file of at most `max` bytes to `path`, which is replaced. The content is unverified.
    ///
    /// # Errors
    /// The download failed, or the file cannot be written.
    pub fn file(
        &self,
        target: FetchTarget<'_>,
        path: &HostPath,
        max: u64,
        on_bytes: &dyn Fn(u64),
    ) -> Result<FileDownload, DownloadError> {
        let mut disk_error = None;
        let done = self.attempts(target.url, || {
            let body = match self.request(target, &[]) {
                Err(AttemptError { error: FetchError::Status { status: 404 | 410, .. }, .. }) => {
                    return Ok(FileDownload::Missing);
                }
                other => other?,
            };
            let announced = length(&body.response);
            if announced.is_some_and(|length| length > max) {
                return Ok(FileDownload::TooLarge);
            }
            let shown = body.url.shown();
            let mut received = 0;
            let written = (|| {
                self.host.remove(path)?;
                let mut file = self.host.create(path)?;
                let mut failed = None;
                let outcome = self.read(body, |piece| {
                    received += piece.len() as u64;
                    failed = file.write_all(piece).err();
                    on_bytes(piece.len() as u64);
                    failed.is_none() && received <= max
                });
                failed.map_or(Ok(()), Err)?;
                file.finish()?;
                Ok(outcome)
            })();
            match written {
                Err(error) => {
                    disk_error = Some(error);
                    return Ok(FileDownload::Complete);
                }
                Ok(outcome) => outcome?,
            }
            if received > max {
                return Ok(FileDownload::TooLarge);
            }
            if announced.is_some_and(|announced| announced != received) {
                let error = NetError::Cut(format!("after {received} bytes"));
                return Err(FetchError::Net { url: shown, error }.into());
            }
            Ok(FileDownload::Complete)
        })?;
        disk_error.map_or(Ok(done), |error| Err(DownloadError::Disk(error)))
    }
}
