//! Finds changes that a build in an existing folder may not have noticed, because neither CMake nor a compiler reports that it
//! reads the file. The result could then belong to the sources before the change, so it is not stored.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::plan::PlannedTree;

use super::{Reuse, contents_path, ninja_log};
use crate::exec::error::BuildError;
use crate::exec::stamp::{self, BuildStamp};
use crate::store::contents::{Contents, FileHash};
use crate::store::table::{file_name, may_be_header};

/// Adds to `now` whether the build folder matches the files of its last build, and what changed since then.
pub(super) fn carry_over(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    before: Option<&Contents>,
    now: &mut Contents,
) {
    if !host.exists(&ninja_log(tree)) {
        now.trusted = true;
        return;
    }
    let Some(before) = before else { return };
    now.trusted = before.trusted;
    now.changed.clone_from(&before.changed);
    now.added_or_removed.clone_from(&before.added_or_removed);
    for (path, was) in &before.files {
        match now.files.get(path) {
            None => now.added_or_removed.insert(path.clone()),
            Some(is) => is.sha256 != was.sha256 && now.changed.insert(path.clone()),
        };
    }
    let added = now.files.keys().filter(|path| !before.files.contains_key(*path)).cloned();
    now.added_or_removed.extend(added);
}

impl Reuse<'_> {
    /// Whether a file changed that the last build is not known to have read. A script may have read it while CMake configured.
    pub(in crate::exec) fn has_unread_changes(
        &self,
        stamp: Option<&BuildStamp>,
        ninja: Option<&HostPath>,
    ) -> bool {
        if self.contents.changed.is_empty() {
            return false;
        }
        // A build that failed has no stamp.
        let deps =
            || stamp::parse_deps(&self.ninja_tool(ninja, &["deps"]).unwrap_or_default(), &self.tree.build);
        let read = stamp.map_or_else(deps, |stamp| stamp.read.clone());
        !self.contents.changed.iter().all(|path| read.contains(path))
    }

    /// Decides after a successful build whether it noticed all changes, given the files that it read.
    pub(in crate::exec) fn judge_changes(&mut self, read: &[String]) -> Result<(), BuildError> {
        let changed = std::mem::take(&mut self.contents.changed);
        let added_or_removed = std::mem::take(&mut self.contents.added_or_removed);
        if changed.is_empty() && added_or_removed.is_empty() {
            return Ok(());
        }
        let read: BTreeSet<&String> = read.iter().collect_set();
        let any_source = |has: fn(&FileHash) -> bool| {
            read.iter().filter_map(|path| self.contents.files.get(*path)).any(has)
        };
        let is_embedded = changed.iter().any(|path| !read.contains(path)) && any_source(|file| file.embeds);
        // A new header may come before one of the same name in another folder.
        let headers: BTreeSet<&str> = added_or_removed
            .iter()
            .filter(|path| may_be_header(path))
            .map(|path| file_name(path))
            .collect_set();
        let has_namesake = || {
            let elsewhere = read.iter().filter(|path| !added_or_removed.contains(**path));
            elsewhere.map(|path| file_name(path)).any(|name| headers.contains(name))
        };
        let is_header = !headers.is_empty() && (any_source(|file| file.asks_headers) || has_namesake());
        if is_embedded || is_header {
            log::debug!("the result is not stored: a compiler may not have noticed a changed file");
            self.contents.trusted = false;
        }
        let path = contents_path(self.tree);
        self.contents.write(self.job.host, &path).map_err(|error| BuildError::io("write", &path, &error))
    }
}
