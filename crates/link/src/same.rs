//! Detects crates of one program that define the same symbols, such as two copies of ggml.
//!
//! Cargo shows a build script only the direct dependencies of its crate.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpubuild_linker::symbols;

use crate::files::{self, Variables};
use crate::manifest::LinkManifest;
use crate::script::BuildScript;

/// The hint of the error.
pub(crate) const HINT: &str = "let one crate use the libraries of the other: `.share(\"<links key>\")` in its build.rs; or build \
both projects with one gpubuild.toml and `[[with]]` (docs/guide/several-projects.md); `.allow_same_symbols()` skips this check";

/// Suffix of the variable in which cargo passes the path of a dependency's manifest: `DEP_<LINKS>_GPUBUILD_MANIFEST`.
const END: &str = "_GPUBUILD_MANIFEST";

/// Reports an error to cargo if two crates among the dependencies and `own` define the same symbols.
pub(crate) fn compare(variables: &Variables, own: Option<(&str, &LinkManifest)>, script: &mut BuildScript) {
    let (watched, same) = compared(variables, own);
    for path in watched {
        script.watch(&path);
    }
    if let Some(same) = same {
        script.error(&format!("{same} [symbols.same]\nhint: {HINT}"));
    }
}

/// The paths of the dependencies' manifests, and a message if two crates define the same symbol.
pub(crate) fn compared(
    variables: &Variables,
    own: Option<(&str, &LinkManifest)>,
) -> (Vec<PathBuf>, Option<String>) {
    let exported = variables.iter().filter_map(|(name, path)| {
        Some((name.strip_prefix("DEP_")?.strip_suffix(END)?.to_lowercase(), PathBuf::from(path)))
    });
    let (links, paths): (Vec<String>, Vec<PathBuf>) = exported.unzip();
    let manifests: Vec<Option<LinkManifest>> =
        paths.iter().map(|path| LinkManifest::read_any(path).ok().map(|(manifest, _)| manifest)).collect();
    let with_names = links.iter().zip(&manifests);
    let mut crates: Vec<(&str, &LinkManifest)> =
        with_names.filter_map(|(links, manifest)| Some((links.as_str(), manifest.as_ref()?))).collect();
    crates.extend(own);
    let same = find(&crates);
    (paths, same)
}

/// A message about the first two crates that define the same symbol. A library that several manifests list is read once.
fn find(crates: &[(&str, &LinkManifest)]) -> Option<String> {
    if crates.len() < 2 {
        return None;
    }
    let mut before: Vec<(&str, &LinkManifest, BTreeSet<String>)> = Vec::new();
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    for (name, manifest) in crates {
        let mut defined = BTreeSet::new();
        for file in manifest.files.iter().filter(|file| file.is_static && seen.insert(&file.path)) {
            if let Ok(bytes) = files::read(&file.path) {
                defined.extend(symbols::defined(bytes.as_slice()).unwrap_or_default());
            }
        }
        for (other, theirs, symbols) in &before {
            let mut same = symbols.intersection(&defined);
            if let Some(symbol) = same.next() {
                let differences = differences(theirs, manifest);
                let more = same.count();
                return Some(format!(
                    "`{other}` and `{name}` both define `{symbol}` and {more} more symbols{differences}"
                ));
            }
        }
        before.push((*name, *manifest, defined));
    }
    None
}

fn differences(left: &LinkManifest, right: &LinkManifest) -> String {
    let both =
        left.interface.iter().filter_map(|(name, value)| Some((name, value, right.interface.get(name)?)));
    let differ = both.filter(|(_, left, right)| left != right);
    let list: Vec<String> =
        differ.map(|(name, left, right)| format!("{name} is {left} and {right}")).collect();
    if list.is_empty() { String::new() } else { format!("; the two copies differ: {}", list.join(", ")) }
}
