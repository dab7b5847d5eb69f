//! Whether files are what they were: by size and times, never by content.

use std::collections::BTreeMap;

use gpubuild_host::{FileKind, HostPath, ReadFiles, Stat};
use serde::{Deserialize, Serialize};

/// Size and times of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// In bytes.
    pub size: u64,
    /// In nanoseconds since 1970; zero where it is not known.
    pub modified: u128,
    /// When content or attributes last changed, the same way. Programs cannot set it back, as they can the other.
    pub changed: u128,
    /// Whether it may be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

impl FileStamp {
    /// The stamp in what the system tells of a file.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        Self {
            size: stat.size,
            modified: stat.modified.unwrap_or_default(),
            changed: stat.changed.unwrap_or_default(),
            executable: stat.executable,
        }
    }
}

/// Files by absolute path.
pub type FileSnapshot = BTreeMap<String, FileStamp>;

/// Folders below a source folder in which no sources lie.
const PASSED_OVER: [&str; 5] = [".git", ".gpubuild", ".venv", "target", "__pycache__"];

/// A link may lead back up; nothing real is this deep.
const DEEPEST: usize = 64;

/// The stamp of one file; `None` if there is no such file.
#[must_use]
pub fn stamp(host: &dyn ReadFiles, path: &HostPath) -> Option<FileStamp> {
    let stat = host.stat(path).ok()?;
    (stat.kind == FileKind::File).then(|| FileStamp::of(&stat))
}

/// The stamps of the files of a list that are there.
pub fn snapshot<'a>(host: &dyn ReadFiles, paths: impl IntoIterator<Item = &'a str>) -> FileSnapshot {
    let stamped = paths.into_iter().map(|path| (path.to_owned(), stamp(host, &host.path(path))));
    stamped.filter_map(|(path, stamp)| Some((path, stamp?))).collect()
}

/// All files below a folder, except those in `without` and in folders that hold no sources.
///
/// # Errors
/// The first folder that cannot be listed.
pub fn walk(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    walk_passing(host, folder, without, &PASSED_OVER)
}

/// All files below a folder that a copy of it needs, except those in `without`.
///
/// # Errors
/// The first folder that cannot be listed.
pub fn walk_all(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let mut found = walk_passing(host, folder, without, &[".git", ".gpubuild"])?;
    // What cargo and others mark as a cache is no source.
    let caches: Vec<String> =
        found.keys().filter_map(|path| path.strip_suffix("CACHEDIR.TAG")).map(str::to_owned).collect();
    found.retain(|path, _| !caches.iter().any(|cache| path.starts_with(cache.as_str())));
    Ok(found)
}

fn walk_passing(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
    passed_over: &[&str],
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let mut found = FileSnapshot::new();
    let mut waiting = vec![folder.clone()];
    while let Some(folder) = waiting.pop() {
        for name in host.list(&folder).map_err(|error| (folder.clone(), error))? {
            let path = folder.join(&name);
            if passed_over.contains(&name.as_str()) || path == *without {
                continue;
            }
            // A link that dangles is no file; nothing can depend on it.
            let Ok(stat) = host.stat(&path) else { continue };
            match stat.kind {
                FileKind::File => {
                    found.insert(path.to_string(), FileStamp::of(&stat));
                }
                FileKind::Directory if path.as_str().matches(['/', '\\']).count() < DEEPEST => {
                    waiting.push(path);
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// The folders below one, itself among them, in which a file of this name lies.
#[must_use]
pub fn folders_with(host: &dyn ReadFiles, folder: &HostPath, name: &str) -> Vec<HostPath> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in host.list(&folder).unwrap_or_default() {
            let path = folder.join(&entry);
            if entry == name {
                found.push(folder.clone());
            } else if !entry.contains('.')
                && path.as_str().matches(['/', '\\']).count() < DEEPEST
                && host.is_dir(&path)
            {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Whether every file of a snapshot is what it was.
#[must_use]
pub fn unchanged(host: &dyn ReadFiles, snapshot: &FileSnapshot) -> bool {
    snapshot.iter().all(|(path, was)| stamp(host, &host.path(path)) == Some(*was))
}
