//! ZIP archives whose bytes depend on the paths, modes and contents of their files only.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use sha2::{Digest, Sha256};

use super::WheelError;

/// The date of all files, 1980-01-01, which is the oldest that the format can represent.
const DATE: u16 = 1 << 5 | 1;
/// The version of the format that is needed to read the archive: 2.0, with deflate.
const VERSION: u16 = 20;
/// The archive was written on Unix, so that the external attributes contain the mode.
const UNIX: u16 = 3 << 8;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
/// Method of compression: deflate.
const DEFLATE: u16 = 8;

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Path in the archive.
    pub path: String,
    /// Content.
    pub data: Vec<u8>,
    /// Whether it gets execute permission.
    pub executable: bool,
}

impl ArchivedFile {
    /// A file without execute permission.
    #[must_use]
    pub fn new(path: String, data: Vec<u8>) -> Self {
        Self { path, data, executable: false }
    }

    /// The line of `RECORD` for this file.
    fn record(&self) -> String {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(&self.data));
        format!("{},sha256={digest},{}\n", field(&self.path), self.data.len())
    }
}

/// A field of a CSV file.
fn field(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// The `RECORD` of a wheel, whose own entry has neither hash nor size.
#[must_use]
pub fn record(files: &[ArchivedFile], own: &str) -> Vec<u8> {
    let mut text: String = files.iter().map(ArchivedFile::record).collect();
    text.push_str(&field(own));
    text.push_str(",,\n");
    text.into_bytes()
}

/// The archive with these files in this order.
///
/// # Errors
/// A file or the archive is too large for the format.
pub fn zip(files: &[ArchivedFile]) -> Result<Vec<u8>, WheelError> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let large = || WheelError::Large(file.path.clone());
        let offset = u32::try_from(archive.len()).map_err(|_| large())?;
        let size = u32::try_from(file.data.len()).map_err(|_| large())?;
        let compressed = deflate(&file.data).map_err(|_| large())?;
        let mut crc = Crc::new();
        crc.update(&file.data);
        let mut common = Vec::new();
        for number in [VERSION, UTF8, DEFLATE, 0, DATE] {
            common.extend(number.to_le_bytes());
        }
        for number in [crc.sum(), u32::try_from(compressed.len()).map_err(|_| large())?, size] {
            common.extend(number.to_le_bytes());
        }
        common.extend(u16::try_from(file.path.len()).map_err(|_| large())?.to_le_bytes());
        common.extend(0_u16.to_le_bytes());

        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(file.path.as_bytes());
        archive.extend(compressed);

        directory.extend(b"PK\x01\x02");
        directory.extend((UNIX | VERSION).to_le_bytes());
        directory.extend(&common);
        // No comment, the first disk, no internal attributes.
        directory.extend([0; 6]);
        let mode: u32 = if file.executable { 0o100_755 } else { 0o100_644 };
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(file.path.as_bytes());
    }
    finish(archive, &directory, files.len())
}

/// Appends the directory and the record of its end.
fn finish(mut archive: Vec<u8>, directory: &[u8], count: usize) -> Result<Vec<u8>, WheelError> {
    let large = |_| WheelError::Large("the archive".to_owned());
    let count = u16::try_from(count).map_err(large)?;
    let start = u32::try_from(archive.len()).map_err(large)?;
    let size = u32::try_from(directory.len()).map_err(large)?;
    archive.extend(directory);
    archive.extend(b"PK\x05\x06");
    archive.extend([0; 4]);
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend(size.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0; 2]);
    Ok(archive)
}

fn deflate(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_hashes_of_all_files_but_their_own() {
        let files = [ArchivedFile::new("a,b/c.py".to_owned(), Vec::new())];
        let text = String::from_utf8(record(&files, "x-1.dist-info/RECORD")).unwrap();
        assert_eq!(
            text,
            "\"a,b/c.py\",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nx-1.dist-info/RECORD,,\n"
        );
    }

    #[test]
    fn archives_list_their_files_at_the_end() {
        let one = ArchivedFile { path: "bin/x".to_owned(), data: vec![7; 1000], executable: true };
        let bytes = zip(&[one.clone(), ArchivedFile::new("y".to_owned(), b"text".to_vec())]).unwrap();
        assert_eq!(bytes, zip(&[one, ArchivedFile::new("y".to_owned(), b"text".to_vec())]).unwrap());
        let end = &bytes[bytes.len() - 22..];
        let number = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().unwrap()) as usize;
        let (size, start) = (number(12), number(16));
        assert_eq!((&end[..4], &end[8..12]), (&b"PK\x05\x06"[..], &[2, 0, 2, 0][..]));
        assert_eq!(start + size + 22, bytes.len());
        assert!(bytes[start..].starts_with(b"PK\x01\x02"));
        assert_eq!(bytes[start + 38..start + 42], (0o100_755_u32 << 16).to_le_bytes());
    }
}
