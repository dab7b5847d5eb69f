//! Serials of releases that were trusted before. They protect against older manifests, which an attacker may send again.
//!
//! Two places know a serial: a record in gpubuild's cache, and the folder in which the release is installed. The newest of them counts,
//! so that a lost cache does not disable the check. A damaged record is an error.

use std::io;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_exec::store::{sha256, write_json};
use gpubuild_host::folders::cache_folder;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, Wait, WriteFiles};
use serde::{Deserialize, Serialize};

use super::manifest::ReleaseManifest;

/// The folder in gpubuild's cache with the records.
const FOLDER: &str = "releases";
/// The lock file beside them. A release cannot have this name.
const LOCK: &str = ".lock";
/// The schema id of a record.
const SCHEMA: &str = "gpubuild.trusted/1";
/// The largest record that is read, in bytes.
const MAX_BYTES: usize = 4 << 10;

/// The last trusted manifest of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedSerial {
    /// The serial of the manifest.
    pub serial: u64,
    /// The sha256 of the manifest; empty if only its serial is known.
    pub sha256: String,
}

impl TrustedSerial {
    /// Whether `other` says nothing that this does not say.
    fn covers(&self, other: &Self) -> bool {
        self.serial > other.serial
            || (self.serial == other.serial && (other.sha256.is_empty() || !self.sha256.is_empty()))
    }
}

/// The content of a record.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustRecord {
    schema: String,
    serial: u64,
    sha256: String,
    /// The sha256 of the release's name and of the other values: a changed digit of the serial would be valid otherwise.
    checksum: String,
}

impl TrustRecord {
    fn new(name: &str, known: &TrustedSerial) -> Self {
        let TrustedSerial { serial, sha256: content } = known;
        let checksum = sha256(format!("{SCHEMA}\n{name}\n{serial}\n{content}").as_bytes());
        Self { schema: SCHEMA.to_owned(), serial: *serial, sha256: content.clone(), checksum }
    }
}

/// What is known of earlier manifests of a release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseHistory {
    /// The manifest that was trusted last.
    pub recorded: Option<TrustedSerial>,
    /// The newest serial in the folder of the installation.
    pub installed: Option<u64>,
}

impl ReleaseHistory {
    /// The newest serial.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.recorded.as_ref().map(|known| known.serial).max(self.installed)
    }
}

/// A record that exists and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`, the record of the last trusted serial, {problem}")]
pub struct RecordError {
    /// The record.
    pub path: HostPath,
    /// The end of a sentence.
    pub problem: String,
}

impl Diagnostic for RecordError {
    fn id(&self) -> DiagnosticId {
        id!("manifest.record-damaged")
    }

    fn hint(&self) -> Option<String> {
        Some(
            "check that the serial of this release is current, and add `--allow-older`, which replaces the record"
                .to_owned(),
        )
    }
}

fn path(host: &dyn HostInfo, name: &str) -> Option<HostPath> {
    Some(cache_folder(host)?.join(FOLDER).join(&format!("{name}.json")))
}

/// The last trusted manifest of a release; `None` if there is no record.
///
/// # Errors
/// The record is damaged or cannot be read.
pub fn last_trusted(host: &dyn ReadFiles, name: &str) -> Result<Option<TrustedSerial>, RecordError> {
    path(host, name).map_or(Ok(None), |path| read(host, &path, name))
}

fn read(host: &dyn ReadFiles, path: &HostPath, name: &str) -> Result<Option<TrustedSerial>, RecordError> {
    let failed = |problem: String| RecordError { path: path.clone(), problem };
    let bytes = match host.read_start(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(format!("cannot be read: {error}"))),
    };
    let damaged = || failed("is damaged".to_owned());
    let record: TrustRecord = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
    let known = TrustedSerial { serial: record.serial, sha256: record.sha256.clone() };
    if record == TrustRecord::new(name, &known) { Ok(Some(known)) } else { Err(damaged()) }
}

/// Records a trusted manifest atomically, unless a newer one is recorded. If the manifest is older than `newest`, which the folder of an
/// installation knows, that serial is recorded instead. A damaged record is replaced, because the caller has accepted the manifest
/// nevertheless.
///
/// # Errors
/// The record cannot be written.
pub fn record(
    host: &dyn WriteFiles,
    bytes: &[u8],
    manifest: &ReleaseManifest,
    newest: u64,
) -> io::Result<()> {
    let known = if manifest.serial < newest {
        TrustedSerial { serial: newest, sha256: String::new() }
    } else {
        TrustedSerial { serial: manifest.serial, sha256: sha256(bytes) }
    };
    path(host, &manifest.name).map_or(Ok(()), |path| write(host, &path, &manifest.name, &known))
}

fn write(host: &dyn WriteFiles, path: &HostPath, name: &str, known: &TrustedSerial) -> io::Result<()> {
    let is_known = || matches!(read(host, path, name), Ok(Some(before)) if before.covers(known));
    if is_known() {
        return Ok(());
    }
    // Another process may record a newer manifest at the same time.
    let lock = path.parent().unwrap_or_else(|| path.clone()).join(LOCK);
    let _lock = host.lock(&lock, Wait::Yes)?;
    if is_known() {
        return Ok(());
    }
    write_json(host, path, &TrustRecord::new(name, known))
}

#[cfg(test)]
mod tests {
    use gpubuild_host::RealHost;

    use super::*;

    struct Record {
        host: RealHost,
        path: HostPath,
        _folder: tempfile::TempDir,
    }

    impl Record {
        fn new() -> Self {
            let (host, folder) = (RealHost::new(), tempfile::tempdir().unwrap());
            let path = host.path(folder.path().to_str().unwrap()).join("infer.json");
            Self { host, path, _folder: folder }
        }

        fn write(&self, serial: u64) -> TrustedSerial {
            let known = TrustedSerial { serial, sha256: sha256(&serial.to_be_bytes()) };
            write(&self.host, &self.path, "infer", &known).unwrap();
            known
        }

        fn read(&self) -> Result<Option<TrustedSerial>, RecordError> {
            read(&self.host, &self.path, "infer")
        }
    }

    #[test]
    fn every_damage_to_a_record_is_an_error_or_changes_no_value() {
        let record = Record::new();
        assert_eq!(record.read(), Ok(None));
        let known = record.write(7);
        assert_eq!(record.read(), Ok(Some(known.clone())));
        let bytes = record.host.read(&record.path).unwrap();
        for at in 0..bytes.len() {
            record.host.write(&record.path, &bytes[..at]).unwrap();
            assert!(record.read().is_err(), "the first {at} bytes");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                record.host.write(&record.path, &changed).unwrap();
                let found = record.read();
                assert!(
                    found.is_err() || found == Ok(Some(known.clone())),
                    "byte {at}, bit {bit}: {found:?}"
                );
            }
        }
        // The record of another release is not accepted.
        record.host.write(&record.path, &bytes).unwrap();
        assert!(read(&record.host, &record.path, "whisper").is_err());
        // A folder instead of the file.
        record.host.remove(&record.path).unwrap();
        record.host.create_dir_all(&record.path).unwrap();
        assert!(record.read().is_err());
    }

    #[test]
    fn an_older_manifest_does_not_replace_the_record_of_a_newer_one() {
        let record = Record::new();
        record.write(7);
        let newer = record.write(8);
        record.write(6);
        assert_eq!(record.read(), Ok(Some(newer)));
        // Only the serial of the next one is known, until it is trusted itself.
        let serial_only = TrustedSerial { serial: 9, sha256: String::new() };
        write(&record.host, &record.path, "infer", &serial_only).unwrap();
        assert_eq!(record.read(), Ok(Some(serial_only.clone())));
        record.write(8);
        assert_eq!(record.read(), Ok(Some(serial_only.clone())));
        let complete = record.write(9);
        write(&record.host, &record.path, "infer", &serial_only).unwrap();
        assert_eq!(record.read(), Ok(Some(complete)));
        record.host.write(&record.path, b"damaged").unwrap();
        let replaced = record.write(6);
        assert_eq!(record.read(), Ok(Some(replaced)));
    }
}
