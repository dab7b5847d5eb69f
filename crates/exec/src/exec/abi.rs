//! Reads the properties of a configured library that must agree before two copies of it can be combined in one program.

use std::collections::BTreeMap;

use gpubuild_host::ReadFiles;
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::project::abi::{default_of, version};
use gpubuild_plan::project::profile::Abi;

use crate::cmake::file_api::FileApiReply;

/// Returns the values of definitions, the hashes of headers and the version. Entries that the project lacks are omitted.
pub(super) fn read(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    abi: &Abi,
    reply: &FileApiReply,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut defaults = BTreeMap::new();
    for header in &abi.headers {
        let Ok(text) = host.read_text(&tree.source.join(header)) else { continue };
        let name = header.rsplit('/').next().unwrap_or(header);
        found.insert(name.to_owned(), crate::store::sha256(text.as_bytes()));
        for define in &abi.defines {
            if let Some(value) = default_of(&text, define) {
                defaults.entry(define.clone()).or_insert(value);
            }
        }
    }
    let set = reply.target(&abi.target).map(|target| target.defines.as_slice()).unwrap_or_default();
    for define in &abi.defines {
        let value = set.iter().find_map(|text| match text.split_once('=') {
            Some((name, value)) => (name == define).then(|| value.to_owned()),
            None => (text == define).then(|| "1".to_owned()),
        });
        if let Some(value) = value.or_else(|| defaults.remove(define)) {
            found.insert(define.clone(), value);
        }
    }
    let version = abi
        .version
        .iter()
        .find_map(|place| version(&host.read_text(&tree.source.join(&place.file)).ok()?, &place.prefix));
    found.extend(version.map(|version| ("version".to_owned(), version)));
    found
}
