//! Decides whether a folder may be installed into: only one that gpubuild created, an empty one, or one that does not exist.
//!
//! gpubuild writes [`MARKER`] before anything else, and accepts a `state.json` instead of it, because older versions wrote no
//! marker. Nothing else makes a folder an installation. Links are refused instead of followed, so that no file outside the folder
//! is written or removed; the exception is `current`, which is a link and is only ever replaced.

use std::io::{self, Write as _};

use gpubuild_host::{FileKind, HostPath, Os, ReadFiles, WriteFiles};

use super::InstallError;
use super::state::{self, InstallState};
use super::versions;

/// The file that makes a folder an installation.
pub(super) const MARKER: &str = "gpubuild-install.json";
/// Its content. A process that is killed while it writes the marker leaves the beginning of this text.
const CONTENT: &str = "{\"schema\":\"gpubuild.install-folder/1\"}\n";
/// The lock of an installation.
pub(super) const LOCK: &str = ".lock";

/// A folder that may be installed into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FolderState {
    /// It is empty or does not exist.
    Empty,
    /// gpubuild created it for this release; `None` if the first installation has not finished.
    Installation(Option<String>),
}

/// Checks that a folder may be installed into. Changes nothing.
///
/// # Errors
/// The folder contains something else, cannot be read, or has a link in place of a file or folder that gpubuild creates.
pub(super) fn check(host: &dyn ReadFiles, to: &HostPath) -> Result<FolderState, InstallError> {
    match FolderEntry::read(host, &without_trailing_separator(to))? {
        FolderEntry::Absent => return Ok(FolderState::Empty),
        FolderEntry::Link(target) => return Err(InstallError::Link { path: to.clone(), target }),
        FolderEntry::Is(FileKind::Directory) => {}
        FolderEntry::Is(_) => return Err(foreign(to, "it is not a folder")),
    }
    // List the folder before reading the marker: a concurrent first installation writes the marker before any other file.
    let names = host.list(to).map_err(|error| named_error("list", to, &error))?;
    let is_unlisted = host.has_unlisted(to).map_err(|error| named_error("list", to, &error))?;
    let unlisted = is_unlisted.then_some("a file whose name is not UTF-8");
    let Some(first) = names.first().map(String::as_str).or(unlisted) else { return Ok(FolderState::Empty) };
    let has_marker = marker(host, to)?;
    let state = state(host, to, has_marker)?;
    if !has_marker && state.is_none() {
        return Err(foreign(to, &format!("it contains `{first}`, but no `{MARKER}`")));
    }
    expect(host, to, LOCK, FileKind::File)?;
    expect(host, to, versions::VERSIONS, FileKind::Directory)?;
    match host.platform().os {
        Os::Windows => drop(expect(host, to, state::CURRENT, FileKind::File)?),
        Os::Linux | Os::Macos => {
            expect_link(host, to, state::CURRENT)?;
            expect_link(host, to, versions::NEXT)?;
        }
    }
    let folder = to.join(versions::VERSIONS);
    for name in host.list(&folder).unwrap_or_default().iter().filter(|name| versions::is_version(name)) {
        let path = folder.join(name);
        if let FolderEntry::Link(target) = FolderEntry::read(host, &path)? {
            return Err(InstallError::Link { path, target });
        }
    }
    Ok(FolderState::Installation(state.map(|state| state.name)))
}

/// Writes the marker of a folder that [`check`] has accepted. Another process may do the same at the same time.
pub(super) fn claim(host: &dyn WriteFiles, to: &HostPath) -> io::Result<()> {
    let path = to.join(MARKER);
    if FolderEntry::read(host, &path)? != FolderEntry::Absent {
        return Ok(());
    }
    let mut file = match host.create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        created => created?,
    };
    file.write_all(CONTENT.as_bytes())?;
    file.finish()
}

/// Completes the marker if a killed process has left it unfinished. The caller holds the lock.
pub(super) fn complete(host: &dyn WriteFiles, to: &HostPath) -> io::Result<()> {
    let path = to.join(MARKER);
    if host.read(&path)? == CONTENT.as_bytes() { Ok(()) } else { host.write(&path, CONTENT.as_bytes()) }
}

/// Whether a folder has a marker, complete or unfinished.
fn marker(host: &dyn ReadFiles, to: &HostPath) -> Result<bool, InstallError> {
    if !expect(host, to, MARKER, FileKind::File)? {
        return Ok(false);
    }
    let path = to.join(MARKER);
    let content =
        host.read_start(&path, CONTENT.len() + 1).map_err(|error| named_error("read", &path, &error))?;
    if CONTENT.as_bytes().starts_with(&content) {
        Ok(true)
    } else {
        Err(foreign(to, &format!("`{MARKER}` in it has different content")))
    }
}

/// The state of a folder, if it has one.
fn state(
    host: &dyn ReadFiles,
    to: &HostPath,
    has_marker: bool,
) -> Result<Option<InstallState>, InstallError> {
    if !expect(host, to, state::FILE, FileKind::File)? {
        return Ok(None);
    }
    match InstallState::read(host, to) {
        None if has_marker => Err(InstallError::Damaged(to.join(state::FILE))),
        None => Err(foreign(to, &format!("`{}` in it is not the state of an installation", state::FILE))),
        state => Ok(state),
    }
}

/// Whether an entry of this kind exists. An entry of another kind is an error.
fn expect(host: &dyn ReadFiles, to: &HostPath, name: &str, kind: FileKind) -> Result<bool, InstallError> {
    let path = to.join(name);
    match FolderEntry::read(host, &path)? {
        FolderEntry::Absent => Ok(false),
        FolderEntry::Is(found) if found == kind => Ok(true),
        FolderEntry::Link(target) => Err(InstallError::Link { path, target }),
        FolderEntry::Is(_) => {
            let kind = if kind == FileKind::Directory { "folder" } else { "regular file" };
            Err(foreign(to, &format!("`{name}` in it is not a {kind}")))
        }
    }
}

/// Checks that an entry is a link or does not exist.
fn expect_link(host: &dyn ReadFiles, to: &HostPath, name: &str) -> Result<(), InstallError> {
    match FolderEntry::read(host, &to.join(name))? {
        FolderEntry::Absent | FolderEntry::Link(_) => Ok(()),
        FolderEntry::Is(_) => Err(foreign(to, &format!("`{name}` in it is not a symbolic link"))),
    }
}

/// The entry at a path, without following a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FolderEntry {
    /// There is no entry.
    Absent,
    /// A symbolic link, with its target.
    Link(String),
    /// Another kind of entry.
    Is(FileKind),
}

impl FolderEntry {
    /// Reads the entry at a path.
    pub(super) fn read(host: &dyn ReadFiles, path: &HostPath) -> io::Result<Self> {
        match host.read_link(path) {
            Ok(target) => return Ok(Self::Link(target)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            // The path is a link whose target is not valid Unicode.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Self::Link("?".to_owned()));
            }
            Err(_) => {}
        }
        match host.stat(path) {
            Ok(stat) => Ok(Self::Is(stat.kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) => Err(named_error("access", path, &error)),
        }
    }
}

/// Removes a trailing `/` or `/.`, with which a path names the target of a link instead of the link.
fn without_trailing_separator(path: &HostPath) -> HostPath {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.clone(),
    }
}

fn foreign(folder: &HostPath, found: &str) -> InstallError {
    InstallError::Foreign { folder: folder.clone(), found: found.to_owned() }
}

/// Adds the operation and the path to an error.
fn named_error(doing: &str, path: &HostPath, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to {doing} `{path}`: {error}"))
}
