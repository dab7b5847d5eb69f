//! Properties of files.
#![expect(clippy::disallowed_methods, reason = "host interface: the only file access")]

use std::fs;
use std::io;
use std::time::UNIX_EPOCH;

use crate::{FileKind, HostPath, Owner, Stat};

pub(super) fn stat(path: &HostPath, extensions: &str) -> io::Result<Stat> {
    let metadata = fs::metadata(path.as_std())?;
    let kind = if metadata.is_file() {
        FileKind::File
    } else if metadata.is_dir() {
        FileKind::Directory
    } else if is_device(&metadata) {
        FileKind::Device
    } else {
        FileKind::Other
    };
    Ok(Stat {
        kind,
        size: if kind == FileKind::File { metadata.len() } else { 0 },
        executable: kind == FileKind::File && is_executable(path, &metadata, extensions),
        owner: owner(&metadata),
        modified: metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .map(|since| since.as_nanos()),
        changed: changed(&metadata),
    })
}

#[cfg(unix)]
fn changed(metadata: &fs::Metadata) -> Option<u128> {
    use std::os::unix::fs::MetadataExt;
    let seconds = u128::try_from(metadata.ctime()).ok()?;
    Some(seconds * 1_000_000_000 + u128::try_from(metadata.ctime_nsec()).ok()?)
}

#[cfg(not(unix))]
fn changed(_metadata: &fs::Metadata) -> Option<u128> {
    None
}

#[cfg(unix)]
pub(super) fn is_device(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() || is_block_device(metadata)
}

#[cfg(not(unix))]
pub(super) fn is_device(_metadata: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
pub(super) fn is_block_device(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_block_device()
}

#[cfg(not(unix))]
pub(super) fn is_block_device(_metadata: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn is_executable(path: &HostPath, metadata: &fs::Metadata, _extensions: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
        && rustix::fs::access(path.as_std(), rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_executable(path: &HostPath, _metadata: &fs::Metadata, extensions: &str) -> bool {
    crate::search::has_extension(path, extensions)
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other platforms have no owner")]
fn owner(metadata: &fs::Metadata) -> Option<Owner> {
    use std::os::unix::fs::MetadataExt;
    Some(Owner { uid: metadata.uid(), gid: metadata.gid() })
}

#[cfg(not(unix))]
fn owner(_metadata: &fs::Metadata) -> Option<Owner> {
    None
}
