//! Hashes of the files of an installation.

use std::collections::BTreeMap;
use std::io;

use gpubuild_detect::id;
use gpubuild_exec::store;
use gpubuild_host::{HostPath, InspectHost, ReadFiles};
use gpubuild_plan::packages;

use super::tree;
use crate::provision::verify::Verification;
use crate::provision::{Prefix, install};

/// The file with the hashes, in the folder of the installation.
pub(super) const FILES: &str = "files.json";

/// The content of [`FILES`].
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct PrefixFiles {
    /// The sha256 of every file by its path in the prefix.
    pub(super) files: BTreeMap<String, String>,
    /// The target of every link.
    pub(super) links: BTreeMap<String, String>,
}

/// Hashes a prefix. Returns the total size of its files, too.
pub(super) fn hash(host: &dyn ReadFiles, prefix: &HostPath) -> io::Result<(PrefixFiles, u64)> {
    let tree = tree::walk(host, prefix)?;
    let mut found = PrefixFiles { links: tree.links.into_iter().collect(), ..PrefixFiles::default() };
    let mut bytes = 0;
    for path in tree.files {
        let (sha256, size) = store::hash_file(host, &prefix.join(&path))?;
        bytes += size;
        found.files.insert(path, sha256);
    }
    Ok((found, bytes))
}

/// Verifies an installation from packages. Reads every file.
pub(crate) fn verify(host: &dyn InspectHost, installation: &Prefix) -> Verification {
    let mut result = Verification::default();
    let list = installation.folder.join(FILES);
    let Some(recorded) = store::read_json::<PrefixFiles>(host, &list) else {
        result.problem(id!("toolkit.file-missing"), &list, "is missing or damaged");
        return result;
    };
    for (path, expected) in &recorded.files {
        result.files += 1;
        let full = installation.root.join(path);
        match store::hash_file(host, &full) {
            Ok((found, _)) if found == *expected => {}
            Ok(_) => result.problem(id!("toolkit.file-changed"), &full, "was changed after the installation"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                result.problem(id!("toolkit.file-missing"), &full, "is missing");
            }
            Err(error) => result.problem(id!("toolkit.file-unreadable"), &full, &error.to_string()),
        }
    }
    for (path, target) in &recorded.links {
        let full = installation.root.join(path);
        if host.read_link(&full).ok().as_deref() != Some(target.as_str()) {
            result.problem(id!("toolkit.link-wrong"), &full, &format!("is not a link to `{target}`"));
        }
    }
    let command = packages::set_of(&installation.record.toolkit).map(|set| set.verify.as_slice());
    if let Err(message) = install::runs(host, command.unwrap_or_default(), &installation.root) {
        let program = command.and_then(<[String]>::first).map_or("", String::as_str);
        result.problem(id!("toolkit.does-not-run"), &installation.root.join(program), &message);
    }
    result
}
