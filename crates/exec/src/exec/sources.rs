//! Maintains a patched copy of the sources in the build folder. The original sources are never changed.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::project::SourceCopy;
use serde::{Deserialize, Serialize};

use super::error::BuildError;
use super::{BuildEvent, BuildJob};
use crate::patch::{self, PatchResult, PatchedFiles};
use crate::store::files::{self, FileSnapshot, FileStamp};

/// The state of the original and the copy after the last update, by path below their folders.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SourceRecord {
    /// Files of the original.
    from: BTreeMap<String, FileStamp>,
    /// Files of the copy.
    to: BTreeMap<String, FileStamp>,
    /// Hashes of the patches.
    patches: Vec<String>,
    /// Files that a patch changed in the copy. Without the list, which earlier versions did not write, it may be any.
    patched: Option<BTreeSet<String>>,
}

/// Updates the copy. Unchanged files keep their time stamps, so that they are not compiled again.
///
/// # Errors
/// A patch does not apply, or a file cannot be read or written.
pub(super) fn prepare(job: &BuildJob<'_>, copy: &SourceCopy) -> Result<(), BuildError> {
    let host = job.host;
    let path = HostPath::new(copy.to.rules(), &format!("{}.json", copy.to));
    let last: SourceRecord = crate::store::read_json(host, &path).unwrap_or_default();
    let from = below(&walk(host, &copy.from, &job.root)?, &copy.from);
    let diffs = read_patches(host, copy)?;
    let hashes: Vec<String> = diffs.iter().map(|text| crate::store::sha256(text.as_bytes())).collect();
    if last.from == from && last.patches == hashes && last.patched.is_some() && !last.to.is_empty() {
        let to = below(&walk(host, &copy.to, &job.root.join("no-such-folder"))?, &copy.to);
        if to == last.to {
            return Ok(());
        }
    }
    let changed = changed(job, copy, &diffs)?;
    let is_kept = |name: &String| changed.get(name).map_or(from.contains_key(name), Option::is_some);
    let copied = if host.is_dir(&copy.to) {
        below(&walk(host, &copy.to, &job.root.join("no-such-folder"))?, &copy.to)
    } else {
        BTreeMap::new()
    };
    for name in copied.keys() {
        if !is_kept(name) {
            let old = copy.to.join(name);
            host.remove(&old).map_err(|error| BuildError::io("remove", &old, &error))?;
        }
    }
    for (name, stamp) in &from {
        if changed.contains_key(name) {
            continue;
        }
        let target = copy.to.join(name);
        let was_original = last.patched.as_ref().is_some_and(|patched| !patched.contains(name));
        let same = was_original
            && last.from.get(name) == Some(stamp)
            && last.to.get(name).is_some_and(|was| files::stamp(host, &target) == Some(*was));
        if !same {
            if let Some(parent) = target.parent() {
                host.create_dir_all(&parent).map_err(|error| BuildError::io("create", &parent, &error))?;
            }
            // The folder had a file that is removed by now.
            if host.is_dir(&target) {
                host.remove(&target).map_err(|error| BuildError::io("remove", &target, &error))?;
            }
            // Downloaded sources are read-only, but a project may write into its copy.
            host.copy(&copy.from.join(name), &target)
                .and_then(|()| host.set_writable(&target))
                .map_err(|error| BuildError::io("write", &target, &error))?;
        }
    }
    for (name, text) in &changed {
        let Some(text) = text else { continue };
        let target = copy.to.join(name);
        if host.read_text(&target).ok().as_ref() != Some(text) {
            host.write(&target, text.as_bytes()).map_err(|error| BuildError::io("write", &target, &error))?;
        }
    }
    let to = below(&walk(host, &copy.to, &job.root.join("no-such-folder"))?, &copy.to);
    let patched = Some(changed.into_keys().collect_set());
    crate::store::write_json(host, &path, &SourceRecord { from, to, patches: hashes, patched })
        .map_err(|error| BuildError::io("write", &path, &error))
}

fn walk(host: &dyn ReadFiles, folder: &HostPath, without: &HostPath) -> Result<FileSnapshot, BuildError> {
    files::walk_all(host, folder, without).map_err(BuildError::walk)
}

/// Converts the absolute paths of a snapshot to paths below a folder, with forward slashes.
fn below(snapshot: &FileSnapshot, folder: &HostPath) -> BTreeMap<String, FileStamp> {
    let start = folder.as_str().len();
    let name = |path: &str| path[start..].trim_start_matches(['/', '\\']).replace('\\', "/");
    snapshot.iter().map(|(path, stamp)| (name(path), *stamp)).collect()
}

fn read_patches(host: &dyn ReadFiles, copy: &SourceCopy) -> Result<Vec<String>, BuildError> {
    let read = |patch: &gpubuild_plan::project::PlannedPatch| {
        host.read_text(&patch.path).map_err(|error| BuildError::io("read", &patch.path, &error))
    };
    copy.patches.iter().map(read).collect()
}

/// Returns the contents of all files that the patches name, with all patches applied. An optional patch that does not apply
/// is skipped.
fn changed(job: &BuildJob<'_>, copy: &SourceCopy, diffs: &[String]) -> Result<PatchedFiles, BuildError> {
    let host = job.host;
    let mut texts = PatchedFiles::new();
    for (patch, text) in copy.patches.iter().zip(diffs) {
        let failed = |error: &patch::PatchError| BuildError::Patch {
            patch: patch.path.to_string(),
            folder: copy.from.to_string(),
            why: error.to_string(),
        };
        let exists = |name: &str| match texts.get(name) {
            Some(known) => known.is_some(),
            None => host.is_file(&copy.from.join(name)),
        };
        let names = patch::files(text, &exists).map_err(|error| failed(&error))?;
        for name in names {
            texts.entry(name).or_insert_with_key(|name| host.read_text(&copy.from.join(name)).ok());
        }
        let name = patch.path.to_string();
        match patch::apply(text, &mut texts) {
            Ok(PatchResult::Applied) => {}
            Ok(PatchResult::AlreadyApplied) => {
                (job.sink)(&BuildEvent::Note {
                    text: format!("the sources already contain the changes of `{name}`"),
                });
            }
            Err(error) if patch.optional => {
                (job.sink)(&BuildEvent::Note {
                    text: format!("optional patch `{name}` is skipped: {error}"),
                });
            }
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(texts)
}
