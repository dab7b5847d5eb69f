//! What is installed in a folder: `state.json` beside `versions/` and `current`.
//!
//! The link `current` decides which version is installed. The state is written right before the link is moved, and contains both
//! what applies before the move and what applies after it. After a kill behind either of the two renames,
//! [`InstalledRelease::read`] returns a version that is complete.

use std::io;

use gpubuild_core::backend::Backend;
use gpubuild_exec::store::{read_json, write_json};
use gpubuild_host::{FileKind, HostPath, Os, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::ownership::OwnedEntry;
use crate::manifest::{is_inner_path, is_label, is_plain_name};

/// The form of [`InstallState`].
pub const SCHEMA: &str = "gpubuild.installed/1";
/// The file with the [`InstallState`].
pub(super) const FILE: &str = "state.json";
/// The folder that contains all versions.
pub const VERSIONS: &str = "versions";
/// The link to the version in use.
pub const CURRENT: &str = "current";

/// How a version was proved to work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// Its own check has used the backend and ended well.
    Checked,
    /// It was started and ended well; it has no check of backends.
    Started,
    /// It was not started.
    #[default]
    NotStarted,
}

/// A version in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledVersion {
    /// Its folder below `versions/`.
    pub folder: String,
    /// Version of the release.
    pub version: String,
    /// Serial of the manifest.
    pub serial: u64,
    /// The variant.
    pub label: String,
    /// The backend that it was chosen for.
    pub backend: Backend,
    /// Its program below its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Arguments of its check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
    /// How it was proved.
    pub proof: Proof,
}

/// Two versions of a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPair {
    /// The one in use.
    pub current: Option<InstalledVersion>,
    /// The one before it, for going back.
    pub previous: Option<InstalledVersion>,
}

/// `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstallState {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of what is installed.
    pub name: String,
    /// What counts once `current` was moved.
    pub now: LinkPair,
    /// What counts until then.
    pub before: LinkPair,
}

impl InstallState {
    /// Reads the state of a folder; `None` where it is missing or not one that gpubuild can have written.
    pub(super) fn read(host: &dyn ReadFiles, to: &HostPath) -> Option<Self> {
        read_json(host, &to.join(FILE)).filter(Self::is_valid)
    }

    /// Its folders and programs are used as paths: none may lead out of `versions/`.
    fn is_valid(&self) -> bool {
        let versions = [&self.now, &self.before].into_iter().flat_map(|pair| [&pair.current, &pair.previous]);
        let is_inside = |version: &InstalledVersion| {
            is_version(&version.folder) && version.program.as_deref().is_none_or(is_inner_path)
        };
        self.schema == SCHEMA && versions.flatten().all(is_inside)
    }
}

/// What is installed in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledRelease {
    /// Name of what is installed.
    pub name: String,
    /// What counts.
    pub pair: LinkPair,
}

impl InstalledRelease {
    /// Reads the state of a folder; `None` where nothing is installed.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, to: &HostPath) -> Option<Self> {
        let InstallState { name, now, before, .. } = InstallState::read(host, to)?;
        let leads_to = current(host, to);
        let is = |pair: &LinkPair| pair.current.as_ref().map(|version| &version.folder) == leads_to.as_ref();
        let pair = if is(&now) {
            now
        } else if is(&before) {
            before
        } else {
            LinkPair::default()
        };
        let there = |version: &InstalledVersion| {
            OwnedEntry::read(host, &folder(to, &version.folder)).ok()
                == Some(OwnedEntry::Is(FileKind::Directory))
        };
        let pair = LinkPair { current: pair.current.filter(there), previous: pair.previous.filter(there) };
        Some(Self { name, pair })
    }
}

/// The folder of a version.
#[must_use]
pub fn folder(to: &HostPath, name: &str) -> HostPath {
    to.join(VERSIONS).join(name)
}

/// The name of the folder that `current` leads to.
fn current(host: &dyn ReadFiles, to: &HostPath) -> Option<String> {
    let link = to.join(CURRENT);
    let text = match host.platform().os {
        Os::Windows => host.read_text(&link).ok()?,
        Os::Linux | Os::Macos => host.read_link(&link).ok()?,
    };
    text.trim().strip_prefix(VERSIONS)?.strip_prefix('/').map(str::to_owned)
}

/// Makes another version the current one. A kill leaves the one before, or this one.
///
/// # Errors
/// The folder can't be written; then the one before is still current.
pub fn switch(host: &dyn WriteFiles, to: &HostPath, name: &str, now: &LinkPair) -> io::Result<()> {
    let before = InstalledRelease::read(host, to).map(|installed| installed.pair).unwrap_or_default();
    let state = InstallState { schema: SCHEMA.to_owned(), name: name.to_owned(), now: now.clone(), before };
    write_json(host, &to.join(FILE), &state)?;
    let Some(version) = &now.current else { return Ok(()) };
    let text = format!("{VERSIONS}/{}", version.folder);
    let link = to.join(CURRENT);
    match host.platform().os {
        // Links need a right there that few users have.
        Os::Windows => host.write(&link, text.as_bytes()),
        Os::Linux | Os::Macos => {
            let beside = to.join(NEXT);
            remove_link(host, &beside)?;
            host.symlink(&text, &beside)?;
            host.rename(&beside, &link)
        }
    }
}

/// The new link, before it is renamed to [`CURRENT`].
pub(super) const NEXT: &str = ".next";
/// The prefix of names that the host gives to temporary files and folders.
const TEMPORARY: &str = ".gpubuild-";
/// The number of random characters behind [`TEMPORARY`].
const RANDOM: usize = 6;
/// The prefix of a version that is being removed.
const GONE: &str = ".gpubuild-gone-";

/// Whether a name has the form of a temporary file or folder: `.gpubuild-Ab3xY9`.
fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY).is_some_and(|random| {
        random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether a name has the form of a version's folder: VERSION-SERIAL-LABEL-HASH. Only the version may have a `-` in it.
pub(super) fn is_version(name: &str) -> bool {
    let mut parts = name.rsplitn(4, '-');
    let (Some(hash), Some(label), Some(serial), Some(version)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    hash.len() == 8
        && hash.bytes().all(is_hex)
        && is_label(label)
        && serial.parse::<u64>().is_ok_and(|number| number.to_string() == serial)
        && is_plain_name(version)
}

/// Removes what a killed installation has left, and versions that are neither of the two. The lock is held.
///
/// Entries whose name or kind gpubuild does not create there are kept, and links are not followed.
///
/// # Errors
/// Something can't be removed.
pub fn tidy(host: &dyn WriteFiles, to: &HostPath, keep: &LinkPair) -> io::Result<()> {
    remove_link(host, &to.join(NEXT))?;
    for name in host.list(to).unwrap_or_default().iter().filter(|name| is_temporary(name)) {
        let path = to.join(name);
        if OwnedEntry::read(host, &path)? == OwnedEntry::Is(FileKind::File) {
            host.remove(&path)?;
        }
    }
    let versions = to.join(VERSIONS);
    if OwnedEntry::read(host, &versions)? != OwnedEntry::Is(FileKind::Directory) {
        return Ok(());
    }
    let is_kept = |name: &str| {
        [&keep.current, &keep.previous].into_iter().flatten().any(|version| version.folder == name)
    };
    for name in host.list(&versions).unwrap_or_default() {
        let path = versions.join(&name);
        if OwnedEntry::read(host, &path)? != OwnedEntry::Is(FileKind::Directory) {
            continue;
        }
        if is_temporary(&name) || name.strip_prefix(GONE).is_some_and(is_version) {
            host.remove(&path)?;
        } else if is_version(&name) && !is_kept(&name) {
            remove_version(host, &versions, &name)?;
        }
    }
    Ok(())
}

/// Removes a link; anything else of that name is kept.
fn remove_link(host: &dyn WriteFiles, path: &HostPath) -> io::Result<()> {
    match OwnedEntry::read(host, path)? {
        OwnedEntry::Link(_) => host.remove(path),
        OwnedEntry::Absent | OwnedEntry::Is(_) => Ok(()),
    }
}

/// Renames the folder of a version before it removes its files, so that a kill never leaves an incomplete version.
fn remove_version(host: &dyn WriteFiles, versions: &HostPath, name: &str) -> io::Result<()> {
    let doomed = versions.join(&format!("{GONE}{name}"));
    host.remove(&doomed)?;
    host.rename(&versions.join(name), &doomed)?;
    host.remove(&doomed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_full_form_of_a_name_is_recognized() {
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
