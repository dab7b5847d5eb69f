//! Writes the folder of a release: blobs by hash, one entry per packed variant, the manifest, and an OCI image layout with the same
//! contents. The new folder is written beside the old one, then replaces it atomically.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_exec::store::sha256;
use gpubuild_host::folders::cache_folder;
use gpubuild_host::leftovers::Leftover;
use gpubuild_host::links::{refuse_link, refuse_links_below};
use gpubuild_host::{FileLock, Host, HostPath, ReadFiles, Wait};
use serde::Serialize;

use super::PackError;
pub use super::existing::{BLOBS, MANIFEST, PackedRelease, ReleaseEntry, VARIANTS, read};
use super::sign::Signer;
use crate::manifest::{self, AttachedFile, ReleaseManifest, ReleasePlatform, ReleaseVariant};

/// Suffixes of the folder under construction and of the one that was replaced.
const NEW: &str = "new";
const OLD: &str = "old";
/// Checks that a release folder, its contents, and the temporary folders beside it are not links.
///
/// # Errors
/// The first link.
pub fn refuse_links(host: &dyn ReadFiles, folder: &HostPath) -> Result<(), PackError> {
    refuse_link(host, &beside(folder, NEW))?;
    refuse_link(host, &beside(folder, OLD))?;
    Ok(refuse_links_below(host, folder.clone())?)
}

/// The options of a published release.
pub struct PublishOptions<'a> {
    /// Days until the manifest expires; `None` for the default.
    pub days: Option<u64>,
    /// The serial; `None` for the next one.
    pub serial: Option<u64>,
    /// The label of the default variant; `None` for the smallest one that runs without a GPU.
    pub default: Option<&'a str>,
    /// The GPU backends that the publisher prefers, best first.
    pub prefer: &'a [Backend],
    /// The key that signs the manifest.
    pub signer: Option<&'a Signer>,
    /// The current time in seconds since 1970.
    pub now: u64,
}

/// The default number of days until a manifest expires.
const DEFAULT_DAYS: u64 = 365;

/// A published release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The manifest; `None` as long as a platform has no variant that runs without a GPU.
    pub manifest: Option<ReleaseManifest>,
    /// Platforms without a variant that runs without a GPU.
    pub incomplete: Vec<String>,
    /// Labels and versions of removed entries, which had another version.
    pub dropped: Vec<String>,
    /// The total size of all layers in bytes, each counted once.
    pub bytes: u64,
    /// The replaced release, if it could not be removed, with the error.
    pub remains: Option<String>,
}

/// A release folder under construction.
pub struct ReleaseWork<'a> {
    host: &'a dyn Host,
    folder: HostPath,
    pub(super) temporary: HostPath,
    before: PackedRelease,
    _leftover: Leftover,
    _lock: Option<FileLock>,
}

impl<'a> ReleaseWork<'a> {
    /// Starts a new release. Waits for another process that packs into the same folder, and removes the remains of a killed run.
    ///
    /// # Errors
    /// See [`read`].
    pub fn begin(host: &'a dyn Host, folder: &HostPath) -> Result<Self, PackError> {
        let lock = match cache_folder(host) {
            None => None,
            Some(cache) => {
                let path = cache.join("locks").join(&format!("{}.lock", sha256(folder.key().as_bytes())));
                host.lock(&path, Wait::Yes).map_err(|error| PackError::io("lock", &path, &error))?
            }
        };
        refuse_links(host, folder)?;
        let (temporary, aside) = (beside(folder, NEW), beside(folder, OLD));
        // A process was killed between the two renames of `switch` on a file system without atomic exchange.
        if !host.exists(folder) && host.is_dir(&aside) {
            host.rename(&aside, folder).map_err(|error| PackError::io("restore", folder, &error))?;
        }
        let before = read(host, folder)?;
        let leftover = Leftover::new(&temporary);
        let work = Self { host, folder: folder.clone(), temporary, before, _leftover: leftover, _lock: lock };
        work.clear()?;
        for inner in [BLOBS, VARIANTS] {
            let inner = work.temporary.join(inner);
            host.create_dir_all(&inner).map_err(|error| PackError::io("create", &inner, &error))?;
        }
        Ok(work)
    }

    /// The folder in which layers are written.
    #[must_use]
    pub fn blobs(&self) -> HostPath {
        self.temporary.join(BLOBS)
    }

    /// The folder under construction.
    #[must_use]
    pub fn temporary(&self) -> &HostPath {
        &self.temporary
    }

    /// The existing release in the folder.
    #[must_use]
    pub fn before(&self) -> &PackedRelease {
        &self.before
    }

    /// Removes the folder under construction.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn clear(&self) -> Result<(), PackError> {
        self.host.remove(&self.temporary).map_err(|error| PackError::io("remove", &self.temporary, &error))
    }

    /// Adds a blob from another release folder.
    ///
    /// # Errors
    /// The blob is missing, or its size or hash is wrong.
    pub fn add_blob(&self, from: &HostPath, name: &str, size: u64) -> Result<(), PackError> {
        let (source, target) = (from.join(BLOBS).join(name), self.blobs().join(name));
        if self.host.exists(&target) {
            return Ok(());
        }
        let damaged = |what: &str| PackError::Damaged { path: source.to_string(), what: what.to_owned() };
        let found =
            self.host.stat(&source).map_err(|_| damaged("a variant lists it, but it does not exist"))?;
        if found.size != size {
            return Err(damaged(&format!("it has {} bytes, but its variant declares {size}", found.size)));
        }
        if *from == self.folder || *from == self.temporary {
            return self.host.link(&source, &target).map_err(|error| PackError::io("link", &target, &error));
        }
        // Files in another folder may change later, so they are copied, and the copy is verified.
        self.host.duplicate(&source, &target).map_err(|error| PackError::io("copy", &target, &error))?;
        if super::layer::sum(self.host, &target)? != name {
            self.host.remove(&target).map_err(|error| PackError::io("remove", &target, &error))?;
            return Err(damaged("its content does not match the sha256 in its name"));
        }
        Ok(())
    }

    /// Adds a document about a variant.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn attach(&self, text: &str) -> Result<AttachedFile, PackError> {
        let file = AttachedFile { sha256: sha256(text.as_bytes()), size: text.len() as u64 };
        self.write(&self.blobs().join(&file.sha256), text.as_bytes())?;
        Ok(file)
    }

    /// Adds the layers of an entry and the documents about it from another release folder.
    ///
    /// # Errors
    /// See [`add_blob`](Self::add_blob).
    pub fn add_blobs(&self, from: &HostPath, variant: &ReleaseVariant) -> Result<(), PackError> {
        let layers = variant.layers.iter().map(|layer| (&layer.sha256, layer.size));
        for (name, size) in layers.chain(variant.attached().map(|file| (&file.sha256, file.size))) {
            self.add_blob(from, name, size)?;
        }
        Ok(())
    }

    /// Publishes these entries together with the existing ones of the same version. The folder is replaced atomically.
    ///
    /// # Errors
    /// A file cannot be written, the serial is not higher than the last one, or the folder contains another release.
    pub fn publish(
        self,
        new: Vec<ReleaseEntry>,
        options: &PublishOptions<'_>,
    ) -> Result<Published, PackError> {
        let switched = |published| Ok(Published { remains: self.switch()?, ..published });
        let result = self.fill(new, options).and_then(switched);
        if result.is_err() {
            // The remains do not affect later runs.
            let _ = self.clear();
        }
        result
    }

    fn fill(&self, new: Vec<ReleaseEntry>, options: &PublishOptions<'_>) -> Result<Published, PackError> {
        let (entries, dropped) = self.entries(new)?;
        let mut layers = BTreeMap::new();
        for entry in entries.values() {
            self.add_blobs(&self.folder, &entry.variant)?;
            for layer in &entry.variant.layers {
                layers.insert(layer.sha256.clone(), layer.size);
            }
            let path = self.temporary.join(VARIANTS).join(&entry.file());
            self.write(&path, &pretty(entry)?)?;
        }
        let (platforms, incomplete) = platforms(&entries, options)?;
        let mut published =
            Published { manifest: None, incomplete, dropped, bytes: layers.values().sum(), remains: None };
        let Some(first) = entries.values().next() else { return Ok(published) };
        if !published.incomplete.is_empty() {
            return Ok(published);
        }
        let manifest = self.manifest(&first.name, &first.version, platforms, options)?;
        self.documents(&manifest, &layers, options)?;
        published.manifest = Some(manifest);
        Ok(published)
    }

    /// All entries by file name, and the existing ones that are removed.
    fn entries(
        &self,
        new: Vec<ReleaseEntry>,
    ) -> Result<(BTreeMap<String, ReleaseEntry>, Vec<String>), PackError> {
        let mut entries: BTreeMap<String, ReleaseEntry> = BTreeMap::new();
        for entry in new {
            if let Some(other) =
                entries.values().find(|other| other.name != entry.name || other.version != entry.version)
            {
                return Err(PackError::Mixed {
                    one: format!("{} {}", other.name, other.version),
                    other: format!("{} {}", entry.name, entry.version),
                });
            }
            // The same files as before: the statement about them stays, so that the manifest does.
            let before = self.before.entries.iter().find(|before| before.is_same_build(&entry));
            let entry = before.cloned().unwrap_or(entry);
            entries.insert(entry.file(), entry);
        }
        let mut dropped = Vec::new();
        let first = entries.values().next().map(|entry| (entry.name.clone(), entry.version.clone()));
        for entry in &self.before.entries {
            match &first {
                Some((name, _)) if *name != entry.name => {
                    return Err(PackError::Mixed { one: entry.name.clone(), other: name.clone() });
                }
                Some((_, version)) if *version != entry.version => {
                    dropped.push(format!("{} {}", entry.variant.label, entry.version));
                }
                _ => {
                    entries.entry(entry.file()).or_insert_with(|| entry.clone());
                }
            }
        }
        Ok((entries, dropped))
    }

    fn manifest(
        &self,
        name: &str,
        version: &str,
        platforms: BTreeMap<String, ReleasePlatform>,
        options: &PublishOptions<'_>,
    ) -> Result<ReleaseManifest, PackError> {
        let before = self.before.manifest.as_ref();
        let same = before.filter(|before| {
            before.name == name && before.version == version && before.platforms == platforms
        });
        let has_serial = |same: &&ReleaseManifest| options.serial.is_none_or(|serial| serial == same.serial);
        if let Some(same) = same.filter(has_serial).filter(|_| options.days.is_none()) {
            return Ok(same.clone());
        }
        let next = || before.map_or(1, |before| before.serial.saturating_add(1));
        let serial = options.serial.unwrap_or_else(next);
        // Clients reject two manifests with the same serial.
        if let Some(before) = before.filter(|before| serial <= before.serial) {
            return Err(PackError::Serial { wanted: serial, known: before.serial });
        }
        let expires = options.now + options.days.unwrap_or(DEFAULT_DAYS) * 24 * 60 * 60;
        let manifest = ReleaseManifest {
            schema: manifest::SCHEMA.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            serial,
            expires,
            platforms,
        };
        // Parse the manifest as clients do, so that an invalid one is never published.
        let damaged = |problem: manifest::ManifestProblem| PackError::Damaged {
            path: self.temporary.join(MANIFEST).to_string(),
            what: problem.to_string(),
        };
        manifest::read(&pretty(&manifest)?).map_err(damaged)
    }

    pub(super) fn write(&self, path: &HostPath, bytes: &[u8]) -> Result<(), PackError> {
        self.host.write(path, bytes).map_err(|error| PackError::io("write", path, &error))
    }

    /// Replaces the release folder by the new one, so that it survives a power failure.
    fn switch(&self) -> Result<Option<String>, PackError> {
        let replaced = self.replace()?;
        if let Some(parent) = self.folder.parent() {
            // Not every file system can flush a folder.
            let _ = self.host.flush(&parent);
        }
        let removed =
            replaced.map(|path| self.host.remove(&path).map_err(|error| format!("`{path}`: {error}")));
        Ok(removed.and_then(Result::err))
    }

    /// Puts the new folder in its place. Returns the path of the old one.
    fn replace(&self) -> Result<Option<HostPath>, PackError> {
        let io = |error: std::io::Error| PackError::io("replace", &self.folder, &error);
        if !self.host.exists(&self.folder) {
            return self.host.rename(&self.temporary, &self.folder).map(|()| None).map_err(io);
        }
        match self.host.exchange(&self.temporary, &self.folder) {
            Ok(()) => Ok(Some(self.temporary.clone())),
            // Without atomic exchange, the folder is missing for a moment between the two renames.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                let aside = beside(&self.folder, OLD);
                self.host.remove(&aside).map_err(io)?;
                self.host.rename(&self.folder, &aside).map_err(io)?;
                self.host.rename(&self.temporary, &self.folder).map_err(io)?;
                Ok(Some(aside))
            }
            Err(error) => Err(io(error)),
        }
    }
}

/// The path of a hidden folder beside another one.
fn beside(folder: &HostPath, what: &str) -> HostPath {
    let name = folder.file_name().unwrap_or("release");
    let parent = folder.parent().unwrap_or_else(|| folder.clone());
    parent.join(&format!(".{name}.gpubuild-{what}"))
}

/// The platforms of a manifest, and the ids of those without a variant that runs without a GPU.
fn platforms(
    entries: &BTreeMap<String, ReleaseEntry>,
    options: &PublishOptions<'_>,
) -> Result<(BTreeMap<String, ReleasePlatform>, Vec<String>), PackError> {
    let ids: BTreeSet<&String> = entries.values().map(|entry| &entry.platform).collect_set();
    let (mut platforms, mut incomplete) = (BTreeMap::new(), Vec::new());
    for id in ids {
        let variants: Vec<ReleaseVariant> = entries
            .values()
            .filter(|entry| entry.platform == *id)
            .map(|entry| entry.variant.clone())
            .collect();
        let runs_on_cpu = |variant: &&ReleaseVariant| variant.backends.contains(&Backend::Cpu);
        let named = options.default.and_then(|label| variants.iter().find(|variant| variant.label == label));
        if let Some(named) = named.filter(|named| !runs_on_cpu(named)) {
            return Err(PackError::Default { label: named.label.clone() });
        }
        // The smallest one: fewest backends, then fewest bytes.
        let smallest = variants
            .iter()
            .filter(runs_on_cpu)
            .min_by_key(|one| (one.backends.len(), one.size(), one.label.clone()));
        match named.or(smallest) {
            None => incomplete.push(id.clone()),
            Some(default) => {
                let default = default.label.clone();
                let prefer = options.prefer.to_vec();
                platforms.insert(id.clone(), ReleasePlatform { default, prefer, variants });
            }
        }
    }
    Ok((platforms, incomplete))
}

pub(super) fn pretty(value: &impl Serialize) -> Result<Vec<u8>, PackError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| PackError::Other(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}
