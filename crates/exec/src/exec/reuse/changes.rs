//! Changes since the last build in the same folder that CMake has to see, although it does not know that it reads the files.

use std::collections::BTreeSet;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::HostPath;

use super::{Reuse, contents_path};
use crate::cmake::file_api::FileApiReply;
use crate::exec::error::BuildError;
use crate::exec::stamp::{self, AskedInputs, BuildStamp};
use crate::store::contents::{Contents, FileTrait};
use crate::store::implicit_inputs;
use crate::store::key::KeyParts;

/// Adds to `now` what changed since the last build that succeeded.
pub(super) fn carry_over(before: Option<&Contents>, now: &mut Contents) {
    let Some(before) = before else { return };
    now.changed.clone_from(&before.changed);
    let differs =
        |path: &&String| now.files.get(*path).is_some_and(|is| is.sha256 != before.files[*path].sha256);
    let changed: Vec<String> = before.files.keys().filter(differs).cloned().collect();
    now.changed.extend(changed);
}

impl Reuse<'_> {
    /// Hash of what CMake examines while it configures: the programs and packages that it may find, and what git reports.
    pub(in crate::exec) fn searched(&self, asked: &AskedInputs) -> String {
        let host = self.job.host;
        let mut packages = KeyParts::default();
        implicit_inputs::packages(host, self.tree, &mut packages);
        let paths = |(name, path): (String, Option<HostPath>)| (name, path.map(|path| path.to_string()));
        let programs: Vec<_> = implicit_inputs::programs(host).into_iter().map(paths).collect();
        let json = serde_json::to_vec(&(packages, programs, &asked.git));
        crate::store::sha256(&json.expect("plain data serialises"))
    }

    /// Whether CMake has to run: it would find other programs or files, a changed file is a script, given its last reply, or a script may
    /// have read it. Scripts that read files do not say which: such as the version in a header.
    pub(in crate::exec) fn affects_configuration(
        &self,
        stamp: Option<&BuildStamp>,
        reply: Option<&FileApiReply>,
        ninja: Option<&HostPath>,
    ) -> bool {
        let host = self.job.host;
        let finds_same =
            |stamp: &BuildStamp| stamp.asked.finds_same_programs(host) && stamp.asked.has_same_names(host);
        if !stamp.is_none_or(finds_same) {
            return true;
        }
        let changed = &self.contents.changed;
        if changed.is_empty() {
            return false;
        }
        let is_script = |reply: &FileApiReply| reply.inputs.iter().any(|path| changed.contains(path));
        if reply.is_none_or(is_script)
            || self.contents.files.values().any(|file| file.has(FileTrait::ReadsFiles))
        {
            return true;
        }
        // A build that failed has no stamp.
        let deps =
            || stamp::parse_deps(&self.ninja_tool(ninja, &["deps"]).unwrap_or_default(), &self.tree.build);
        let read: BTreeSet<String> =
            stamp.map_or_else(deps, |stamp| stamp.read.clone()).into_iter().collect_set();
        !changed.is_subset(&read)
    }

    /// Records that all changes are built.
    pub(in crate::exec) fn forget_changes(&mut self) -> Result<(), BuildError> {
        if self.contents.changed.is_empty() {
            return Ok(());
        }
        self.contents.changed.clear();
        let path = contents_path(self.tree);
        self.contents.write(self.job.host, &path).map_err(|error| BuildError::io("write", &path, &error))
    }
}
