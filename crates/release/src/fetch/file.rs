//! Downloads a file whose size is unknown before the response.

use std::io;

use gpubuild_host::HostPath;

use super::resume::{FileSize, PartialFiles, Resumed};
use super::{Client, FetchError, FetchTarget};

/// The result of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileDownload {
    /// The file is complete.
    Complete,
    /// The file is complete, and consists of parts from several requests. If its content is wrong, a second download of all bytes can
    /// have the right one.
    InParts,
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
    /// Downloads a file of at most `max` bytes to `path`, and continues what an earlier download has left there. `state` is a file that
    /// identifies the partial content. The result is unverified: the caller deletes both if the content is wrong.
    ///
    /// # Errors
    /// The download failed, or the file cannot be written.
    pub fn file(
        &self,
        target: FetchTarget<'_>,
        path: &HostPath,
        state: &HostPath,
        max: u64,
    ) -> Result<FileDownload, DownloadError> {
        let files = PartialFiles { part: path.clone(), state: state.clone() };
        match self.resume(target, &files, FileSize::AtMost(max), &mut |_| {}) {
            Ok(Resumed::AtOnce) => Ok(FileDownload::Complete),
            Ok(Resumed::InParts) => Ok(FileDownload::InParts),
            Ok(Resumed::TooLarge) => Ok(FileDownload::TooLarge),
            Err(DownloadError::Fetch(FetchError::Status { status: 404 | 410, .. })) => {
                Ok(FileDownload::Missing)
            }
            Err(error) => Err(error),
        }
    }
}
