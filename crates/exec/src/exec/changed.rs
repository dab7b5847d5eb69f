//! Finds artifacts that changed since they were built.

use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::artifacts::{Artifact, Manifest};

use super::stamp::BuildStamp;
use crate::store::files::{self, FileSnapshot};
use crate::store::hash_file;

/// Returns the paths of a manifest's artifacts that are missing or whose content changed since the build. A file with the
/// size and time stamps recorded in its tree's stamp is not read.
#[must_use]
pub fn changed_files<'a>(host: &dyn ReadFiles, manifest: &'a Manifest) -> Vec<&'a str> {
    let mut changed = Vec::new();
    for tree in &manifest.trees {
        let stamp = BuildStamp::read_in(host, &host.path(&tree.build));
        for file in &tree.files {
            let stamp = stamp.as_ref().filter(|stamp| stamp.built.files.contains(file));
            if !is_intact(host, file, stamp.map(|stamp| &stamp.outputs)) {
                changed.push(file.path.as_str());
            }
        }
    }
    changed
}

/// Whether an artifact has its original content. `seen` has the state of the files after the build.
pub(super) fn is_intact(host: &dyn ReadFiles, file: &Artifact, seen: Option<&FileSnapshot>) -> bool {
    let path = host.path(&file.path);
    let Some(stamp) = files::stamp(host, &path) else { return false };
    if seen.and_then(|seen| seen.get(&file.path)) == Some(&stamp) {
        return true;
    }
    stamp.size == file.bytes && has_hash(host, &path, &file.sha256)
}

fn has_hash(host: &dyn ReadFiles, path: &HostPath, expected: &str) -> bool {
    hash_file(host, path).is_ok_and(|(hash, _)| hash == expected)
}
