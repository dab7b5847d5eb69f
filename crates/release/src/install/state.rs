//! What is installed in a folder: `state.json` beside `versions/` and `current`.
//!
//! The link `current` determines which version is installed. The state is written right before the link is replaced, and describes both
//! the old and the new version. If the process is killed between the two renames, [`InstalledRelease::read`] still returns a complete
//! version.

use std::io;

use gpubuild_core::backend::Backend;
use gpubuild_exec::store::{read_json, sha256, write_json};
use gpubuild_host::{FileKind, HostPath, Os, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::InstallError;
use super::ownership::{self, FolderEntry, FolderState};
use crate::manifest::{is_inner_path, is_label, is_plain_name};

/// The schema id of [`InstallState`].
pub const SCHEMA: &str = "gpubuild.installed/1";
/// The file with the [`InstallState`].
pub(super) const FILE: &str = "state.json";
/// The folder that contains all versions.
pub const VERSIONS: &str = "versions";
/// The link to the version in use.
pub const CURRENT: &str = "current";

/// The result of a version's smoke test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The program's own check of the backend succeeded.
    Checked,
    /// The program started and succeeded; it has no check of backends.
    Started,
    /// The program was not run.
    #[default]
    NotStarted,
}

/// An installed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InstalledVersion {
    /// The name of its folder below `versions/`.
    pub folder: String,
    /// The version of the release.
    pub version: String,
    /// The serial of the manifest.
    pub serial: u64,
    /// The label of the variant.
    pub label: String,
    /// The backend that the variant was selected for.
    pub backend: Backend,
    /// The path of its program, relative to its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The arguments of the program's check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// The result of the smoke test.
    pub proof: Proof,
}

/// The current and the previous version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionPair {
    /// The version in use.
    pub current: Option<InstalledVersion>,
    /// The version to which `rollback` returns.
    pub previous: Option<InstalledVersion>,
}

/// `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallState {
    /// [`SCHEMA`].
    pub schema: String,
    /// The name of the installed release.
    pub name: String,
    /// The versions after `current` was replaced.
    pub now: VersionPair,
    /// The versions until then.
    pub before: VersionPair,
    /// The newest serial that was ever installed in the folder. Protects against older manifests.
    #[serde(default)]
    pub newest: u64,
    /// The sha256 of the other values, because a changed digit of a serial would be valid otherwise. Older versions of gpubuild wrote
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

impl InstallState {
    /// Reads the state of a folder; `None` if it is missing or invalid.
    pub(super) fn read(host: &dyn ReadFiles, to: &HostPath) -> Option<Self> {
        read_json(host, &to.join(FILE)).filter(Self::is_valid)
    }

    /// Whether all folders and programs, which are used as paths, are inside `versions/`.
    fn is_valid(&self) -> bool {
        let versions = [&self.now, &self.before].into_iter().flat_map(|pair| [&pair.current, &pair.previous]);
        let is_inside = |version: &InstalledVersion| {
            is_version(&version.folder) && version.program.as_deref().is_none_or(is_inner_path)
        };
        self.schema == SCHEMA
            && self.checksum.as_ref().is_none_or(|checksum| self.sum().ok().as_ref() == Some(checksum))
            && versions.flatten().all(is_inside)
    }

    /// The sha256 of all values except the checksum.
    fn sum(&self) -> io::Result<String> {
        let content = serde_json::to_vec(&Self { checksum: None, ..self.clone() })?;
        Ok(sha256(&content))
    }

    /// The newest serial that is known to have been installed.
    fn newest(&self) -> u64 {
        let versions = [&self.now, &self.before].into_iter().flat_map(|pair| [&pair.current, &pair.previous]);
        versions.flatten().map(|version| version.serial).chain([self.newest]).max().unwrap_or_default()
    }
}

/// The release that is installed in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledRelease {
    /// The name of the release.
    pub name: String,
    /// The versions that exist.
    pub pair: VersionPair,
}

impl InstalledRelease {
    /// Reads the state of a folder; `None` if nothing is installed.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, to: &HostPath) -> Option<Self> {
        let InstallState { name, now, before, .. } = InstallState::read(host, to)?;
        let target = current(host, to);
        let is_current =
            |pair: &VersionPair| pair.current.as_ref().map(|version| &version.folder) == target.as_ref();
        let pair = if is_current(&now) {
            now
        } else if is_current(&before) {
            before
        } else {
            VersionPair::default()
        };
        let exists = |version: &InstalledVersion| {
            FolderEntry::read(host, &folder(to, &version.folder)).ok()
                == Some(FolderEntry::Is(FileKind::Directory))
        };
        let pair =
            VersionPair { current: pair.current.filter(exists), previous: pair.previous.filter(exists) };
        Some(Self { name, pair })
    }
}

/// The newest serial of a release that was installed in a folder: of its state, or of the names of the versions' folders if the state is
/// missing. Without `name`, the serial of any release.
///
/// # Errors
/// The state is damaged.
pub fn newest_serial(
    host: &dyn ReadFiles,
    to: &HostPath,
    name: Option<&str>,
) -> Result<Option<u64>, InstallError> {
    match ownership::check(host, to) {
        Ok(FolderState::Installation(Some(found))) if name.is_some_and(|name| name != found) => Ok(None),
        Ok(FolderState::Installation(_)) => {
            Ok(InstallState::read(host, to).map(|state| state.newest()).or_else(|| newest_folder(host, to)))
        }
        Err(error @ InstallError::Damaged(_)) => Err(error),
        // The installation reports what else is wrong with the folder.
        Ok(FolderState::Empty) | Err(_) => Ok(None),
    }
}

/// The newest serial in the names of the versions' folders.
fn newest_folder(host: &dyn ReadFiles, to: &HostPath) -> Option<u64> {
    let names = host.list(&to.join(VERSIONS)).unwrap_or_default();
    names.iter().filter_map(|name| version_serial(name)).max()
}

/// The folder of a version.
#[must_use]
pub fn folder(to: &HostPath, name: &str) -> HostPath {
    to.join(VERSIONS).join(name)
}

/// The name of the folder that `current` refers to.
fn current(host: &dyn ReadFiles, to: &HostPath) -> Option<String> {
    let link = to.join(CURRENT);
    let text = match host.platform().os {
        Os::Windows => host.read_text(&link).ok()?,
        Os::Linux | Os::Macos => host.read_link(&link).ok()?,
    };
    text.trim().strip_prefix(VERSIONS)?.strip_prefix('/').map(str::to_owned)
}

/// Makes another version the current one. If the process is killed, either the old or the new version is current.
///
/// # Errors
/// The folder cannot be written. The old version is still current.
pub fn switch(host: &dyn WriteFiles, to: &HostPath, name: &str, now: &VersionPair) -> io::Result<()> {
    let before = InstalledRelease::read(host, to).map(|installed| installed.pair).unwrap_or_default();
    let known = InstallState::read(host, to).map(|state| state.newest());
    let mut state = InstallState {
        schema: SCHEMA.to_owned(),
        name: name.to_owned(),
        now: now.clone(),
        before,
        newest: known.max(newest_folder(host, to)).unwrap_or_default(),
        checksum: None,
    };
    state.newest = state.newest();
    state.checksum = Some(state.sum()?);
    write_json(host, &to.join(FILE), &state)?;
    let Some(version) = &now.current else { return Ok(()) };
    let text = format!("{VERSIONS}/{}", version.folder);
    let link = to.join(CURRENT);
    match host.platform().os {
        // On Windows, creating a symbolic link requires a privilege that few users have.
        Os::Windows => host.write(&link, text.as_bytes()),
        Os::Linux | Os::Macos => {
            let beside = to.join(NEXT);
            remove_link(host, &beside)?;
            host.symlink(&text, &beside)?;
            host.rename(&beside, &link)?;
            // Some file systems cannot flush a folder. They lose the switch in a power failure, but not its order.
            let _ = host.flush(to);
            Ok(())
        }
    }
}

/// The new link, before it is renamed to [`CURRENT`].
pub(super) const NEXT: &str = ".next";
/// The prefix of names that the host gives to temporary files and folders.
const TEMPORARY: &str = ".gpubuild-";
/// The number of random characters after [`TEMPORARY`].
const RANDOM: usize = 6;
/// The prefix of a version that is being removed.
const REMOVED: &str = ".gpubuild-gone-";

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

/// Removes the remains of killed installations, and all versions except the two in `keep`. The caller holds the lock.
///
/// Entries whose name or kind gpubuild does not create there are kept, and links are not followed.
///
/// # Errors
/// A file or folder cannot be removed.
pub fn tidy(host: &dyn WriteFiles, to: &HostPath, keep: &VersionPair) -> io::Result<()> {
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
        [&keep.current, &keep.previous].into_iter().flatten().any(|version| version.folder == name)
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
fn remove_link(host: &dyn WriteFiles, path: &HostPath) -> io::Result<()> {
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
