//! State on disk that outlives a run: locks, and stamps that tell whether anything changed.
//!
//! A stamp is written last and by one rename. Whatever is interrupted leaves the old stamp, or none, and is done again.

pub mod contents;
pub mod entry;
pub mod explain;
pub mod files;
pub mod key;
pub mod listened;
pub mod maintain;
pub mod outputs;
pub mod places;
pub mod settings;
pub mod surroundings;
pub mod table;
pub mod tree_key;

/// The folder of this version's entries in a store. Those of other versions lie beside it and are left alone.
pub const FORMAT: &str = "v1";

use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that was written as JSON; `None` if it is not there or not readable, which only means more work.
#[must_use]
pub fn read_json<T: DeserializeOwned>(host: &dyn ReadFiles, path: &HostPath) -> Option<T> {
    serde_json::from_slice(&host.read(path).ok()?).ok()
}

/// Writes a value as JSON by one rename.
pub fn write_json<T: Serialize>(host: &dyn WriteFiles, path: &HostPath, value: &T) -> std::io::Result<()> {
    host.write(path, &serde_json::to_vec(value).map_err(std::io::Error::other)?)
}

/// The sha256 of bytes, as `sha256sum` writes it.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    #[cfg(feature = "sha2")]
    let digest = <sha2::Sha256 as sha2::Digest>::digest(bytes);
    #[cfg(not(feature = "sha2"))]
    let digest = hmac_sha256::Hash::hash(bytes);
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha256sum() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
