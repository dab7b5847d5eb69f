//! Detects changed files by size and times, without reading them.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{FileKind, HostPath, ReadFiles, Stat};
use serde::{Deserialize, Serialize};

/// Size and times of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds since 1970; zero if unknown.
    pub modified: u128,
    /// Time of the last change of content or attributes, in nanoseconds since 1970; zero if unknown. Unlike the modification
    /// time, programs cannot set it.
    pub changed: u128,
    /// Whether the file is executable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

impl FileStamp {
    /// Creates the stamp from the file's metadata.
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

/// Stamps of files by absolute path.
pub type FileSnapshot = BTreeMap<String, FileStamp>;

/// Subfolders of a source folder that contain no sources.
const SKIPPED: [&str; 5] = [".git", ".gpubuild", ".venv", "target", "__pycache__"];

/// Files in a source folder that `gpubuild export` writes for editors. No build reads them.
const FOR_EDITORS: [&str; 2] = ["CMakeUserPresets.json", "compile_commands.json"];

/// Maximum depth of paths, which limits cycles of symbolic links.
const DEEPEST: usize = 64;

/// Returns the stamp of one file; `None` if it does not exist.
#[must_use]
pub fn stamp(host: &dyn ReadFiles, path: &HostPath) -> Option<FileStamp> {
    let stat = host.stat(path).ok()?;
    (stat.kind == FileKind::File).then(|| FileStamp::of(&stat))
}

/// Returns the stamps of all listed files that exist.
pub fn snapshot<'a>(host: &dyn ReadFiles, paths: impl IntoIterator<Item = &'a str>) -> FileSnapshot {
    let stamped = paths.into_iter().map(|path| (path.to_owned(), stamp(host, &host.path(path))));
    stamped.filter_map(|(path, stamp)| Some((path, stamp?))).collect_map()
}

/// Returns the stamps of all files below a source folder, except those in `without` and in folders that contain no sources.
///
/// # Errors
/// The first folder that cannot be listed.
pub fn walk(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let mut found = walk_skipping(host, folder, without, &SKIPPED, &mut |_| ())?;
    remove_for_editors(&mut found, folder);
    Ok(found)
}

/// Like [`walk`]. Also returns the paths that have the name of a source or of a script and are not regular files.
///
/// # Errors
/// The first folder that cannot be listed.
pub fn walk_sources(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
) -> Result<(FileSnapshot, Vec<HostPath>), (HostPath, std::io::Error)> {
    let mut special = Vec::new();
    let mut files = walk_skipping(host, folder, without, &SKIPPED, &mut |path| {
        if is_source_name(path.file_name().unwrap_or_default()) {
            special.push(path);
        }
    })?;
    remove_for_editors(&mut files, folder);
    Ok((files, special))
}

fn remove_for_editors(files: &mut FileSnapshot, folder: &HostPath) {
    for name in FOR_EDITORS {
        files.remove(folder.join(name).as_str());
    }
}

/// Whether CMake, a generator or a compiler opens a file with this name. Sockets of databases and editors have other names.
fn is_source_name(name: &str) -> bool {
    const ENDINGS: [&str; 24] = [
        "asm", "c", "cc", "cl", "cmake", "comp", "cpp", "cu", "cuh", "cxx", "def", "glsl", "h", "hip", "hpp",
        "hxx", "in", "inc", "inl", "json", "m", "mm", "py", "s",
    ];
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    name == "CMakeLists.txt" || ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Returns the stamps of all files below a folder that belong in a copy of it, except those in `without`.
///
/// # Errors
/// The first folder that cannot be listed.
pub fn walk_all(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let mut found = walk_skipping(host, folder, without, &[".git", ".gpubuild"], &mut |_| ())?;
    // Cargo and other tools mark cache folders with this file.
    let caches: Vec<String> =
        found.keys().filter_map(|path| path.strip_suffix("CACHEDIR.TAG")).map(str::to_owned).collect();
    found.retain(|path, _| !caches.iter().any(|cache| path.starts_with(cache.as_str())));
    Ok(found)
}

fn walk_skipping(
    host: &dyn ReadFiles,
    folder: &HostPath,
    without: &HostPath,
    skipped: &[&str],
    special: &mut dyn FnMut(HostPath),
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let mut found = FileSnapshot::new();
    let mut pending = vec![folder.clone()];
    while let Some(folder) = pending.pop() {
        for name in host.list(&folder).map_err(|error| (folder.clone(), error))? {
            let path = folder.join(&name);
            if skipped.contains(&name.as_str()) || path == *without {
                continue;
            }
            // Skips dangling links.
            let Ok(stat) = host.stat(&path) else { continue };
            match stat.kind {
                FileKind::File => {
                    found.insert(path.to_string(), FileStamp::of(&stat));
                }
                FileKind::Directory if path.as_str().matches(['/', '\\']).count() < DEEPEST => {
                    pending.push(path);
                }
                FileKind::Directory => {}
                FileKind::Device | FileKind::Other => special(path),
            }
        }
    }
    Ok(found)
}

/// Returns the folders at or below `folder` that contain a file with this name.
#[must_use]
pub fn folders_with(host: &dyn ReadFiles, folder: &HostPath, name: &str) -> Vec<HostPath> {
    let mut found = Vec::new();
    let mut pending = vec![folder.clone()];
    while let Some(folder) = pending.pop() {
        for entry in host.list(&folder).unwrap_or_default() {
            let path = folder.join(&entry);
            if entry == name {
                found.push(folder.clone());
            } else if !entry.contains('.')
                && path.as_str().matches(['/', '\\']).count() < DEEPEST
                && host.is_dir(&path)
            {
                pending.push(path);
            }
        }
    }
    found.sort_indirect();
    found
}

/// Whether all files of a snapshot are unchanged.
#[must_use]
pub fn unchanged(host: &dyn ReadFiles, snapshot: &FileSnapshot) -> bool {
    snapshot.iter().all(|(path, was)| stamp(host, &host.path(path)) == Some(*was))
}
