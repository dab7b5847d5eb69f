//! State on disk: the build store, and stamps that detect changes between builds.
//!
//! A stamp is written last and replaced by a rename. An interrupted build therefore leaves the old stamp or none, and its
//! steps run again.

pub mod contents;
pub mod entry;
pub mod explain;
pub mod files;
pub mod implicit_inputs;
pub mod key;
pub mod maintain;
pub mod outputs;
pub mod remote;
pub mod roots;
pub mod settings;
pub mod table;
pub mod tree_key;
pub mod uploads;
pub mod variables;

/// Name of the folder for this format version in a store. Folders of other versions are not changed.
pub const FORMAT: &str = "v1";

use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a JSON file; `None` if it is missing or malformed. Callers then recompute the value.
#[must_use]
pub fn read_json<T: DeserializeOwned>(host: &dyn ReadFiles, path: &HostPath) -> Option<T> {
    serde_json::from_slice(&host.read(path).ok()?).ok()
}

/// Writes a value as JSON. The file is replaced atomically.
pub fn write_json<T: Serialize>(host: &dyn WriteFiles, path: &HostPath, value: &T) -> std::io::Result<()> {
    host.write(path, &serde_json::to_vec(value).map_err(std::io::Error::other)?)
}

/// The SHA-256 hash of bytes in lowercase hexadecimal digits, as printed by `sha256sum`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    #[cfg(feature = "sha2")]
    let digest = <sha2::Sha256 as sha2::Digest>::digest(bytes);
    #[cfg(not(feature = "sha2"))]
    let digest = hmac_sha256::Hash::hash(bytes);
    digits(&digest)
}

/// The SHA-256 hash and the size of a file, which is read in pieces.
///
/// # Errors
/// The file cannot be read.
pub fn hash_file(host: &dyn ReadFiles, path: &HostPath) -> std::io::Result<(String, u64)> {
    hash_blocks(host, path, &mut |_| {})
}

/// Like [`hash_file`]; each block of the file is also passed to `visit`.
pub fn hash_blocks(
    host: &dyn ReadFiles,
    path: &HostPath,
    visit: &mut dyn FnMut(&[u8]),
) -> std::io::Result<(String, u64)> {
    #[cfg(feature = "sha2")]
    let mut hash = <sha2::Sha256 as sha2::Digest>::new();
    #[cfg(not(feature = "sha2"))]
    let mut hash = hmac_sha256::Hash::new();
    let mut file = host.open(path)?;
    let mut buffer = vec![0; 128 << 10];
    let mut size = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if count == 0 {
            break;
        }
        size += count as u64;
        visit(&buffer[..count]);
        #[cfg(feature = "sha2")]
        sha2::Digest::update(&mut hash, &buffer[..count]);
        #[cfg(not(feature = "sha2"))]
        hash.update(&buffer[..count]);
    }
    #[cfg(feature = "sha2")]
    let digest = sha2::Digest::finalize(hash);
    #[cfg(not(feature = "sha2"))]
    let digest = hash.finalize();
    Ok((digits(&digest), size))
}

/// A digest in lowercase hexadecimal digits.
#[must_use]
pub fn digits(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};

    #[test]
    fn hashes_match_sha256sum() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/file", "abc").build();
        assert_eq!(hash_file(&host, &host.path("/file")).unwrap(), (expected.to_owned(), 3));
    }
}
