//! What is installed in a folder: `state.json` beside `versions/` and `current`.
//!
//! The link `current` is what counts; the state is written right before it is moved, with what it said until then. Whichever of the
//! two renames a kill comes behind, [`Installed::read`] tells one version that is there as a whole.

use std::io;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::host::{Host, HostPath, Os};
use crate::store::{read_json, write_json};

/// The form of [`State`].
pub const SCHEMA: &str = "gpubuild.installed/1";
/// The file.
const FILE: &str = "state.json";
/// The folder of all versions.
pub const VERSIONS: &str = "versions";
/// What leads to the one that is used.
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
pub struct Version {
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
pub struct Pair {
    /// The one in use.
    pub current: Option<Version>,
    /// The one before it, for going back.
    pub previous: Option<Version>,
}

/// `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of what is installed.
    pub name: String,
    /// What counts once `current` was moved.
    pub now: Pair,
    /// What counts until then.
    pub before: Pair,
}

/// What is installed in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Name of what is installed.
    pub name: String,
    /// What counts.
    pub pair: Pair,
}

impl Installed {
    /// Reads a folder; `None` where nothing is installed.
    #[must_use]
    pub fn read(host: &dyn Host, to: &HostPath) -> Option<Self> {
        let state: State = read_json(host, &to.join(FILE)).filter(|state: &State| state.schema == SCHEMA)?;
        let leads_to = current(host, to);
        let is = |pair: &Pair| pair.current.as_ref().map(|version| &version.folder) == leads_to.as_ref();
        let State { name, now, before, .. } = state;
        let pair = if is(&now) {
            now
        } else if is(&before) {
            before
        } else {
            Pair::default()
        };
        let there = |version: &Version| host.is_dir(&folder(to, &version.folder));
        let pair = Pair { current: pair.current.filter(there), previous: pair.previous.filter(there) };
        Some(Self { name, pair })
    }
}

/// The folder of a version.
#[must_use]
pub fn folder(to: &HostPath, name: &str) -> HostPath {
    to.join(VERSIONS).join(name)
}

/// The name of the folder that `current` leads to.
fn current(host: &dyn Host, to: &HostPath) -> Option<String> {
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
pub fn switch(host: &dyn Host, to: &HostPath, name: &str, now: &Pair) -> io::Result<()> {
    let before = Installed::read(host, to).map(|installed| installed.pair).unwrap_or_default();
    let state = State { schema: SCHEMA.to_owned(), name: name.to_owned(), now: now.clone(), before };
    write_json(host, &to.join(FILE), &state)?;
    let Some(version) = &now.current else { return Ok(()) };
    let text = format!("{VERSIONS}/{}", version.folder);
    let link = to.join(CURRENT);
    match host.platform().os {
        // Links need a right there that few users have.
        Os::Windows => host.write(&link, text.as_bytes()),
        Os::Linux | Os::Macos => {
            let beside = to.join(NEXT);
            host.remove(&beside)?;
            host.symlink(&text, &beside)?;
            host.rename(&beside, &link)
        }
    }
}

/// The link before it takes the name of the one that is there.
const NEXT: &str = ".next";
/// How names of folders begin that are not whole yet.
const HALF: &str = ".gpubuild-";

/// Whether a name is of what was not whole yet.
#[must_use]
pub fn is_half(name: &str) -> bool {
    name.starts_with(HALF)
}

/// Removes what an installation that was killed has left, and versions that neither of the two is. The lock is held.
///
/// # Errors
/// Something can't be removed.
pub fn tidy(host: &dyn Host, to: &HostPath, keep: &Pair) -> io::Result<()> {
    host.remove(&to.join(NEXT))?;
    for name in host.list(to).unwrap_or_default().iter().filter(|name| is_half(name)) {
        host.remove(&to.join(name))?;
    }
    let versions = to.join(VERSIONS);
    let kept: Vec<&str> = [&keep.current, &keep.previous]
        .into_iter()
        .flatten()
        .map(|version| version.folder.as_str())
        .collect();
    for name in host.list(&versions).unwrap_or_default() {
        if !kept.contains(&name.as_str()) {
            remove_whole(host, &versions, &name)?;
        }
    }
    Ok(())
}

/// A folder of a version is either there as a whole or not at all: it loses its name before it loses its files.
fn remove_whole(host: &dyn Host, versions: &HostPath, name: &str) -> io::Result<()> {
    let path = versions.join(name);
    if is_half(name) {
        return host.remove(&path);
    }
    let doomed = versions.join(&format!("{HALF}gone-{name}"));
    host.remove(&doomed)?;
    host.rename(&path, &doomed)?;
    host.remove(&doomed)
}
