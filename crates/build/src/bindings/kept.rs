//! Bindings of earlier builds, by content: the generator, its input, and every file that it read.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::exec::binary::parse_depfile;
use gpubuild_exec::store::{self, hash_file, sha256};
use gpubuild_host::{HostInfo, HostPath, LIBRARY_LIMIT, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

use super::{BindgenCall, Bindings, BuildFolders};

/// The folder in the build store.
const FOLDER: &str = "bindings";

/// The maximum number of results per key. There is one per state of the headers, so about one per branch in use.
const STATES: usize = 8;

/// The maximum number of keys. The least recently written ones are removed.
const KEYS: usize = 64;

/// Variables that affect libclang, and those that bindgen adds.
const VARIABLES: [&str; 4] = ["BINDGEN_EXTRA_CLANG_ARGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"];

/// One kept result.
#[derive(Debug, Serialize, Deserialize)]
struct KeptBindings {
    /// Hashes of the files that were read, by path with placeholders for folders.
    read: BTreeMap<String, String>,
    /// The libclang that generated it.
    libclang: Option<String>,
    text: String,
    /// The sha256 of the text.
    sha256: String,
}

/// The results of one call.
pub(super) struct Kept {
    /// `None` if nothing is kept.
    folder: Option<HostPath>,
    is_writable: bool,
    roots: Vec<(String, &'static str)>,
    pub(super) libclang: Option<String>,
    /// The files that were read, with their hashes; empty until there is a result.
    pub(super) read: BTreeMap<String, String>,
}

impl Kept {
    pub(super) fn of(
        host: &dyn ReadFiles,
        bindings: &Bindings,
        place: &BuildFolders,
        call: &BindgenCall,
        libclang: Option<String>,
    ) -> Self {
        let roots = roots(host, bindings, place);
        let portable =
            |texts: &[String]| -> Vec<String> { texts.iter().map(|text| portable(&roots, text)).collect() };
        let under = place.krate.target.replace('-', "_");
        let of_target = [&place.krate.target, &under].map(|target| format!("{}_{target}", VARIABLES[0]));
        let variables = VARIABLES.iter().copied().chain(of_target.iter().map(String::as_str));
        let variables: Vec<Option<String>> =
            variables.map(|name| host.env().get(name).map(str::to_owned)).collect();
        let generator = bindings.key.clone().map(|key| format!("key {key}")).or_else(|| {
            let program = host.read_up_to(&host.own_program()?, LIBRARY_LIMIT).ok()?;
            Some(format!("program {:032x} {}", fingerprint(&program), program.len()))
        });
        let folder = generator.zip(place.store.as_ref()).map(|(generator, store)| {
            let parts = (
                (env!("CARGO_PKG_VERSION"), generator, &place.krate.target, &bindings.file),
                (portable(&call.headers), portable(&call.arguments), variables),
            );
            store.root.join(FOLDER).join(&sha256(&serde_json::to_vec(&parts).unwrap_or_default())[..32])
        });
        Self {
            folder,
            is_writable: place.store.as_ref().is_some_and(gpubuild_exec::store::settings::Store::is_writable),
            libclang,
            roots,
            read: BTreeMap::new(),
        }
    }

    /// The result of an earlier call that read the same files with the same libclang. If the libclang is unknown, any result is
    /// accepted.
    pub(super) fn find(&mut self, host: &dyn ReadFiles) -> Option<String> {
        let folder = self.folder.as_ref()?;
        for name in host.list(folder).ok()? {
            let path = folder.join(&name);
            let Some(entry) = store::read_json::<KeptBindings>(host, &path) else { continue };
            let same = self.libclang.is_none() || self.libclang == entry.libclang;
            let read: BTreeMap<String, String> =
                entry.read.into_iter().map(|(path, hash)| (self.expand(&path), hash)).collect_map();
            let current =
                |(path, hash): (&String, &String)| hash_of(host, path).is_some_and(|now| now == *hash);
            if same && sha256(entry.text.as_bytes()) == entry.sha256 && read.iter().all(current) {
                self.read = read;
                return Some(entry.text);
            }
        }
        None
    }

    /// Keeps a result. Returns a message for the user if it cannot be kept.
    pub(super) fn put(&mut self, host: &dyn WriteFiles, call: &BindgenCall, text: &str) -> Option<String> {
        let listed = host.read_text(&host.path(&call.depfile)).ok().and_then(|text| parse_depfile(&text));
        let paths = listed.iter().flatten().map(|path| path.replace("\\\\", "\\"));
        let paths: Vec<HostPath> = paths.map(|path| host.path(&path)).collect();
        self.read =
            call.headers.iter().filter_map(|path| Some((path.clone(), hash_of(host, path)?))).collect();
        if listed.is_none() {
            return Some(format!(
                "bindgen did not list the files that it read; pass `.depfile(\"bindings\", &call.depfile)` ({})",
                call.depfile
            ));
        }
        let found = paths.iter().filter(|path| path.is_absolute());
        self.read.extend(
            found.filter_map(|path| Some((path.normalized().to_string(), hash_of(host, path.as_str())?))),
        );
        let folder = self.folder.as_ref().filter(|_| self.is_writable)?;
        let read: BTreeMap<String, String> =
            self.read.iter().map(|(path, hash)| (portable(&self.roots, path), hash.clone())).collect_map();
        let hash = sha256(&serde_json::to_vec(&(&read, &self.libclang)).unwrap_or_default());
        let entry = KeptBindings {
            read,
            libclang: self.libclang.clone(),
            text: text.to_owned(),
            sha256: sha256(text.as_bytes()),
        };
        let path = folder.join(&format!("{}.json", &hash[..16]));
        if let Err(error) = store::write_json(host, &path, &entry) {
            return Some(format!("the result cannot be stored: {error}"));
        }
        trim(host, folder, STATES);
        if let Some(all) = folder.parent() {
            trim(host, &all, KEYS);
        }
        None
    }

    /// A path with the folders instead of the placeholders.
    fn expand(&self, path: &str) -> String {
        let expanded = self.roots.iter().find_map(|(root, token)| {
            let rest = path.strip_prefix(token)?;
            Some(format!("{root}{rest}"))
        });
        expanded.unwrap_or_else(|| path.to_owned())
    }
}

/// Folders that differ between clones and their placeholders, the longest first.
fn roots(host: &dyn HostInfo, bindings: &Bindings, place: &BuildFolders) -> Vec<(String, &'static str)> {
    let mut roots = vec![(place.krate.folder.to_string(), "{crate}"), (place.krate.out.to_string(), "{out}")];
    roots.extend(bindings.sources(host, place).map(|source| (source.to_string(), "{source}")));
    if let Some(tree) = bindings.manifest.iter().flat_map(|manifest| &manifest.trees).next() {
        let root = host.path(&tree.build).parent();
        roots.extend(root.map(|root| (root.to_string(), "{build}")));
    }
    roots.sort_indirect_by(|left, right| (right.0.len(), &right.0).cmp(&(left.0.len(), &left.0)));
    roots
}

/// A text with placeholders instead of the folders.
fn portable(roots: &[(String, &'static str)], text: &str) -> String {
    roots.iter().fold(text.to_owned(), |text, (root, token)| text.replace(root.as_str(), token))
}

/// Distinguishes builds of the running program. Build scripts are compiled without optimisation, so the sha256 of their fifty
/// megabytes takes seconds. This hash need not resist forgery, and each step is reversible, so every change affects the result.
fn fingerprint(bytes: &[u8]) -> u128 {
    const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let (blocks, rest) = bytes.as_chunks::<16>();
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let mut state = MULTIPLIER;
    for block in blocks.iter().chain([&last]) {
        state = (state ^ u128::from_le_bytes(*block)).wrapping_mul(MULTIPLIER);
        state ^= state >> 61;
    }
    state
}

fn hash_of(host: &dyn ReadFiles, path: &str) -> Option<String> {
    hash_file(host, &host.path(path)).ok().map(|(hash, _)| hash)
}

/// Removes all but the `max` most recently written entries. Failures are ignored; the next call tries again.
fn trim(host: &dyn WriteFiles, folder: &HostPath, max: usize) {
    let names = host.list(folder).unwrap_or_default();
    if names.len() <= max {
        return;
    }
    let age = |name: &String| host.stat(&folder.join(name)).ok().and_then(|stat| stat.modified);
    let mut all: Vec<(Option<u128>, String)> = names.into_iter().map(|name| (age(&name), name)).collect();
    all.sort_indirect();
    for (_, name) in &all[..all.len() - max] {
        let _ = host.remove(&folder.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_affects_the_fingerprint() {
        let program: Vec<u8> = (0..=99).collect();
        let whole = fingerprint(&program);
        for position in 0..program.len() {
            let mut other = program.clone();
            other[position] ^= 1;
            assert_ne!(fingerprint(&other), whole, "{position}");
        }
        let mut swapped = program.clone();
        swapped.rotate_left(16);
        assert_ne!(fingerprint(&swapped), whole);
    }
}
