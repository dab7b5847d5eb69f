//! Compressed content: files of entries and their inputs.

use std::io::{self, Read, Write};

use gpubuild_exec::store::hash_file;
use gpubuild_host::net::NetError;
use gpubuild_host::{Host, HostPath, ReadFiles};
use gpubuild_release::fetch::FetchError;
use gpubuild_release::hashed::Hashed;
use serde::{Deserialize, Serialize};

use super::error::RemoteError;

/// The level of compression, which compresses faster than most networks transfer.
const LEVEL: i32 = 3;
/// The logarithm of the largest window that is decompressed, in bytes. [`LEVEL`] needs 21. Several files are decompressed at once, and a
/// window is allocated as soon as a file declares it.
const WINDOW_LOG: u32 = 23;

/// Compressed content on a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Blob {
    /// The sha256 of the compressed bytes, which is its name on the server.
    pub(crate) sha256: String,
    /// The number of compressed bytes.
    pub(crate) bytes: u64,
}

/// The expected content after decompression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
}

/// Compresses a file. The same content always becomes the same blob.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn compress(host: &dyn Host, from: &HostPath, to: &HostPath) -> io::Result<Blob> {
    let mut source = host.open(from)?;
    let mut target = Hashed::new(host.create(to)?);
    let mut encoder = zstd::stream::write::Encoder::new(&mut target, LEVEL)?;
    io::copy(&mut source, &mut encoder)?;
    encoder.finish()?;
    let blob = Blob { sha256: target.sha256(), bytes: target.size() };
    target.inner.close()?;
    Ok(blob)
}

/// Decompresses a response into `target` and verifies it. Returns the number of compressed bytes.
///
/// # Errors
/// The transfer failed, the content is not the expected one, or `target` cannot be written.
pub(crate) fn decompress(
    (url, body): (&str, &mut dyn Read),
    blob: &Blob,
    content: &Content,
    target: &mut dyn Write,
) -> Result<u64, RemoteError> {
    let damaged = |what: String| RemoteError::Damaged { url: url.to_owned(), what };
    let transfer = |error: io::Error| transfer_error(url, error);
    // One byte more than expected shows that the server sends too much.
    let mut source = Hashed::new(body.take(blob.bytes + 1));
    let mut stream = zstd::stream::read::Decoder::new(&mut source).map_err(transfer)?;
    stream.window_log_max(WINDOW_LOG).map_err(transfer)?;
    let mut decoded = Hashed::new(stream.take(content.bytes + 1));
    let mut buffer = vec![0; 128 << 10];
    loop {
        let count = match decoded.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(transfer(error)),
        };
        target.write_all(&buffer[..count]).map_err(RemoteError::Disk)?;
    }
    let (sha256, bytes) = (decoded.sha256(), decoded.size());
    drop(decoded);
    if bytes != content.bytes {
        let more = if bytes > content.bytes { "more" } else { "fewer" };
        return Err(damaged(format!("a file has {more} than {} bytes", content.bytes)));
    }
    if sha256 != content.sha256 {
        return Err(damaged(format!("the hash of a file is {sha256}, not {}", content.sha256)));
    }
    Ok(source.size())
}

/// The error of reading a response.
pub(crate) fn transfer_error(url: &str, error: io::Error) -> RemoteError {
    let error = match error.downcast::<RemoteError>() {
        Ok(error) => return error,
        Err(error) => error,
    };
    match error.get_ref().and_then(|one| one.downcast_ref::<NetError>()) {
        Some(error) => FetchError::Net { url: url.to_owned(), error: error.clone() }.into(),
        None => RemoteError::Damaged { url: url.to_owned(), what: error.to_string() },
    }
}

/// Whether a file has this content.
pub(crate) fn is_same(host: &dyn ReadFiles, path: &HostPath, content: &Content) -> bool {
    hash_file(host, path).is_ok_and(|(sha256, bytes)| (&sha256, bytes) == (&content.sha256, content.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with `ab` as one uncompressed block, and a window of this size.
    fn frame(window_log: u8) -> Vec<u8> {
        [&[0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3, 0x11, 0, 0][..], b"ab"].concat()
    }

    #[test]
    fn windows_beyond_the_limit_are_refused() {
        let content = Content { sha256: gpubuild_exec::store::sha256(b"ab"), bytes: 2 };
        for window_log in 10..=31 {
            let bytes = frame(window_log);
            let blob = Blob { sha256: String::new(), bytes: bytes.len() as u64 };
            let mut target = Vec::new();
            let outcome = decompress(("URL", &mut &bytes[..]), &blob, &content, &mut target);
            if u32::from(window_log) <= WINDOW_LOG {
                assert_eq!((outcome.unwrap(), &target[..]), (blob.bytes, &b"ab"[..]));
            } else {
                assert!(matches!(outcome, Err(RemoteError::Damaged { .. })), "{window_log}");
                assert_eq!(target, b"");
            }
        }
    }
}
