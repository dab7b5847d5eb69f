//! Puts the shared libraries and modules of a build beside a program, under the names by which they are looked for.

use std::collections::BTreeSet;
use std::io;

use gpubuild_host::{HostPath, ReadFiles, WriteFiles};
use gpubuild_plan::artifacts::{Artifact, Manifest, PlacedLibrary};
use serde::{Deserialize, Serialize};

/// Folder in a build root that holds all shared libraries and modules together, as they lie beside a program.
pub const FOLDER: &str = "runtime";

/// What lies in a folder because we put it there.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StageRecord {
    names: BTreeSet<String>,
}

/// The folder with everything that a program of this build root needs beside it.
#[must_use]
pub fn runtime_folder(root: &HostPath) -> HostPath {
    root.join(FOLDER)
}

/// What a program of a manifest needs beside it: nothing, if all of it is static.
#[must_use]
pub fn needed(host: &dyn ReadFiles, manifest: &Manifest) -> Vec<PlacedLibrary> {
    let mut placed = Vec::new();
    for tree in &manifest.trees {
        for file in &tree.files {
            let Some(name) = name_of(host, file) else { continue };
            let name = tree.folder.as_ref().map_or(name.clone(), |folder| format!("{folder}/{name}"));
            placed.push(PlacedLibrary { from: file.path.clone(), name });
        }
    }
    placed
}

/// The name by which a file is looked for while a program runs; none for what only a linker needs.
fn name_of(host: &dyn ReadFiles, file: &Artifact) -> Option<String> {
    let own = file.path.rsplit(['/', '\\']).next()?.to_owned();
    match file.kind.as_str() {
        "module" => Some(own),
        "shared" if is_for_linkers(&own) => None,
        // The loader asks for the name that the library bears itself: `libllama.so.0`.
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
pub(super) fn is_for_linkers(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    [".lib", ".dll.a"].iter().any(|end| lower.ends_with(end))
}

/// Puts everything that a program needs into a folder, and removes what an earlier call put there and is not needed any
/// more: a module that lies about would be opened.
///
/// # Errors
/// What the operating system says.
pub fn place(host: &dyn WriteFiles, manifest: &Manifest, folder: &HostPath) -> io::Result<()> {
    let placed = needed(host, manifest);
    let record_path = folder.join(&format!(".gpubuild-{}.json", manifest.project));
    let before: StageRecord = crate::store::read_json(host, &record_path).unwrap_or_default();
    if placed.is_empty() && before.names.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<String> = placed.iter().map(|file| file.name.clone()).collect();
    for name in before.names.difference(&names) {
        host.remove(&folder.join(name))?;
    }
    for file in &placed {
        // A second name of a link would be a link that leads nowhere.
        let (from, to) = (host.canonical(&host.path(&file.from))?, folder.join(&file.name));
        if !is_there(host, &from, &to) {
            host.remove(&to)?;
            host.link(&from, &to)?;
        }
    }
    if before.names != names {
        crate::store::write_json(host, &record_path, &StageRecord { names })?;
    }
    Ok(())
}

/// Whether a placed file is the one that was built: a hard link of it, or a copy with the same content where the two are on
/// different disks.
fn is_there(host: &dyn ReadFiles, from: &HostPath, to: &HostPath) -> bool {
    let (Ok(source), Ok(placed)) = (host.stat(from), host.stat(to)) else { return false };
    let same_content = || matches!((host.read(from), host.read(to)), (Ok(from), Ok(to)) if from == to);
    host.is_same_file(from, to) || (source.size == placed.size && same_content())
}

/// The folders in which cargo puts programs and tests of the package whose build script runs: those above `OUT_DIR`.
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
    fn programs_of_cargo_lie_in_three_folders() {
        let out = HostPath::new(PathRules::Unix, "/p/target/debug/build/x-0123/out");
        let folders: Vec<String> = cargo_folders(&out).iter().map(ToString::to_string).collect();
        assert_eq!(folders, ["/p/target/debug/deps", "/p/target/debug/examples", "/p/target/debug"]);
        assert!(cargo_folders(&HostPath::new(PathRules::Unix, "/elsewhere")).is_empty());
    }
}
