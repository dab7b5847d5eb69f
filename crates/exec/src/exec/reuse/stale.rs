//! Removes stale files of an earlier build in the same folder before CMake and Ninja run.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::HostPath;
use serde::{Deserialize, Serialize};

use super::{
    BuildStart, RestoredFiles, Reuse, contents_path, ninja_log, outside_path, restored_path, reused_path,
};
use crate::cmake;
use crate::cmake::file_api::FileApiReply;
use crate::exec::error::BuildError;
use crate::exec::stamp;
use crate::store::files::{self, FileSnapshot, FileStamp};

/// A file outside of the source folder that a build has read.
#[derive(Debug, Serialize, Deserialize)]
struct OutsideFile {
    stamp: FileStamp,
    /// Empty without a store.
    sha256: String,
}

impl Reuse<'_> {
    /// Removes restored files, and outputs that Ninja would not rebuild although their sources changed. Ninja compares time
    /// stamps only, so it misses a changed file that is not newer than the last build.
    pub(in crate::exec) fn remove_stale(
        &mut self,
        reply: Option<&FileApiReply>,
        ninja: Option<&HostPath>,
    ) -> Result<(), BuildError> {
        let host = self.job.host;
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        let is_compiled = host.exists(&ninja_log(self.tree));
        let is_configured = host.exists(&self.tree.build.join("CMakeCache.txt"));
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
        self.start = match (is_compiled, is_configured || had_objects) {
            (false, false) => BuildStart::Empty,
            (true, _) if !had_objects => BuildStart::Incremental,
            _ => BuildStart::WithoutObjects,
        };
        if let Some(last) = host.stat(&ninja_log(self.tree)).ok().and_then(|stat| stat.modified) {
            let unseen = self.unseen_changes(last);
            let path = outside_path(self.tree);
            let known: BTreeMap<String, OutsideFile> =
                crate::store::read_json(host, &path).unwrap_or_default();
            let outside = self.changes_outside(&known);
            self.invalidate(&unseen, &outside, reply, ninja).map_err(failed)?;
            if !outside.is_empty() {
                let left = self.outside_files(&files::snapshot(host, known.keys().map(String::as_str)));
                crate::store::write_json(host, &path, &left).map_err(failed)?;
            }
        }
        self.contents.write(host, &contents_path(self.tree)).map_err(failed)
    }

    /// Sources whose content changed since the last build but whose time stamps are not newer than it, or than before.
    fn unseen_changes(&self, last: u128) -> BTreeSet<String> {
        let Some(before) = &self.before else { return BTreeSet::new() };
        let is_unseen = |path: &&String| {
            let (now, was) = (&self.contents.files[*path], before.files.get(*path));
            was.is_some_and(|was| {
                now.stamp.modified <= last.max(was.stamp.modified) && was.sha256 != now.sha256
            })
        };
        self.contents.files.keys().filter(is_unseen).cloned().collect()
    }

    /// Records the files outside of the source folder that a successful build has read: headers, libraries, compilers and tools. Ninja
    /// knows only some of them, and packages often have older dates than what was built before. A file that changed during the build
    /// counts as changed in the next one, and the result is not saved.
    pub(in crate::exec) fn record_outside(&mut self, outside: &mut FileSnapshot) -> Result<(), BuildError> {
        let host = self.job.host;
        let started =
            host.stat(&contents_path(self.tree)).ok().and_then(|stat| stat.modified).unwrap_or_default();
        for stamp in outside.values_mut().filter(|stamp| is_after(stamp, started)) {
            *stamp = FileStamp::default();
            self.parts = None;
        }
        let path = outside_path(self.tree);
        let files = self.outside_files(outside);
        crate::store::write_json(self.job.host, &path, &files)
            .map_err(|error| BuildError::io("write", &path, &error))
    }

    fn outside_files(&mut self, snapshot: &FileSnapshot) -> BTreeMap<String, OutsideFile> {
        let paths: Vec<String> = snapshot.keys().cloned().collect();
        let hashes = if self.job.store.is_some() { self.external.hashes(&paths) } else { Vec::new() };
        let hashes = hashes.into_iter().chain(std::iter::repeat(None)).map(Option::unwrap_or_default);
        let file = |((path, stamp), sha256): ((&String, &FileStamp), String)| {
            let sha256 = if *stamp == FileStamp::default() { String::new() } else { sha256 };
            (path.clone(), OutsideFile { stamp: *stamp, sha256 })
        };
        snapshot.iter().zip(hashes).map(file).collect()
    }

    /// The recorded files with another content. A new hard link changes the times of a file and not its content. A file that no longer
    /// exists makes Ninja or CMake fail if it is still needed.
    fn changes_outside(&mut self, known: &BTreeMap<String, OutsideFile>) -> BTreeSet<String> {
        let now = files::snapshot(self.job.host, known.keys().map(String::as_str));
        let touched: Vec<String> = now
            .iter()
            .filter(|(path, stamp)| known[*path].stamp != **stamp)
            .map(|(path, _)| path.clone())
            .collect();
        let hashes = self.external.hashes(&touched);
        let differs = |(path, hash): &(String, Option<String>)| {
            let was = &known[path];
            if was.sha256.is_empty() {
                (was.stamp.size, was.stamp.modified) != (now[path].size, now[path].modified)
            } else {
                hash.as_ref() != Some(&was.sha256)
            }
        };
        touched.into_iter().zip(hashes).filter(differs).map(|(path, _)| path).collect()
    }

    /// Removes what was built from changed sources (`unseen`) and files outside of the source folder.
    fn invalidate(
        &self,
        unseen: &BTreeSet<String>,
        outside: &BTreeSet<String>,
        reply: Option<&FileApiReply>,
        ninja: Option<&HostPath>,
    ) -> std::io::Result<()> {
        if unseen.is_empty() && outside.is_empty() {
            return Ok(());
        }
        let (host, build) = (self.job.host, &self.tree.build);
        let ninja_tool = |what: &[&str]| self.ninja_tool(ninja, what);
        let mut left: BTreeSet<&String> = unseen.union(outside).collect_set();
        for (object, paths) in stamp::deps_by_object(&ninja_tool(&["deps"]).unwrap_or_default(), build) {
            let used: Vec<&String> =
                paths.iter().filter(|path| unseen.contains(*path) || outside.contains(*path)).collect();
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
        // The remaining files are CMake scripts, inputs of generators, libraries and tools. Without these records CMake and Ninja run
        // again.
        host.remove(&cmake::own_folder(self.tree).join("configured.json"))?;
        let inputs = ninja_tool(&["inputs", "all"]).map(|text| {
            let lines = text.lines().map(|line| line.trim().trim_matches('\''));
            lines.map(|line| build.join(line).normalized().to_string()).collect_set()
        });
        let is_input =
            |path: &String| inputs.as_ref().is_none_or(|inputs: &BTreeSet<String>| inputs.contains(path));
        // Ninja knows neither compilers nor the programs that generators start.
        let is_script = |path: &String| reply.is_some_and(|reply| reply.inputs.contains(path));
        let is_unknown =
            |path: &String| if outside.contains(path) { !is_script(path) } else { is_input(path) };
        if left.iter().any(|path| is_unknown(path)) {
            host.remove(&ninja_log(self.tree))?;
        }
        Ok(())
    }
}

/// Whether a file changed after a time. Modification times can be set to any value.
fn is_after(stamp: &FileStamp, time: u128) -> bool {
    let last = if stamp.changed > 0 { stamp.changed } else { stamp.modified };
    last > time
}
