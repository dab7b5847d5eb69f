//! Detects changed files by size and times, without reading them.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::links::LinkTrail;
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

/// Subfolders of a source folder that a copy of it does not need.
const NOT_COPIED: [&str; 2] = [".git", ".gpubuild"];

/// Files in a source folder that `gpubuild export` writes for editors. No build reads them.
const FOR_EDITORS: [&str; 2] = ["CMakeUserPresets.json", "compile_commands.json"];

/// Maximum depth of paths.
const DEEPEST: usize = 64;

/// The most files and folders below a source folder, counting those behind links.
pub const MOST_FILES: usize = 300_000;

/// A source folder has more than [`MOST_FILES`] files and folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it contains more than {MOST_FILES} files and folders, counting those behind symbolic links")]
pub struct TooManyFiles;

impl TooManyFiles {
    /// Whether a walk failed with this error.
    #[must_use]
    pub fn is(error: &std::io::Error) -> bool {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).is_some()
    }
}

/// Which links to files and folders a walk follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    All,
    /// Those whose target is in the walked folder.
    Inside,
}

/// What a walk leaves out, and when it is given up.
struct WalkRules<'a> {
    /// Names of files and folders.
    skipped: &'a [&'a str],
    /// A path.
    without: &'a HostPath,
    followed: Followed,
    most: usize,
}

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
    let mut found = walk_skipping(host, folder, &sources_without(without), &mut |_| ())?;
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
    let mut files = walk_skipping(host, folder, &sources_without(without), &mut |path| {
        if is_source_name(path.file_name().unwrap_or_default()) {
            special.push(path);
        }
    })?;
    remove_for_editors(&mut files, folder);
    Ok((files, special))
}

fn sources_without(without: &HostPath) -> WalkRules<'_> {
    WalkRules { skipped: &SKIPPED, without, followed: Followed::All, most: MOST_FILES }
}

fn remove_for_editors(files: &mut FileSnapshot, folder: &HostPath) {
    for name in FOR_EDITORS {
        files.remove(folder.join(name).as_str());
    }
}

/// Whether CMake, a generator or a compiler opens a file with this name. Sockets of databases and editors have other names.
pub(super) fn is_source_name(name: &str) -> bool {
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
    let rules = WalkRules { skipped: &NOT_COPIED, without, followed: Followed::All, most: MOST_FILES };
    let found = walk_skipping(host, folder, &rules, &mut |_| ())?;
    Ok(without_caches(found))
}

/// Like [`walk_all`], for sources of others: files behind links that lead out of the folder are left out.
///
/// # Errors
/// The first folder that cannot be listed.
pub fn walk_inside(
    host: &dyn ReadFiles,
    folder: &HostPath,
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let nothing = folder.join(".nothing-left-out");
    let rules =
        WalkRules { skipped: &NOT_COPIED, without: &nothing, followed: Followed::Inside, most: MOST_FILES };
    let found = walk_skipping(host, folder, &rules, &mut |_| ())?;
    Ok(without_caches(found))
}

fn without_caches(mut found: FileSnapshot) -> FileSnapshot {
    // Cargo and other tools mark cache folders with this file.
    let caches: Vec<String> =
        found.keys().filter_map(|path| path.strip_suffix("CACHEDIR.TAG")).map(str::to_owned).collect();
    found.retain(|path, _| !caches.iter().any(|cache| path.starts_with(cache.as_str())));
    found
}

fn walk_skipping(
    host: &dyn ReadFiles,
    folder: &HostPath,
    rules: &WalkRules<'_>,
    special: &mut dyn FnMut(HostPath),
) -> Result<FileSnapshot, (HostPath, std::io::Error)> {
    let mut found = FileSnapshot::new();
    let mut entries = 0_usize;
    let root = host.canonical(folder).unwrap_or_else(|_| folder.clone());
    let mut pending = vec![(folder.clone(), LinkTrail::default())];
    while let Some((parent, trail)) = pending.pop() {
        let names = host.list(&parent).map_err(|error| (parent.clone(), error))?;
        entries += names.len();
        if entries > rules.most {
            return Err((folder.clone(), std::io::Error::other(TooManyFiles)));
        }
        for name in names {
            let path = parent.join(&name);
            if rules.skipped.contains(&name.as_str()) || path == *rules.without {
                continue;
            }
            // Skips dangling links.
            let Ok(stat) = host.stat(&path) else { continue };
            if rules.followed == Followed::Inside && leads_out(host, &path, &root) {
                continue;
            }
            match stat.kind {
                FileKind::File => {
                    found.insert(path.to_string(), FileStamp::of(&stat));
                }
                FileKind::Directory if path.as_str().matches(['/', '\\']).count() < DEEPEST => {
                    if let Some(inside) = trail.enter(host, &path) {
                        entries += inside.weight_since(&trail);
                        pending.push((path, inside));
                    }
                }
                FileKind::Directory => {}
                FileKind::Device | FileKind::Other => special(path),
            }
        }
    }
    Ok(found)
}

/// Whether a path is a link whose target is not in a folder.
fn leads_out(host: &dyn ReadFiles, path: &HostPath, folder: &HostPath) -> bool {
    host.read_link(path).is_ok() && !host.canonical(path).is_ok_and(|target| target.is_inside(folder))
}

/// Returns the folders at or below `folder` that contain a file with this name. Links are not followed.
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
                && host.read_link(&path).is_err()
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use gpubuild_host::{HostInfo as _, RealHost, WriteFiles as _};

    struct Sources {
        _folder: tempfile::TempDir,
        host: RealHost,
        root: HostPath,
    }

    /// Creates a folder with `x/a.c`, a file beside it, and links.
    fn sources(links: &[(&str, &str)]) -> Sources {
        let folder = tempfile::tempdir().unwrap();
        let host = RealHost::new();
        let outer = host.canonical(&host.path(folder.path().to_str().unwrap())).unwrap();
        let root = outer.join("sources");
        host.write(&root.join("x/a.c"), b"").unwrap();
        host.write(&outer.join("outside/secret.c"), b"").unwrap();
        for (path, target) in links {
            host.create_dir_all(&root.join(path).parent().unwrap()).unwrap();
            host.symlink(target, &root.join(path)).unwrap();
        }
        Sources { _folder: folder, host, root }
    }

    fn names(sources: &Sources, found: &FileSnapshot) -> Vec<String> {
        let start = sources.root.as_str().len() + 1;
        found.keys().map(|path| path[start..].to_owned()).collect()
    }

    fn walk_all_of(sources: &Sources) -> FileSnapshot {
        walk(&sources.host, &sources.root, &sources.root.join("none")).unwrap()
    }

    #[test]
    fn each_target_of_a_link_is_entered_once_on_every_way() {
        let two = sources(&[("x/same", "."), ("x/again", ".")]);
        assert_eq!(names(&two, &walk_all_of(&two)), ["x/a.c", "x/again/a.c", "x/same/a.c"]);
        let crossed = sources(&[("x/y1", "../y"), ("x/y2", "../y"), ("y/x1", "../x"), ("y/x2", "../x")]);
        let found = names(&crossed, &walk_all_of(&crossed));
        assert!(found.contains(&"y/x1/a.c".to_owned()) && found.len() < 40, "{found:?}");
        let above = sources(&[("x/above", "../..")]);
        let found = names(&above, &walk_all_of(&above));
        assert_eq!(found, ["x/a.c", "x/above/outside/secret.c", "x/above/sources/x/a.c"]);
    }

    #[test]
    fn folder_with_too_many_files_behind_links_is_refused() {
        let chain: Vec<(String, String)> = (0..12)
            .flat_map(|step| ["l", "r"].map(|side| (format!("d{step}/{side}"), format!("../d{}", step + 1))))
            .collect();
        let links: Vec<(&str, &str)> =
            chain.iter().map(|(path, target)| (path.as_str(), target.as_str())).collect();
        let sources = sources(&links);
        let none = sources.root.join("none");
        let rules = WalkRules { skipped: &SKIPPED, without: &none, followed: Followed::All, most: 1000 };
        let (path, error) = walk_skipping(&sources.host, &sources.root, &rules, &mut |_| ()).unwrap_err();
        assert_eq!(path, sources.root);
        assert!(TooManyFiles::is(&error), "{error}");
    }

    #[test]
    fn copies_of_downloaded_sources_have_no_files_from_outside() {
        let links =
            [("out.c", "../outside/secret.c"), ("folder", "../outside"), ("in.c", "x/a.c"), ("in", "x")];
        let sources = sources(&links);
        let found = walk_inside(&sources.host, &sources.root).unwrap();
        assert_eq!(names(&sources, &found), ["in.c", "in/a.c", "x/a.c"]);
    }
}
