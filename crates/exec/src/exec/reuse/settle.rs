//! What of an earlier build in the same folder cannot be relied on: it is taken away before CMake and Ninja go on.

use std::collections::BTreeSet;

use gpubuild_host::HostPath;

use super::{Reuse, TakenTree, contents_path, ninja_log, reused_path, taken_path};
use crate::cmake;
use crate::exec::error::BuildError;
use crate::exec::stamp;

impl Reuse<'_> {
    /// Before CMake and Ninja go on with what lies in the build folder: takes away what they cannot see to be old. Ninja
    /// compares times; a file that changed and looks no newer than the last build is newer all the same.
    pub(in crate::exec) fn settle(&mut self, ninja: Option<&HostPath>) -> Result<(), BuildError> {
        let host = self.job.host;
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        if let Some(taken) = crate::store::read_json::<TakenTree>(host, &taken_path(self.tree)) {
            for file in &taken.files {
                host.remove(&host.path(file)).map_err(failed)?;
            }
            host.remove(&taken_path(self.tree)).map_err(failed)?;
        }
        // Objects are taken anew each time: which ones can be told only of a tree that compiles all of them.
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

    /// Files that have other content than at the last build and a time at which Ninja takes them for old.
    fn unseen_changes(&self) -> BTreeSet<String> {
        let host = self.job.host;
        let Some(before) = &self.before else { return BTreeSet::new() };
        let Some(last) = host.stat(&ninja_log(self.tree)).ok().and_then(|stat| stat.modified) else {
            return BTreeSet::new();
        };
        let is_unseen = |path: &&String| {
            let (now, was) = (&self.contents.files[*path], before.files.get(*path));
            now.stamp.modified <= last && was.is_some_and(|was| was.sha256 != now.sha256)
        };
        self.contents.files.keys().filter(is_unseen).cloned().collect()
    }

    fn invalidate(&self, unseen: &BTreeSet<String>, ninja: Option<&HostPath>) -> std::io::Result<()> {
        let (host, build) = (self.job.host, &self.tree.build);
        let ask = |what: &[&str]| self.ask(ninja, what);
        let mut left = unseen.clone();
        for (object, paths) in stamp::deps_by_object(&ask(&["deps"]).unwrap_or_default(), build) {
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
        // Scripts, and inputs of generators. CMake's and Ninja's own notes are all that holds them back.
        host.remove(&cmake::own_folder(self.tree).join("configured.json"))?;
        let inputs = ask(&["inputs", "all"]).map(|text| {
            let lines = text.lines().map(|line| line.trim().trim_matches('\''));
            lines.map(|line| build.join(line).normalized().to_string()).collect::<BTreeSet<_>>()
        });
        if inputs.is_none_or(|inputs| left.iter().any(|path| inputs.contains(path))) {
            host.remove(&ninja_log(self.tree))?;
        }
        Ok(())
    }
}
