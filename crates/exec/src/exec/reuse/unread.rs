//! Finds changes that a build in an existing folder may not have noticed, because neither CMake nor a compiler reports that it
//! reads the file. The result could then belong to the sources before the change, so it is not stored.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::plan::PlannedTree;

use super::{Reuse, contents_path, ninja_log};
use crate::exec::error::BuildError;
use crate::exec::stamp::{self, BuildStamp};
use crate::store::contents::{Contents, FileTrait};
use crate::store::table::{StampTable, file_name, has_extension, may_be_header};

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
    /// The files that the last build is known to have read.
    pub(in crate::exec) fn last_read(
        &self,
        stamp: Option<&BuildStamp>,
        ninja: Option<&HostPath>,
    ) -> BTreeSet<String> {
        if self.contents.changed.is_empty() && self.contents.added_or_removed.is_empty() {
            return BTreeSet::new();
        }
        // A build that failed has no stamp.
        let deps =
            || stamp::parse_deps(&self.ninja_tool(ninja, &["deps"]).unwrap_or_default(), &self.tree.build);
        stamp.map_or_else(deps, |stamp| stamp.read.clone()).into_iter().collect_set()
    }

    /// Whether a script may have read a changed file while CMake configured: if it is not among those, or if scripts read files at all,
    /// such as the version in a header.
    pub(in crate::exec) fn affects_configuration(&self, last_read: &BTreeSet<String>) -> bool {
        let changed = &self.contents.changed;
        let read_by_scripts = || self.contents.files.values().any(|file| file.has(FileTrait::ReadsFiles));
        !changed.is_empty() && (!changed.is_subset(last_read) || read_by_scripts())
    }

    /// Decides after a successful build whether it noticed all changes, given the files that it and the last build read.
    pub(in crate::exec) fn judge_changes(
        &mut self,
        last_read: &BTreeSet<String>,
        read: &[String],
    ) -> Result<(), BuildError> {
        let changed = std::mem::take(&mut self.contents.changed);
        let added_or_removed = std::mem::take(&mut self.contents.added_or_removed);
        if changed.is_empty() && added_or_removed.is_empty() {
            return Ok(());
        }
        let read: BTreeSet<&String> = read.iter().collect_set();
        let is_unread =
            |path: &&String| !read.contains(path) && !last_read.contains(*path) && !is_inert(path);
        let unread = changed.iter().chain(&added_or_removed).find(is_unread);
        // A new header may come before one of the same name in another folder.
        let headers: BTreeSet<&str> = added_or_removed
            .iter()
            .filter(|path| may_be_header(path))
            .map(|path| file_name(path))
            .collect_set();
        let elsewhere = || read.iter().filter(|path| !added_or_removed.contains(**path));
        let namesake = || elsewhere().find(|path| headers.contains(file_name(path))).copied();
        let asks = |path: &&String| {
            self.contents.files.get(*path).is_some_and(|file| file.has(FileTrait::AsksHeaders))
        };
        let asking = || read.iter().copied().find(asks).filter(|_| !headers.is_empty());
        if let Some(path) = unread.or_else(namesake).or_else(asking) {
            log::debug!("the result is not stored, because the build may have missed a change: `{path}`");
            self.contents.trusted = false;
        }
        let path = contents_path(self.tree);
        self.contents.write(self.job.host, &path).map_err(|error| BuildError::io("write", &path, &error))
    }
}

/// Whether a file is documentation or configures an editor or a service, and no tool reads it during a build.
fn is_inert(path: &str) -> bool {
    let name = file_name(path);
    name.starts_with('.') || has_extension(name, &StampTable::embedded().inert)
}
