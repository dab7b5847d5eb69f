//! TreeRoots the shared libraries and modules of a build next to a program, under the names that the loader looks for.

use std::collections::BTreeSet;
use std::io;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::artifacts::{Artifact, Manifest, PlacedLibrary};
use serde::{Deserialize, Serialize};

/// Folder in a build root with all shared libraries and modules, in the same layout as next to a program.
pub const FOLDER: &str = "runtime";

/// Names of the files that gpubuild placed in a folder.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StageRecord {
    names: BTreeSet<String>,
}

/// The folder with all libraries that programs of this build root load at run time.
#[must_use]
pub fn runtime_folder(root: &HostPath) -> HostPath {
    root.join(FOLDER)
}

/// The libraries that a program of a manifest loads at run time; empty if all are static.
#[must_use]
pub fn needed(host: &dyn ReadFiles, manifest: &Manifest) -> Vec<PlacedLibrary> {
    let mut placed = Vec::new();
    for tree in &manifest.trees {
        for file in &tree.files {
            let Some(name) = loaded_name(host, file) else { continue };
            let name = tree.folder.as_ref().map_or(name.clone(), |folder| format!("{folder}/{name}"));
            placed.push(PlacedLibrary { from: file.path.clone(), name });
        }
    }
    placed
}

/// The name under which a file is loaded at run time; `None` if it is used only for linking.
#[must_use]
pub fn loaded_name(host: &dyn ReadFiles, file: &Artifact) -> Option<String> {
    let own = file.path.rsplit(['/', '\\']).next()?.to_owned();
    match file.kind.as_str() {
        "module" => Some(own),
        "shared" if is_import_library(&own) => None,
        // The loader looks for the library's soname, such as `libllama.so.0`.
        "shared" => {
            let arch = host.platform().arch;
            let inner = gpubuild_object::read(host, &host.path(&file.path), arch)
                .ok()
                .and_then(|library| library.name);
            let inner = inner.and_then(|name| name.rsplit('/').next().map(str::to_owned));
            Some(inner.unwrap_or(own))
        }
        _ => None,
    }
}

/// Whether a file is the import library of a shared one.
pub(super) fn is_import_library(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    [".lib", ".dll.a"].iter().any(|end| lower.ends_with(end))
}

/// TreeRoots everything that a program loads at run time in a folder, by hard link or copy. Removes files of earlier calls that
/// are no longer needed, because programs would open obsolete modules.
///
/// # Errors
/// A file cannot be read, linked, copied or removed.
pub fn place(host: &dyn WriteFiles, manifest: &Manifest, folder: &HostPath) -> io::Result<()> {
    let placed = needed(host, manifest);
    let record_path = folder.join(&format!(".gpubuild-{}.json", manifest.project));
    let before: StageRecord = crate::store::read_json(host, &record_path).unwrap_or_default();
    if placed.is_empty() && before.names.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<String> = placed.iter().map(|file| file.name.clone()).collect_set();
    for name in before.names.difference(&names) {
        host.remove(&folder.join(name))?;
    }
    for file in &placed {
        // A hard link to a relative symbolic link would dangle in the new folder.
        let (from, to) = (host.canonical(&host.path(&file.from))?, folder.join(&file.name));
        if !is_up_to_date(host, &from, &to) {
            host.remove(&to)?;
            host.link(&from, &to)?;
        }
    }
    if before.names != names {
        crate::store::write_json(host, &record_path, &StageRecord { names })?;
    }
    Ok(())
}

/// Whether a placed file is up to date: a hard link to the artifact, or a copy with the same content if the two are on
/// different disks.
fn is_up_to_date(host: &dyn ReadFiles, from: &HostPath, to: &HostPath) -> bool {
    let (Ok(source), Ok(placed)) = (host.stat(from), host.stat(to)) else { return false };
    let same_content = || matches!((host.read(from), host.read(to)), (Ok(from), Ok(to)) if from == to);
    host.is_same_file(from, to) || (source.size == placed.size && same_content())
}

/// The folders to which cargo writes the programs and tests of a package, derived from the `OUT_DIR` of its build script.
#[must_use]
pub fn cargo_folders(out_dir: &HostPath) -> Vec<HostPath> {
    // <target>/<profile>/build/<package>-<hash>/out
    let Some(build) = out_dir.parent().and_then(|package| package.parent()) else { return Vec::new() };
    match (build.file_name(), build.parent()) {
        (Some("build"), Some(profile)) => vec![profile.join("deps"), profile.join("examples"), profile],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::PathRules;

    #[test]
    fn cargo_writes_programs_to_three_folders() {
        let out = HostPath::new(PathRules::Unix, "/p/target/debug/build/x-0123/out");
        let folders: Vec<String> = cargo_folders(&out).iter().map(ToString::to_string).collect();
        assert_eq!(folders, ["/p/target/debug/deps", "/p/target/debug/examples", "/p/target/debug"]);
        assert!(cargo_folders(&HostPath::new(PathRules::Unix, "/elsewhere")).is_empty());
    }
}
