//! The folders of versions in an installation: `versions/VERSION-SERIAL-LABEL-HASH`.

use std::io;

use gpubuild_host::{FileKind, HostPath, ReadFiles, WriteFiles};

use super::VersionPair;
use super::ownership::FolderEntry;
use crate::manifest::{is_label, is_plain_name};

/// The folder that contains all versions.
pub const VERSIONS: &str = "versions";
/// The new link to the current version, before it is renamed.
pub(super) const NEXT: &str = ".next";
/// The prefix of names that the host gives to temporary files and folders.
const TEMPORARY: &str = ".gpubuild-";
/// The number of random characters after [`TEMPORARY`].
const RANDOM: usize = 6;
/// The prefix of a version that is being removed.
const REMOVED: &str = ".gpubuild-gone-";

/// The folder of a version.
#[must_use]
pub fn folder(to: &HostPath, name: &str) -> HostPath {
    to.join(VERSIONS).join(name)
}

/// The newest serial in the names of the versions' folders.
pub(super) fn newest_serial(host: &dyn ReadFiles, to: &HostPath) -> Option<u64> {
    let names = host.list(&to.join(VERSIONS)).unwrap_or_default();
    names.iter().filter_map(|name| version_serial(name)).max()
}

/// Whether a name has the form of a temporary file or folder: `.gpubuild-Ab3xY9`.
fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY).is_some_and(|random| {
        random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether a name has the form of a version's folder.
pub(super) fn is_version(name: &str) -> bool {
    version_serial(name).is_some()
}

/// The serial in the name of a version's folder, VERSION-SERIAL-LABEL-HASH. Only the version may contain a `-`. `None` if the name
/// has another form.
fn version_serial(name: &str) -> Option<u64> {
    let mut parts = name.rsplitn(4, '-');
    let (Some(hash), Some(label), Some(serial), Some(version)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let number = serial.parse::<u64>().ok().filter(|number| number.to_string() == serial)?;
    let is_valid = hash.len() == 8 && hash.bytes().all(is_hex) && is_label(label) && is_plain_name(version);
    is_valid.then_some(number)
}

/// Removes the remains of killed installations, and all versions except the two in `keep`. The caller holds the lock. Without `keep`, all
/// versions are kept: if the state is missing, only the names of their folders know the newest serial.
///
/// Entries whose name or kind gpubuild does not create there are kept, and links are not followed.
///
/// # Errors
/// A file or folder cannot be removed.
pub fn tidy(host: &dyn WriteFiles, to: &HostPath, keep: Option<&VersionPair>) -> io::Result<()> {
    remove_link(host, &to.join(NEXT))?;
    for name in host.list(to).unwrap_or_default().iter().filter(|name| is_temporary(name)) {
        let path = to.join(name);
        if FolderEntry::read(host, &path)? == FolderEntry::Is(FileKind::File) {
            host.remove(&path)?;
        }
    }
    let versions = to.join(VERSIONS);
    if FolderEntry::read(host, &versions)? != FolderEntry::Is(FileKind::Directory) {
        return Ok(());
    }
    let is_kept = |name: &str| {
        keep.is_none_or(|keep| {
            [&keep.current, &keep.previous].into_iter().flatten().any(|version| version.folder == name)
        })
    };
    for name in host.list(&versions).unwrap_or_default() {
        let path = versions.join(&name);
        if FolderEntry::read(host, &path)? != FolderEntry::Is(FileKind::Directory) {
            continue;
        }
        if is_temporary(&name) || name.strip_prefix(REMOVED).is_some_and(is_version) {
            host.remove(&path)?;
        } else if is_version(&name) && !is_kept(&name) {
            remove_version(host, &versions, &name)?;
        }
    }
    Ok(())
}

/// Removes a link; an entry of another kind is kept.
pub(super) fn remove_link(host: &dyn WriteFiles, path: &HostPath) -> io::Result<()> {
    match FolderEntry::read(host, path)? {
        FolderEntry::Link(_) => host.remove(path),
        FolderEntry::Absent | FolderEntry::Is(_) => Ok(()),
    }
}

/// Renames the folder of a version before removing its files, so that an incomplete version never has its valid name.
fn remove_version(host: &dyn WriteFiles, versions: &HostPath, name: &str) -> io::Result<()> {
    let removed = versions.join(&format!("{REMOVED}{name}"));
    host.remove(&removed)?;
    host.rename(&versions.join(name), &removed)?;
    host.remove(&removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_names_of_versions_and_temporary_files_are_recognized() {
        for good in ["1.2.0-7-cuda12_sm89-3fa1b2c4", "1.0-rc-1-12-cpu-00000000", "1+a-0-a.b-ffffffff"] {
            assert!(is_version(good), "{good}");
        }
        for bad in [
            "",
            "photos",
            "1.0-1-cpu",
            "1.0-1-cpu-3fa1b2c",
            "1.0-1-cpu-3FA1B2C4",
            "1.0-1-cpu-3fa1b2c45",
            "1.0-x-cpu-3fa1b2c4",
            "1.0--cpu-3fa1b2c4",
            "-1-cpu-3fa1b2c4",
            ".1-1-cpu-3fa1b2c4",
            "1.0-1-CPU-3fa1b2c4",
            "1.0-1--3fa1b2c4",
            "../1.0-1-cpu-3fa1b2c4",
            "a/1.0-1-cpu-3fa1b2c4",
            "a\\1.0-1-cpu-3fa1b2c4",
            "2024-05-holiday-20240501",
        ] {
            assert!(!is_version(bad), "{bad}");
        }
        assert!(is_temporary(".gpubuild-Ab3xY9"));
        for bad in
            [".gpubuild-", ".gpubuild-notes", ".gpubuild-notes12", ".gpubuild-a.b.c", "gpubuild-abc123"]
        {
            assert!(!is_temporary(bad), "{bad}");
        }
    }
}
