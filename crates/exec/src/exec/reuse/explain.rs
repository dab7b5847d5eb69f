//! What a build would find, for those who only ask.

use std::collections::BTreeMap;

use gpubuild_plan::plan::PlannedTree;

use super::{Reuse, TREES};
use crate::exec::BuildJob;
use crate::exec::error::BuildError;
use crate::store::entry::{self, Miss};
use crate::store::explain::TreeExplanation;
use crate::store::files;

/// What a build would find in the store for a tree. Changes nothing but notes of hashes.
pub fn explain(job: &BuildJob<'_>, tree: &PlannedTree) -> Result<TreeExplanation, BuildError> {
    let host = job.host;
    let sources = files::walk(host, &tree.source, &tree.build)
        .map_err(|(path, error)| BuildError::io("read the folder", &path, &error))?;
    let tools = [("cmake", job.tools.cmake.as_ref()), ("ninja", job.tools.ninja.as_ref())];
    let mut reuse = Reuse::begin(job, tree, sources, &tools);
    let mut document = TreeExplanation {
        tree: tree.id.clone(),
        key: reuse.key(),
        hit: false,
        what: "what it depends on cannot be told, so it is always built".to_owned(),
        since: String::new(),
        different: Vec::new(),
        parts: BTreeMap::new(),
    };
    let (Some(store), Some(parts)) = (&job.store, reuse.parts.clone()) else { return Ok(document) };
    let key = document.key.clone().unwrap_or_default();
    document.parts = parts.hashes();
    // Compilers are large: what they are is noted for the next one who asks.
    reuse.elsewhere.write();
    let mut why = Miss::Absent;
    for folder in entry::candidates(store, TREES, &key, &reuse.places) {
        match reuse.look(&folder) {
            Ok(_) => return Ok(TreeExplanation { hit: true, what: folder.to_string(), ..document }),
            Err(Miss::Absent) => {}
            Err(miss) => why = miss,
        }
    }
    if why == Miss::Absent {
        (document.since, document.different) = reuse.compared(store, &parts);
    }
    Ok(TreeExplanation { what: why.to_string(), ..document })
}
