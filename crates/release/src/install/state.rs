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
use super::versions::{self, NEXT, VERSIONS, is_version, remove_link};
use crate::manifest::is_inner_path;

/// The schema id of [`InstallState`].
pub const SCHEMA: &str = "gpubuild.installed/1";
/// The file with the [`InstallState`].
pub(super) const FILE: &str = "state.json";
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
        let is_inside = |version: &InstalledVersion| {
            is_version(&version.folder) && version.program.as_deref().is_none_or(is_inner_path)
        };
        self.schema == SCHEMA
            && self.checksum.as_ref().is_none_or(|checksum| self.sum().ok().as_ref() == Some(checksum))
            && self.versions().all(is_inside)
    }

    fn versions(&self) -> impl Iterator<Item = &InstalledVersion> {
        [&self.now, &self.before].into_iter().flat_map(|pair| [&pair.current, &pair.previous]).flatten()
    }

    /// The sha256 of all values except the checksum.
    fn sum(&self) -> io::Result<String> {
        let content = serde_json::to_vec(&Self { checksum: None, ..self.clone() })?;
        Ok(sha256(&content))
    }

    /// The newest serial that is known to have been installed.
    fn newest(&self) -> u64 {
        self.versions().map(|version| version.serial).max().unwrap_or_default().max(self.newest)
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
            FolderEntry::read(host, &versions::folder(to, &version.folder)).ok()
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
        Ok(FolderState::Installation(_)) => Ok(InstallState::read(host, to)
            .map(|state| state.newest())
            .or_else(|| versions::newest_serial(host, to))),
        Err(error @ InstallError::Damaged(_)) => Err(error),
        // The installation reports what else is wrong with the folder.
        Ok(FolderState::Empty) | Err(_) => Ok(None),
    }
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

/// Makes another version the current one. If the process is killed, either the old or the new version is current. `newest` is the newest
/// serial that is known otherwise.
///
/// # Errors
/// The folder cannot be written. The old version is still current.
pub fn switch(
    host: &dyn WriteFiles,
    to: &HostPath,
    (name, newest): (&str, u64),
    now: &VersionPair,
) -> io::Result<()> {
    let before = InstalledRelease::read(host, to).map(|installed| installed.pair).unwrap_or_default();
    let known = InstallState::read(host, to).map(|state| state.newest());
    let mut state = InstallState {
        schema: SCHEMA.to_owned(),
        name: name.to_owned(),
        now: now.clone(),
        before,
        newest: known.max(versions::newest_serial(host, to)).unwrap_or_default().max(newest),
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
