//! Explains which result a build would find in the build store, without building.

use std::collections::BTreeMap;

use gpubuild_plan::plan::PlannedTree;

use super::{Reuse, TREES};
use crate::exec::BuildJob;
use crate::exec::error::BuildError;
use crate::store::entry::{self, Miss};
use crate::store::explain::TreeExplanation;
use crate::store::files;

/// Hashes the sources of a tree and computes its key.
pub(super) fn begin<'a>(job: &'a BuildJob<'a>, tree: &'a PlannedTree) -> Result<Reuse<'a>, BuildError> {
    let sources = files::walk(job.host, &tree.source, &tree.build)
        .map_err(|(path, error)| BuildError::io("read the folder", &path, &error))?;
    let tools = [("cmake", job.tools.cmake.as_ref()), ("ninja", job.tools.ninja.as_ref())];
    Ok(Reuse::begin(job, tree, sources, &tools))
}

/// Looks up the store entry for a tree. Changes nothing except cached file hashes.
pub fn explain(job: &BuildJob<'_>, tree: &PlannedTree) -> Result<TreeExplanation, BuildError> {
    let mut reuse = begin(job, tree)?;
    let mut explanation = TreeExplanation {
        tree: tree.id.clone(),
        key: reuse.key(),
        hit: false,
        level: None,
        remote: None,
        what: "its dependencies cannot be determined, so it is always built".to_owned(),
        since: String::new(),
        different: Vec::new(),
        parts: BTreeMap::new(),
    };
    let (Some(store), Some(parts)) = (&job.store, reuse.parts.clone()) else { return Ok(explanation) };
    let key = explanation.key.clone().unwrap_or_default();
    explanation.parts = parts.hashes();
    // Compilers are large files, so their hashes are cached for the next call.
    reuse.external.write();
    let mut why = Miss::Absent;
    for folder in entry::candidates(store, TREES, &key, &reuse.roots) {
        match reuse.usable_entry(&folder, &key) {
            Ok(_) => {
                let (what, level) = (folder.to_string(), Some("local"));
                return Ok(TreeExplanation { hit: true, what, level, ..explanation });
            }
            Err(Miss::Absent) => {}
            Err(miss) => why = miss,
        }
    }
    explanation.remote = reuse.explain_remote(&key);
    if let Some(remote) = explanation.remote.as_ref().filter(|remote| remote.hit) {
        let (what, level) = (remote.store.clone(), Some("remote"));
        return Ok(TreeExplanation { hit: true, what, level, ..explanation });
    }
    if why == Miss::Absent {
        (explanation.since, explanation.different) = reuse.compared(store, &parts);
    }
    Ok(TreeExplanation { what: why.to_string(), ..explanation })
}
