//! Entries: what was made once, published by one rename, compared with its hashes each time it is used.
//!
//! A key holds at most one entry that serves everywhere and one for each place that its files name.

use std::collections::BTreeMap;

use gpubuild_host::{Clock, FileLock, HostPath, InspectHost, ReadFiles, Wait, WriteFiles, find_program};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::KeyParts;
use super::outputs::StoredOutput;
use super::places::Places;
use super::settings::Store;
use super::surroundings::{self, RelocatedFolders};
use super::{read_json, sha256, write_json};

/// Version of the form of an entry.
pub const SCHEMA: u32 = 2;

/// Name of the file that says what an entry holds; written before the entry is published.
pub const ENTRY: &str = "entry.json";

const INPUTS: &str = "inputs.json";

/// File whose time says when an entry was used last.
pub const USED: &str = "used";

/// What an entry holds: `entry.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreEntry {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `tree` or `objects`.
    pub kind: String,
    /// Key.
    pub key: String,
    /// What it is, for people: `llama cpu-vulkan`.
    pub label: String,
    /// Version of gpubuild that made it.
    pub gpubuild: String,
    /// When, in seconds since 1970.
    pub created: u64,
    /// How long it took to make.
    pub seconds: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Whether it serves only the folders that it was made in.
    pub place: Option<String>,
    /// Its files.
    pub files: Vec<Stored>,
    /// Symbolic links: where, and what they say.
    pub links: Vec<(String, String)>,
}

/// A file of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Its name in the entry.
    pub name: String,
    /// Where it belongs.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Its hash.
    pub sha256: String,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What an entry was made of: `inputs.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EntryInputs {
    /// Everything that was known before.
    pub parts: KeyParts,
    /// The source folder that it was made from.
    pub origin: String,
    /// Files outside of sources and build folder that were read, with hashes.
    pub outside: BTreeMap<String, String>,
    /// Programs that were found on PATH, by name.
    pub programs: BTreeMap<String, String>,
    /// The names in the folders of PATH, if something was searched there in vain.
    pub path_names: Option<String>,
    /// The processor, if the result is made for it.
    pub processor: Option<String>,
    /// Every file that was read, sources among them.
    pub read: Vec<String>,
    /// What else belongs to the result.
    pub result: Value,
}

/// Why an entry does not serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// There is none.
    #[error("nothing is stored for this key")]
    Absent,
    /// A later version wrote it.
    #[error("a later gpubuild wrote the entry")]
    Newer,
    /// It is not what it says.
    #[error("the stored entry is damaged: {0}")]
    Damaged(String),
    /// A header, a library or a script elsewhere.
    #[error("`{0}`, which was read, is not what it was")]
    Outside(String),
    /// A program on PATH.
    #[error("`{0}` on PATH is another program than it was")]
    Program(String),
    /// Something that was not there may be found now.
    #[error("something was searched on PATH in vain, and other programs are there now")]
    PathNames,
    /// Another processor.
    #[error("it was made for another processor")]
    Processor,
}

/// Where the entries of a kind lie.
#[must_use]
pub fn folder(store: &Store, kind: &str) -> HostPath {
    store.root.join(kind)
}

/// The name of an entry for everywhere or for one place.
#[must_use]
pub fn name(key: &str, place: Option<&str>) -> String {
    place.map_or_else(|| key.to_owned(), |place| format!("{key}-{}", place.get(..16).unwrap_or(place)))
}

/// What stands for the folders of a build in the name of an entry that serves only there.
#[must_use]
pub fn place_of(places: &Places) -> String {
    sha256(format!("{}\n{}", places.source, places.build).as_bytes())
}

/// Where an entry may lie: the one that serves everywhere, then the one for a place.
#[must_use]
pub fn candidates(store: &Store, kind: &str, key: &str, places: &Places) -> [HostPath; 2] {
    let place = place_of(places);
    [None, Some(place.as_str())].map(|place| folder(store, kind).join(&name(key, place)))
}

/// Takes the lock of a key; `waiting` is called if somebody else holds it.
///
/// # Errors
/// It cannot be taken: the store cannot be written, or the waiting was interrupted.
pub fn lock(
    host: &dyn WriteFiles,
    store: &Store,
    key: &str,
    waiting: &dyn Fn(&HostPath),
) -> std::io::Result<Option<FileLock>> {
    let path = lock_path(store, key);
    if let Some(lock) = host.lock(&path, Wait::No)? {
        return Ok(Some(lock));
    }
    waiting(&path);
    host.lock(&path, Wait::Yes)
}

/// The lock file of a key.
#[must_use]
pub fn lock_path(store: &Store, key: &str) -> HostPath {
    store.root.join("locks").join(&format!("{key}.lock"))
}

impl StoreEntry {
    /// What is to be published of some files; they are filled in then.
    #[must_use]
    pub fn new(
        host: &dyn Clock,
        places: &Places,
        kind: &str,
        key: String,
        label: String,
        files: &[StoredOutput],
        seconds: f64,
    ) -> Self {
        let names_place = files.iter().any(|file| file.names_place);
        Self {
            schema: SCHEMA,
            kind: kind.to_owned(),
            key,
            label,
            gpubuild: env!("CARGO_PKG_VERSION").to_owned(),
            created: host.now(),
            seconds,
            bytes: 0,
            place: names_place.then(|| place_of(places)),
            files: Vec::new(),
            links: Vec::new(),
        }
    }

    /// What a folder holds and what it was made of, if both are whole and a build here would read the same.
    ///
    /// # Errors
    /// Why it does not serve.
    pub fn serving(
        host: &dyn InspectHost,
        folder: &HostPath,
        places: &Places,
        elsewhere: &mut RelocatedFolders<'_>,
    ) -> Result<(Self, EntryInputs), Miss> {
        let entry = Self::read(host, folder)?;
        let inputs = Self::inputs(host, folder)?;
        inputs.hold(host, places, elsewhere)?;
        entry.verify(host, folder)?;
        Ok((entry, inputs))
    }

    /// What a folder holds.
    ///
    /// # Errors
    /// Nothing that can be used.
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
        // Versions before 2 stored values of variables: their entries are removed.
        if schema < u64::from(SCHEMA) {
            return Err(Miss::Damaged("an earlier gpubuild wrote it".to_owned()));
        }
        serde_json::from_value(value).map_err(|error| Miss::Damaged(error.to_string()))
    }

    /// What it was made of.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn inputs(host: &dyn ReadFiles, folder: &HostPath) -> Result<EntryInputs, Miss> {
        read_json(host, &folder.join(INPUTS)).ok_or_else(|| Miss::Damaged(format!("no {INPUTS}")))
    }

    /// Compares every file with its hash.
    ///
    /// # Errors
    /// The first that differs.
    pub fn verify(&self, host: &dyn ReadFiles, folder: &HostPath) -> Result<(), Miss> {
        for file in &self.files {
            let path = folder.join(&file.name);
            let bytes = host.read(&path).map_err(|error| Miss::Damaged(format!("`{path}`: {error}")))?;
            if bytes.len() as u64 != file.bytes || sha256(&bytes) != file.sha256 {
                return Err(Miss::Damaged(format!("`{path}` does not have its hash")));
            }
        }
        Ok(())
    }

    /// Puts every file where it belongs, links last.
    ///
    /// # Errors
    /// The first that cannot be put there.
    pub fn put(&self, host: &dyn WriteFiles, folder: &HostPath, places: &Places) -> std::io::Result<()> {
        for file in &self.files {
            let path = places.path(&file.path);
            host.duplicate(&folder.join(&file.name), &path)?;
            if file.executable {
                host.set_executable(&path)?;
            }
        }
        for (path, text) in &self.links {
            let path = places.path(path);
            host.remove(&path)?;
            host.symlink(text, &path)?;
        }
        Ok(())
    }

    /// Every path that [`StoreEntry::put`] makes.
    #[must_use]
    pub fn paths(&self, places: &Places) -> Vec<String> {
        let files = self.files.iter().map(|file| &file.path).chain(self.links.iter().map(|(path, _)| path));
        files.map(|path| places.path(path).to_string()).collect()
    }
}

impl EntryInputs {
    /// Whether everything that was read outside is what it was.
    ///
    /// # Errors
    /// What is not.
    pub fn hold(
        &self,
        host: &dyn ReadFiles,
        places: &Places,
        elsewhere: &mut RelocatedFolders<'_>,
    ) -> Result<(), Miss> {
        if self.processor.is_some() && self.processor != surroundings::processor(host) {
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
        let origin = host.path(&self.origin);
        let mut paths: Vec<String> = Vec::new();
        for path in self.outside.keys() {
            paths.push(nearest(host, path, &origin, places));
        }
        let hashes = elsewhere.hashes(&paths);
        for ((_, expected), (path, found)) in self.outside.iter().zip(paths.into_iter().zip(hashes)) {
            if found.as_ref() != Some(expected) {
                return Err(Miss::Outside(path));
            }
        }
        Ok(())
    }
}

/// The file that a build here would read in place of one that was read there: `../cmake/x.cmake` of another clone is
/// this clone's, `/usr/include/stdio.h` is the same everywhere.
fn nearest(host: &dyn ReadFiles, path: &str, origin: &HostPath, places: &Places) -> String {
    let absolute = places.path(path);
    if path.starts_with('{') || *origin == places.source {
        return absolute.to_string();
    }
    let (from, to): (Vec<&str>, Vec<&str>) =
        (origin.as_str().split(['/', '\\']).collect(), path.split(['/', '\\']).collect());
    let shared = from.iter().zip(&to).take_while(|(left, right)| left == right).count();
    let up = "../".repeat(from.len() - shared);
    let here = places.source.join(&format!("{up}{}", to[shared..].join("/"))).normalized();
    // Above the root there is nothing: then they share nothing but that.
    let is_known_elsewhere = shared <= 1 || !host.is_file(&here);
    if is_known_elsewhere { absolute.to_string() } else { here.to_string() }
}

/// A hash of the names in all folders of PATH.
#[must_use]
pub fn path_names(host: &dyn ReadFiles) -> String {
    let folders = gpubuild_detect::toolkit::places::path_folders(host);
    let names: Vec<String> =
        folders.iter().map(|folder| host.list(folder).unwrap_or_default().join("\n")).collect();
    sha256(names.join("\0").as_bytes())
}

/// What is put into a store.
pub struct EntryDraft<'a> {
    /// What it will say of itself; files and links are filled in.
    pub entry: StoreEntry,
    /// What it was made of.
    pub inputs: EntryInputs,
    /// Its files.
    pub outputs: &'a [StoredOutput],
    /// Links, with what they say.
    pub links: &'a [(HostPath, String)],
}

/// Publishes an entry. Only under the key's lock.
///
/// # Errors
/// What the system said. Nothing half-written stays where entries are looked for.
pub fn publish(
    host: &dyn WriteFiles,
    store: &Store,
    places: &Places,
    draft: EntryDraft<'_>,
) -> std::io::Result<StoreEntry> {
    let all = folder(store, &draft.entry.kind);
    let name = name(&draft.entry.key, draft.entry.place.as_deref());
    let (partial, old) = (all.join(&format!(".{name}.partial")), all.join(&format!(".{name}.old")));
    host.remove(&partial)?;
    let made = make(host, &partial, places, draft);
    let published = made.and_then(|entry| {
        let place = all.join(&name);
        host.remove(&old)?;
        if host.exists(&place) {
            host.rename(&place, &old)?;
        }
        host.rename(&partial, &place)?;
        Ok(entry)
    });
    // Whatever happened, it is in nobody's way; the next attempt removes it as well.
    let _ = host.remove(&old);
    if published.is_err() {
        let _ = host.remove(&partial);
    }
    published
}

fn make(
    host: &dyn WriteFiles,
    folder: &HostPath,
    places: &Places,
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
            path: places.take_out(output.belongs.as_str()),
            bytes: output.bytes,
            sha256: output.sha256.clone(),
            executable: output.executable,
        });
    }
    entry.links = links.iter().map(|(path, text)| (places.take_out(path.as_str()), text.clone())).collect();
    write_json(host, &folder.join(INPUTS), &inputs)?;
    host.write(&folder.join(USED), b"")?;
    write_json(host, &folder.join(ENTRY), &entry)?;
    Ok(entry)
}

/// Notes that an entry was used. A store that cannot be written is used all the same.
pub fn note_use(host: &dyn WriteFiles, folder: &HostPath) {
    if let Err(error) = host.write(&folder.join(USED), b"") {
        log::debug!("failed to record the use of `{folder}`: {error}");
    }
}
