//! Entries of the build store. An entry is published by a rename, and its files are verified with hashes whenever it is used.
//!
//! A key has at most one relocatable entry, and one entry for each pair of folders if the files contain absolute paths.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_host::{Clock, FileLock, HostPath, InspectHost, ReadFiles, Wait, WriteFiles, find_program};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contents::variable_hash;
use super::implicit_inputs::{self, ExternalHashes};
use super::key::KeyParts;
use super::outputs::StoredOutput;
use super::roots::TreeRoots;
use super::settings::Store;
use super::{hash_file, read_json, sha256, write_json};

/// Version of the format of entries.
pub const SCHEMA: u32 = 2;

/// Name of the file that describes an entry. It is written last before the entry is published.
pub const ENTRY: &str = "entry.json";

/// Name of the file with the inputs of an entry.
pub const INPUTS: &str = "inputs.json";

/// File whose modification time is the time of the last use of an entry.
pub const USED: &str = "used";

/// The content of `entry.json`, which describes an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreEntry {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `trees` or `objects`.
    pub kind: String,
    /// Key of the result.
    pub key: String,
    /// Description for users: `llama cpu-vulkan`.
    pub label: String,
    /// Version of gpubuild that created the entry.
    pub gpubuild: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Duration of the build in seconds.
    pub seconds: f64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Hash of the source and build folder if the entry can be used only there; `None` if it is relocatable.
    pub place: Option<String>,
    /// The files.
    pub files: Vec<Stored>,
    /// Symbolic links: path and target.
    pub links: Vec<(String, String)>,
}

/// A file of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Name in the entry's folder.
    pub name: String,
    /// Path to restore it to, with placeholders for source and build folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 hash.
    pub sha256: String,
    /// Whether the file is executable.
    pub executable: bool,
}

/// The content of `inputs.json`: the inputs of the build that created an entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EntryInputs {
    /// The parts of the key.
    pub parts: KeyParts,
    /// The source folder of the build.
    pub origin: String,
    /// Hashes of the files outside source and build folder that the build read.
    pub outside: BTreeMap<String, String>,
    /// Paths of the programs that the build found on PATH, by name.
    pub programs: BTreeMap<String, String>,
    /// Hash of all names in the folders of PATH, if the build searched for a program that was missing.
    pub path_names: Option<String>,
    /// Hash of the processor's properties, if the result is specific to it.
    pub processor: Option<String>,
    /// Hashes of the environment variables that scripts outside of the source folder name.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Hashes of the names in folders of the project beside the source folder.
    #[serde(default)]
    pub beside: BTreeMap<String, String>,
    /// All files that the build read, including sources.
    pub read: Vec<String>,
    /// The remaining data of the result.
    pub result: Value,
    /// The sources with their flags, for editors. `null` if they contain a secret.
    #[serde(default)]
    pub sources: Value,
}

/// Why an entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// The store has no entry for the key.
    #[error("nothing is stored for this key")]
    Absent,
    /// The entry has a newer format.
    #[error("the entry was written by a newer gpubuild")]
    Newer,
    /// The entry is incomplete or a hash does not match.
    #[error("the stored entry is damaged: {0}")]
    Damaged(String),
    /// A header, library or script outside source and build folder changed.
    #[error("`{0}`, which the stored build read, has changed")]
    Outside(String),
    /// A variable that a script outside of the source folder names has another value.
    #[error("the environment variable `{0}` has another value")]
    Variable(String),
    /// PATH now contains another program with the same name.
    #[error("`{0}` on PATH is now a different program")]
    Program(String),
    /// A program that was missing may now be on PATH.
    #[error("a program was not found on PATH, and the programs on PATH have changed since")]
    PathNames,
    /// The result is specific to another processor.
    #[error("it was built for another processor")]
    Processor,
}

/// The folder of the entries of a kind.
#[must_use]
pub fn folder(store: &Store, kind: &str) -> HostPath {
    store.root.join(kind)
}

/// The name of an entry: the key, followed by a hash of the folders unless the entry is relocatable.
#[must_use]
pub fn name(key: &str, place: Option<&str>) -> String {
    place.map_or_else(|| key.to_owned(), |place| format!("{key}-{}", place.get(..16).unwrap_or(place)))
}

/// Hash of source and build folder, which identifies entries that can be used only there.
#[must_use]
pub fn roots_hash(roots: &TreeRoots) -> String {
    sha256(format!("{}\n{}", roots.source, roots.build).as_bytes())
}

/// The possible folders of an entry for a key: first the relocatable entry, then the one for these folders.
#[must_use]
pub fn candidates(store: &Store, kind: &str, key: &str, roots: &TreeRoots) -> [HostPath; 2] {
    let place = roots_hash(roots);
    [None, Some(place.as_str())].map(|place| folder(store, kind).join(&name(key, place)))
}

/// Locks a key. Calls `waiting` if another process holds the lock.
///
/// # Errors
/// The store is not writable, or waiting was interrupted.
pub fn lock(
    host: &dyn WriteFiles,
    store: &Store,
    key: &str,
    waiting: &dyn Fn(&HostPath),
) -> std::io::Result<Option<FileLock>> {
    let path = lock_path(store, key);
    if let Some(lock) = lock_file(host, &path, Wait::No)? {
        return Ok(Some(lock));
    }
    waiting(&path);
    lock_file(host, &path, Wait::Yes)
}

/// Locks a lock file of the store. A link or a folder in its place is removed: no process can hold it.
///
/// # Errors
/// The store is not writable, or waiting was interrupted.
pub fn lock_file(host: &dyn WriteFiles, path: &HostPath, wait: Wait) -> std::io::Result<Option<FileLock>> {
    match host.lock(path, wait) {
        Err(_) if host.read_link(path).is_ok() || host.is_dir(path) => {
            host.remove(path)?;
            host.lock(path, wait)
        }
        locked => locked,
    }
}

/// The lock file of a key.
#[must_use]
pub fn lock_path(store: &Store, key: &str) -> HostPath {
    store.root.join("locks").join(&format!("{key}.lock"))
}

impl StoreEntry {
    /// Creates the description of an entry with some files. [`publish`] adds the files and links.
    #[must_use]
    pub fn new(
        host: &dyn Clock,
        roots: &TreeRoots,
        kind: &str,
        key: String,
        label: String,
        files: &[StoredOutput],
        seconds: f64,
    ) -> Self {
        let contains_paths = files.iter().any(|file| file.contains_paths);
        Self {
            schema: SCHEMA,
            kind: kind.to_owned(),
            key,
            label,
            gpubuild: env!("CARGO_PKG_VERSION").to_owned(),
            created: host.now(),
            seconds,
            bytes: 0,
            place: contains_paths.then(|| roots_hash(roots)),
            files: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Reads and verifies the entry in a folder, and checks that a build on this machine would have the same inputs.
    ///
    /// # Errors
    /// Why the entry cannot be used.
    pub fn read_usable(
        host: &dyn InspectHost,
        folder: &HostPath,
        key: &str,
        roots: &TreeRoots,
        external: &mut ExternalHashes<'_>,
    ) -> Result<(Self, EntryInputs), Miss> {
        let entry = Self::read(host, folder)?;
        let inputs = Self::inputs(host, folder)?;
        if entry.key != key || inputs.parts.key() != key {
            return Err(Miss::Damaged("it belongs to another key".to_owned()));
        }
        inputs.verify(host, roots, external)?;
        entry.verify(host, folder)?;
        Ok((entry, inputs))
    }

    /// Reads the description of an entry.
    ///
    /// # Errors
    /// The entry is missing, damaged or has another format version.
    pub fn read(host: &dyn ReadFiles, folder: &HostPath) -> Result<Self, Miss> {
        let value: Value = match host.read(&folder.join(ENTRY)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Miss::Damaged(error.to_string()))?,
            Err(_) if host.exists(folder) => return Err(Miss::Damaged(format!("no {ENTRY}"))),
            Err(_) => return Err(Miss::Absent),
        };
        let schema = value.get("schema").and_then(Value::as_u64).unwrap_or_default();
        if schema > u64::from(SCHEMA) {
            return Err(Miss::Newer);
        }
        // Entries before version 2 contain values of environment variables. Reporting them as damaged removes them.
        if schema < u64::from(SCHEMA) {
            return Err(Miss::Damaged("it was written by an older gpubuild".to_owned()));
        }
        serde_json::from_value(value).map_err(|error| Miss::Damaged(error.to_string()))
    }

    /// Reads the inputs of an entry.
    ///
    /// # Errors
    /// The file is missing or malformed.
    pub fn inputs(host: &dyn ReadFiles, folder: &HostPath) -> Result<EntryInputs, Miss> {
        read_json(host, &folder.join(INPUTS)).ok_or_else(|| Miss::Damaged(format!("no {INPUTS}")))
    }

    /// Verifies the hashes of all files.
    ///
    /// # Errors
    /// The first file that differs.
    pub fn verify(&self, host: &dyn ReadFiles, folder: &HostPath) -> Result<(), Miss> {
        for file in &self.files {
            let path = folder.join(&file.name);
            let (sha256, bytes) =
                hash_file(host, &path).map_err(|error| Miss::Damaged(format!("`{path}`: {error}")))?;
            if bytes != file.bytes || sha256 != file.sha256 {
                return Err(Miss::Damaged(format!("the hash of `{path}` does not match")));
            }
        }
        Ok(())
    }

    /// Copies all files to their destinations, then creates the links.
    ///
    /// # Errors
    /// A file cannot be copied or a link cannot be created.
    pub fn restore(
        &self,
        host: &dyn WriteFiles,
        folder: &HostPath,
        roots: &TreeRoots,
    ) -> std::io::Result<()> {
        for file in &self.files {
            let path = roots.path(&file.path);
            host.duplicate(&folder.join(&file.name), &path)?;
            if file.executable {
                host.set_executable(&path)?;
            }
        }
        for (path, text) in &self.links {
            let path = roots.path(path);
            host.remove(&path)?;
            host.symlink(text, &path)?;
        }
        Ok(())
    }

    /// All paths that [`StoreEntry::restore`] creates.
    #[must_use]
    pub fn paths(&self, roots: &TreeRoots) -> Vec<String> {
        let files = self.files.iter().map(|file| &file.path).chain(self.links.iter().map(|(path, _)| path));
        files.map(|path| roots.path(path).to_string()).collect()
    }
}

impl EntryInputs {
    /// Checks that all inputs outside source and build folder are unchanged.
    ///
    /// # Errors
    /// The first input that changed.
    pub fn verify(
        &self,
        host: &dyn ReadFiles,
        roots: &TreeRoots,
        external: &mut ExternalHashes<'_>,
    ) -> Result<(), Miss> {
        if self.processor.is_some() && self.processor != implicit_inputs::processor(host) {
            return Err(Miss::Processor);
        }
        for (name, path) in &self.programs {
            if find_program(host, name).first().is_none_or(|found| found.as_str() != path) {
                return Err(Miss::Program(name.clone()));
            }
        }
        if self.path_names.is_some() && self.path_names != Some(path_names(host)) {
            return Err(Miss::PathNames);
        }
        let differs = |(name, hash): &(&String, &String)| variable_hash(host.env(), name.as_str()) != **hash;
        if let Some((name, _)) = self.variables.iter().find(differs) {
            return Err(Miss::Variable(name.clone()));
        }
        let origin = host.path(&self.origin);
        for (folder, expected) in &self.beside {
            let folder = corresponding_path(host, folder, &origin, roots);
            let names = implicit_inputs::names_beside(host, &BTreeSet::from([folder.clone()]));
            if names.get(&folder) != Some(expected) {
                return Err(Miss::Outside(folder));
            }
        }
        let mut paths: Vec<String> = Vec::new();
        for path in self.outside.keys() {
            paths.push(corresponding_path(host, path, &origin, roots));
        }
        let hashes = external.hashes(&paths);
        for ((_, expected), (path, found)) in self.outside.iter().zip(paths.into_iter().zip(hashes)) {
            if found.as_ref() != Some(expected) {
                return Err(Miss::Outside(path));
            }
        }
        Ok(())
    }
}

/// Returns the path that a build in this source folder would read instead of `path`. `../cmake/x.cmake` next to another
/// clone corresponds to the file next to this clone; `/usr/include/stdio.h` is the same for both.
fn corresponding_path(host: &dyn ReadFiles, path: &str, origin: &HostPath, roots: &TreeRoots) -> String {
    let absolute = roots.path(path);
    if path.starts_with('{') || *origin == roots.source {
        return absolute.to_string();
    }
    let (from, to): (Vec<&str>, Vec<&str>) =
        (origin.as_str().split(['/', '\\']).collect(), path.split(['/', '\\']).collect());
    let shared = from.iter().zip(&to).take_while(|(left, right)| left == right).count();
    let up = "../".repeat(from.len() - shared);
    let here = roots.source.join(&format!("{up}{}", to[shared..].join("/"))).normalized();
    // Paths that share only the root are unrelated, as are caches and environments of a user.
    let is_unrelated = shared <= 1 || (path.contains("/.") && !host.exists(&here));
    if is_unrelated { absolute.to_string() } else { here.to_string() }
}

/// Hash of all names in the folders of PATH.
#[must_use]
pub fn path_names(host: &dyn ReadFiles) -> String {
    let folders = gpubuild_detect::toolkit::places::path_folders(host);
    let names: Vec<String> =
        folders.iter().map(|folder| host.list(folder).unwrap_or_default().join("\n")).collect();
    sha256(names.join("\0").as_bytes())
}

/// An entry to be published.
pub struct EntryDraft<'a> {
    /// Its description without files and links, which [`publish`] adds.
    pub entry: StoreEntry,
    /// The inputs of the build.
    pub inputs: EntryInputs,
    /// The files.
    pub outputs: &'a [StoredOutput],
    /// Symbolic links: path and target.
    pub links: &'a [(HostPath, String)],
}

/// Publishes an entry. The caller must hold the key's lock.
///
/// # Errors
/// A file cannot be written. A failure never leaves a partial entry under the final name.
pub fn publish(
    host: &dyn WriteFiles,
    store: &Store,
    roots: &TreeRoots,
    draft: EntryDraft<'_>,
) -> std::io::Result<StoreEntry> {
    let kind = draft.entry.kind.clone();
    let name = name(&draft.entry.key, draft.entry.place.as_deref());
    let partial = partial(store, &kind, &name);
    host.remove(&partial)?;
    let written = write_partial(host, &partial, roots, draft);
    let published = written.and_then(|entry| publish_partial(host, store, &kind, &name).map(|()| entry));
    if published.is_err() {
        // A leftover folder does no harm, and the next attempt removes it.
        let _ = host.remove(&partial);
    }
    published
}

/// The folder in which an entry is written before it is published.
#[must_use]
pub fn partial(store: &Store, kind: &str, name: &str) -> HostPath {
    folder(store, kind).join(&format!(".{name}.partial"))
}

/// Publishes the complete entry in its [`partial`] folder by a rename. The caller must hold the key's lock.
///
/// # Errors
/// The folder cannot be renamed.
pub fn publish_partial(host: &dyn WriteFiles, store: &Store, kind: &str, name: &str) -> std::io::Result<()> {
    let all = folder(store, kind);
    let (target, old) = (all.join(name), all.join(&format!(".{name}.old")));
    host.remove(&old)?;
    if host.exists(&target) {
        host.rename(&target, &old)?;
    }
    let renamed = host.rename(&partial(store, kind, name), &target);
    // A leftover folder does no harm, and the next attempt removes it.
    let _ = host.remove(&old);
    renamed
}

fn write_partial(
    host: &dyn WriteFiles,
    folder: &HostPath,
    roots: &TreeRoots,
    draft: EntryDraft<'_>,
) -> std::io::Result<StoreEntry> {
    let EntryDraft { mut entry, inputs, outputs, links } = draft;
    for (index, output) in outputs.iter().enumerate() {
        let base = output.path.file_name().unwrap_or("file");
        let name = format!("files/{index}-{base}");
        host.duplicate(&output.path, &folder.join(&name))?;
        entry.bytes += output.bytes;
        entry.files.push(Stored {
            name,
            path: roots.with_placeholders(output.destination.as_str()),
            bytes: output.bytes,
            sha256: output.sha256.clone(),
            executable: output.executable,
        });
    }
    entry.links =
        links.iter().map(|(path, text)| (roots.with_placeholders(path.as_str()), text.clone())).collect();
    write_json(host, &folder.join(INPUTS), &inputs)?;
    host.write(&folder.join(USED), b"")?;
    write_json(host, &folder.join(ENTRY), &entry)?;
    Ok(entry)
}

/// Records the use of an entry. Failures are ignored so that read-only stores can be used.
pub fn record_use(host: &dyn WriteFiles, folder: &HostPath) {
    if let Err(error) = host.write(&folder.join(USED), b"") {
        log::debug!("failed to record the use of `{folder}`: {error}");
    }
}
