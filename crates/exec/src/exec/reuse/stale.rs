//! Removes stale files of an earlier build in the same folder before CMake and Ninja run.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::HostPath;

use super::{RestoredFiles, Reuse, contents_path, ninja_log, restored_path, reused_path};
use crate::cmake;
use crate::exec::error::BuildError;
use crate::exec::stamp;

impl Reuse<'_> {
    /// Removes restored files, and outputs that Ninja would not rebuild although their sources changed. Ninja compares time
    /// stamps only, so it misses a changed file that is not newer than the last build.
    pub(in crate::exec) fn remove_stale(&mut self, ninja: Option<&HostPath>) -> Result<(), BuildError> {
        let host = self.job.host;
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        if let Some(restored) = crate::store::read_json::<RestoredFiles>(host, &restored_path(self.tree)) {
            for file in &restored.files {
                host.remove(&host.path(file)).map_err(failed)?;
            }
            host.remove(&restored_path(self.tree)).map_err(failed)?;
        }
        // Objects are restored again in each build. Only a tree that compiles all of its sources shows which can be restored.
        let reused = reused_path(self.tree);
        let had_objects = host.exists(&reused);
        if had_objects {
            host.remove(&reused).map_err(failed)?;
            host.remove(&cmake::own_folder(self.tree).join("configured.json")).map_err(failed)?;
        }
        self.fresh = had_objects || !host.exists(&ninja_log(self.tree));
        let unseen = self.unseen_changes();
        if !unseen.is_empty() {
            self.invalidate(&unseen, ninja).map_err(failed)?;
        }
        self.contents.write(host, &contents_path(self.tree)).map_err(failed)
    }

    /// Sources whose content changed since the last build but whose time stamps are not newer than it, or than before.
    fn unseen_changes(&self) -> BTreeSet<String> {
        let host = self.job.host;
        let Some(before) = &self.before else { return BTreeSet::new() };
        let Some(last) = host.stat(&ninja_log(self.tree)).ok().and_then(|stat| stat.modified) else {
            return BTreeSet::new();
        };
        let is_unseen = |path: &&String| {
            let (now, was) = (&self.contents.files[*path], before.files.get(*path));
            was.is_some_and(|was| {
                now.stamp.modified <= last.max(was.stamp.modified) && was.sha256 != now.sha256
            })
        };
        self.contents.files.keys().filter(is_unseen).cloned().collect()
    }

    fn invalidate(&self, unseen: &BTreeSet<String>, ninja: Option<&HostPath>) -> std::io::Result<()> {
        let (host, build) = (self.job.host, &self.tree.build);
        let ninja_tool = |what: &[&str]| self.ninja_tool(ninja, what);
        let mut left = unseen.clone();
        for (object, paths) in stamp::deps_by_object(&ninja_tool(&["deps"]).unwrap_or_default(), build) {
            let used: Vec<&String> = paths.iter().filter(|path| unseen.contains(*path)).collect();
            if !used.is_empty() {
                host.remove(&host.path(&object))?;
            }
            for path in used {
                left.remove(path);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        // The remaining files are CMake scripts and inputs of generators. Without these records CMake and Ninja run again.
        host.remove(&cmake::own_folder(self.tree).join("configured.json"))?;
        let inputs = ninja_tool(&["inputs", "all"]).map(|text| {
            let lines = text.lines().map(|line| line.trim().trim_matches('\''));
            lines.map(|line| build.join(line).normalized().to_string()).collect_set()
        });
        if inputs.is_none_or(|inputs| left.iter().any(|path| inputs.contains(path))) {
            host.remove(&ninja_log(self.tree))?;
        }
        Ok(())
    }
}
