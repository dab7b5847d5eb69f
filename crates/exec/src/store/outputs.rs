//! Which files of a build folder are its result: what CMake calls artifacts, and what has to lie beside them.

use std::collections::BTreeSet;

use gpubuild_host::{FileKind, HostPath, ReadFiles};
use gpubuild_plan::artifacts::{BuiltTree, LinkItem};
use gpubuild_plan::plan::PlannedTree;

use super::files;
use super::places::Places;
use super::sha256;
use super::table::{StampTable, has_extension};
use crate::cmake::file_api::FileApiReply;

/// A file of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    /// Where it lies.
    pub path: HostPath,
    /// Where it belongs.
    pub belongs: HostPath,
    /// Size in bytes.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
    /// Whether it may be executed.
    pub executable: bool,
    /// Whether it names the folders of this build.
    pub names_place: bool,
}

/// The result of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Files.
    pub files: Vec<StoredOutput>,
    /// Links to them, with what they say.
    pub links: Vec<(HostPath, String)>,
}

/// Folders of a build folder that hold no result.
const PASSED_OVER: [&str; 4] = ["CMakeFiles", ".cmake", "gpubuild", "Testing"];

/// More generated headers than this are no headers.
const MOST_HEADERS: usize = 5000;

/// Everything that a tree made and somebody may use. `None` if that cannot be told.
#[must_use]
pub fn gather(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    reply: &FileApiReply,
    built: &BuiltTree,
    places: &Places,
) -> Option<Outputs> {
    // What a target without artifacts makes is not known.
    let is_unknown = |name: &String| reply.target(name).is_none_or(|target| target.kind == "UTILITY");
    if tree.targets.iter().any(is_unknown) {
        return None;
    }
    let mut paths: BTreeSet<String> = built.files.iter().map(|file| file.path.clone()).collect();
    for item in &built.link {
        if let LinkItem::Static { path } | LinkItem::Shared { path } = item
            && host.path(path).is_inside(&tree.build)
        {
            paths.insert(path.clone());
        }
    }
    let mut links = Vec::new();
    let loaded = built.files.iter().filter(|file| file.kind != "static");
    let folders: BTreeSet<String> =
        loaded.filter_map(|file| host.path(&file.path).parent().map(|folder| folder.to_string())).collect();
    for folder in &folders {
        beside(host, &host.path(folder), &mut paths, &mut links);
    }
    headers(host, &tree.build, &mut paths)?;
    let files: Option<Vec<StoredOutput>> = paths.iter().map(|path| output(host, path, places)).collect();
    Some(Outputs { files: files?, links })
}

/// Files and links in the folder of a program or shared library: modules, data, the other names of the library.
fn beside(
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

/// Headers that the project made: whoever compiles against the result reads them. `None` if they are too many.
fn headers(host: &dyn ReadFiles, build: &HostPath, paths: &mut BTreeSet<String>) -> Option<()> {
    let mut waiting = vec![build.clone()];
    let mut found = 0;
    while let Some(folder) = waiting.pop() {
        for name in host.list(&folder).unwrap_or_default() {
            if PASSED_OVER.contains(&name.as_str()) {
                continue;
            }
            let path = folder.join(&name);
            // A link could lead anywhere, also back.
            if host.read_link(&path).is_ok() {
                continue;
            }
            let Ok(stat) = host.stat(&path) else { continue };
            match stat.kind {
                FileKind::Directory => waiting.push(path),
                FileKind::File if has_extension(&name, &StampTable::embedded().headers) => {
                    found += 1;
                    paths.insert(path.to_string());
                }
                _ => {}
            }
        }
        if found > MOST_HEADERS {
            return None;
        }
    }
    Some(())
}

fn output(host: &dyn ReadFiles, path: &str, places: &Places) -> Option<StoredOutput> {
    read(host, &host.path(path), places)
}

/// A file that belongs where it lies. `None` if it cannot be read.
#[must_use]
pub fn read(host: &dyn ReadFiles, path: &HostPath, places: &Places) -> Option<StoredOutput> {
    let path = path.clone();
    let bytes = host.read(&path).ok()?;
    let executable = files::stamp(host, &path)?.executable;
    Some(StoredOutput {
        bytes: bytes.len() as u64,
        sha256: sha256(&bytes),
        executable,
        names_place: places.are_named_in(&bytes),
        belongs: path.clone(),
        path,
    })
}

/// Whether a result is made for the processor that it was made on: compilers were told so, or the project ran a program.
#[must_use]
pub fn is_for_this_processor(host: &dyn ReadFiles, tree: &PlannedTree, reply: &FileApiReply) -> bool {
    let table = StampTable::embedded();
    let ran = |name: &String| table.ran_entries.iter().any(|end| name.ends_with(end));
    if reply.cache.keys().any(ran) {
        return true;
    }
    // A build file that cannot be read could say anything.
    let Ok(text) = host.read(&tree.build.join("build.ninja")) else { return true };
    table.native_words.iter().any(|word| memchr::memmem::find(&text, word.as_bytes()).is_some())
}
