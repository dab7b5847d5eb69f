//! Selects the files of a build folder that belong to its result: CMake's artifacts, files next to programs and shared
//! libraries, and generated headers.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{FileKind, HostPath, LIBRARY_LIMIT, ReadFiles};
use gpubuild_plan::artifacts::{BuiltTree, LinkItem};
use gpubuild_plan::plan::PlannedTree;

use super::files;
use super::hash_file;
use super::roots::TreeRoots;
use super::table::{StampTable, has_extension};
use crate::cmake::file_api::FileApiReply;

/// A file that belongs to a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    /// Current path.
    pub path: HostPath,
    /// Path that the file is restored to.
    pub destination: HostPath,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 hash.
    pub sha256: String,
    /// Whether the file is executable.
    pub executable: bool,
    /// Whether the file contains the path of the source or build folder.
    pub contains_paths: bool,
}

/// The result of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs {
    /// The files.
    pub files: Vec<StoredOutput>,
    /// Symbolic links to them: path and target.
    pub links: Vec<(HostPath, String)>,
}

/// Subfolders of a build folder that contain no results.
const SKIPPED: [&str; 4] = ["CMakeFiles", ".cmake", "gpubuild", "Testing"];

/// Maximum number of generated headers, and of files below a program. With more of them the result is not stored.
const MOST_FILES: usize = 5000;

/// Collects the files of a tree's result. `None` if they cannot be determined.
#[must_use]
pub fn gather(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    reply: &FileApiReply,
    built: &BuiltTree,
    roots: &TreeRoots,
) -> Option<Outputs> {
    // The outputs of targets without artifacts are unknown.
    let is_unknown = |name: &String| reply.target(name).is_none_or(|target| target.kind == "UTILITY");
    if tree.targets.iter().any(is_unknown) {
        return None;
    }
    let mut paths: BTreeSet<String> = built.files.iter().map(|file| file.path.clone()).collect_set();
    for item in &built.link {
        if let LinkItem::Static { path } | LinkItem::Shared { path } = item
            && host.path(path).is_inside(&tree.build)
        {
            paths.insert(path.clone());
        }
    }
    let mut links = Vec::new();
    let loaded = built.files.iter().filter(|file| file.kind != "static");
    let folders: BTreeSet<String> = loaded
        .filter_map(|file| host.path(&file.path).parent().map(|folder| folder.to_string()))
        .collect_set();
    for folder in &folders {
        add_siblings(host, &host.path(folder), &mut paths, &mut links);
    }
    let programs = built.files.iter().filter(|file| file.kind == "executable");
    for folder in programs.filter_map(|file| host.path(&file.path).parent()) {
        add_files(host, &folder, &is_data, &mut paths)?;
    }
    let is_header = |name: &str| has_extension(name, &StampTable::embedded().headers);
    add_files(host, &tree.build, &is_header, &mut paths)?;
    let files: Option<Vec<StoredOutput>> = paths.iter().map(|path| output(host, path, roots)).collect();
    Some(Outputs { files: files?, links })
}

/// Adds files and links in the folder of a program or shared library: modules, data, and other names of the library.
fn add_siblings(
    host: &dyn ReadFiles,
    folder: &HostPath,
    paths: &mut BTreeSet<String>,
    links: &mut Vec<(HostPath, String)>,
) {
    for name in host.list(folder).unwrap_or_default() {
        let path = folder.join(&name);
        if let Ok(text) = host.read_link(&path) {
            if !host.path(&text).is_absolute() && host.is_file(&path) {
                links.push((path, text));
            }
            continue;
        }
        let hidden = name.starts_with('.') || has_extension(&name, &StampTable::embedded().intermediate);
        if !hidden && host.is_file(&path) {
            paths.insert(path.to_string());
        }
    }
}

/// Whether a file below the folder of a program may be data that it reads, such as a shader: it is not from CMake, Ninja or a compiler.
fn is_data(name: &str) -> bool {
    let table = StampTable::embedded();
    !name.starts_with('.')
        && !table.from_tools.iter().any(|known| known == name)
        && !has_extension(name, &table.objects)
}

/// Adds the files below a folder whose names are wanted: generated headers, which dependents of the result may include, and data of
/// programs. `None` if there are too many.
fn add_files(
    host: &dyn ReadFiles,
    top: &HostPath,
    is_wanted: &dyn Fn(&str) -> bool,
    paths: &mut BTreeSet<String>,
) -> Option<()> {
    let mut pending = vec![top.clone()];
    let mut found = 0;
    while let Some(folder) = pending.pop() {
        for name in host.list(&folder).unwrap_or_default() {
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = folder.join(&name);
            // Links are skipped because they may form cycles.
            if host.read_link(&path).is_ok() {
                continue;
            }
            let Ok(stat) = host.stat(&path) else { continue };
            match stat.kind {
                FileKind::Directory => pending.push(path),
                FileKind::File if is_wanted(&name) => {
                    found += 1;
                    paths.insert(path.to_string());
                }
                _ => {}
            }
        }
        if found > MOST_FILES {
            return None;
        }
    }
    Some(())
}

fn output(host: &dyn ReadFiles, path: &str, roots: &TreeRoots) -> Option<StoredOutput> {
    read(host, &host.path(path), roots)
}

/// Reads a file whose destination is its current path. `None` if it cannot be read.
#[must_use]
pub fn read(host: &dyn ReadFiles, path: &HostPath, roots: &TreeRoots) -> Option<StoredOutput> {
    let path = path.clone();
    let (sha256, bytes) = hash_file(host, &path).ok()?;
    let executable = files::stamp(host, &path)?.executable;
    Some(StoredOutput {
        bytes,
        sha256,
        executable,
        contains_paths: roots.occur_in(host, &path).ok()?,
        destination: path.clone(),
        path,
    })
}

/// Whether a result is specific to this machine's processor, because of compiler flags such as `-march=native` or because
/// CMake ran a test program.
#[must_use]
pub fn is_for_this_processor(host: &dyn ReadFiles, tree: &PlannedTree, reply: &FileApiReply) -> bool {
    let table = StampTable::embedded();
    let ran = |name: &String| table.ran_entries.iter().any(|end| name.ends_with(end));
    if reply.cache.keys().any(ran) {
        return true;
    }
    // An unreadable build file may contain such flags.
    let Ok(text) = host.read_up_to(&tree.build.join("build.ninja"), LIBRARY_LIMIT) else { return true };
    table.native_words.iter().any(|word| memchr::memmem::find(&text, word.as_bytes()).is_some())
}
