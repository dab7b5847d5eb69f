//! The folder of a release: blobs by their hash, an entry for each packed variant, the manifest, and the same once more as an OCI
//! image layout. It is made beside the old one and takes its place in one step.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_exec::store::sha256;
use gpubuild_host::folders::cache_folder;
use gpubuild_host::links::{refuse_link, refuse_links_below};
use gpubuild_host::{FileLock, Host, HostPath, ReadFiles, Wait};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PackError;
use super::sign::Signer;
use crate::manifest::{self, ReleaseManifest, ReleasePlatform, ReleaseVariant};
use crate::trust;

/// Name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// Suffixes of the folder under construction and of the one that was replaced.
const NEW: &str = "new";
const OLD: &str = "old";
/// Folder of the blobs.
pub const BLOBS: &str = "blobs/sha256";
/// Folder of the entries.
pub const VARIANTS: &str = "variants";
/// The form of [`ReleaseEntry`].
const ENTRY_SCHEMA: &str = "gpubuild.variant/1";
/// The entries at the top of a release folder.
const OURS: [&str; 6] = [MANIFEST, "manifest.json.minisig", VARIANTS, "blobs", "oci-layout", "index.json"];

/// A packed variant: `variants/linux-x86_64-cuda13.json`. Machines that each packed one are merged by these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseEntry {
    schema: String,
    /// Name of what is released.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `linux-x86_64`.
    pub platform: String,
    /// The variant as the manifest has it.
    pub variant: ReleaseVariant,
    /// What each of its layers is made of, so that the same is not compressed again.
    pub contents: Vec<String>,
}

impl ReleaseEntry {
    /// An entry.
    #[must_use]
    pub fn new(
        name: &str,
        version: &str,
        platform: &str,
        variant: ReleaseVariant,
        contents: Vec<String>,
    ) -> Self {
        Self {
            schema: ENTRY_SCHEMA.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            platform: platform.to_owned(),
            variant,
            contents,
        }
    }

    fn file(&self) -> String {
        format!("{}-{}.json", self.platform, self.variant.label)
    }
}

/// The contents of a release folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedRelease {
    /// The entries.
    pub entries: Vec<ReleaseEntry>,
    /// The manifest, as it was written.
    pub manifest: Option<ReleaseManifest>,
}

/// Reads a folder. A folder that does not exist or is empty has no contents.
///
/// # Errors
/// The folder contains something other than a release, or cannot be read.
pub fn read(host: &dyn ReadFiles, folder: &HostPath) -> Result<PackedRelease, PackError> {
    let names = match host.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(PackedRelease::default()),
        Err(error) => return Err(PackError::io("read", folder, &error)),
    };
    if let Some(foreign) = names.iter().find(|name| !OURS.contains(&name.as_str())) {
        return Err(PackError::Foreign { folder: folder.to_string(), name: foreign.clone() });
    }
    let mut release = PackedRelease::default();
    let place = folder.join(MANIFEST);
    if host.is_file(&place) {
        let bytes = host.read_start(&place, manifest::MOST_BYTES + 1);
        let bytes = bytes.map_err(|error| PackError::io("read", &place, &error))?;
        let manifest = manifest::read(&bytes)
            .map_err(|problem| PackError::Damaged { path: place.to_string(), what: problem.to_string() })?;
        release.manifest = Some(manifest);
    }
    let variants = folder.join(VARIANTS);
    for name in host.list(&variants).unwrap_or_default() {
        let place = variants.join(&name);
        let bytes = host.read(&place).map_err(|error| PackError::io("read", &place, &error))?;
        let damaged = |what: String| PackError::Damaged { path: place.to_string(), what };
        let entry: ReleaseEntry =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if entry.schema != ENTRY_SCHEMA || entry.file() != name {
            return Err(damaged(format!("it is not a `{ENTRY_SCHEMA}` document of that name")));
        }
        release.entries.push(entry);
    }
    // Names alone prove nothing: other programs have a folder `blobs` too.
    match names.into_iter().next() {
        Some(name) if release == PackedRelease::default() => {
            Err(PackError::Foreign { folder: folder.to_string(), name })
        }
        _ => Ok(release),
    }
}

/// Refuses a folder to publish into that is a link or contains one, and links in the places of its predecessor and successor.
///
/// # Errors
/// The first link.
pub fn refuse_links(host: &dyn ReadFiles, folder: &HostPath) -> Result<(), PackError> {
    refuse_link(host, &beside(folder, NEW))?;
    refuse_link(host, &beside(folder, OLD))?;
    Ok(refuse_links_below(host, folder.clone())?)
}

/// How a release is published.
pub struct Seal<'a> {
    /// Days until the manifest expires.
    pub days: Option<u64>,
    /// Its serial, where it is not to follow from the one before.
    pub serial: Option<u64>,
    /// The variant without GPU by platform, where it is not to follow.
    pub default: Option<&'a str>,
    /// Who signs.
    pub signer: Option<&'a Signer>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Default number of days until a manifest expires.
const DAYS: u64 = 365;

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The manifest; none where a platform has no variant that runs without a GPU yet.
    pub manifest: Option<ReleaseManifest>,
    /// Platforms without a default.
    pub incomplete: Vec<String>,
    /// Entries of other versions that are not in it any more.
    pub dropped: Vec<String>,
    /// Bytes of all layers, each counted once.
    pub bytes: u64,
}

/// A folder under construction.
pub struct ReleaseWork<'a> {
    host: &'a dyn Host,
    folder: HostPath,
    place: HostPath,
    before: PackedRelease,
    _lock: Option<FileLock>,
}

impl<'a> ReleaseWork<'a> {
    /// Starts: waits for another process that packs into the same folder, and removes the remains of a killed run.
    ///
    /// # Errors
    /// See [`read`].
    pub fn begin(host: &'a dyn Host, folder: &HostPath) -> Result<Self, PackError> {
        let lock = match cache_folder(host) {
            None => None,
            Some(cache) => {
                let place = cache.join("locks").join(&format!("{}.lock", sha256(folder.key().as_bytes())));
                host.lock(&place, Wait::Yes).map_err(|error| PackError::io("lock", &place, &error))?
            }
        };
        refuse_links(host, folder)?;
        let (place, aside) = (beside(folder, NEW), beside(folder, OLD));
        // A disk without exchange, and a kill between its two steps.
        if !host.exists(folder) && host.is_dir(&aside) {
            host.rename(&aside, folder).map_err(|error| PackError::io("bring back", folder, &error))?;
        }
        let before = read(host, folder)?;
        let work = Self { host, folder: folder.clone(), place, before, _lock: lock };
        work.clear()?;
        for inner in [BLOBS, VARIANTS] {
            let inner = work.place.join(inner);
            host.create_dir_all(&inner).map_err(|error| PackError::io("make", &inner, &error))?;
        }
        Ok(work)
    }

    /// Where layers are written.
    #[must_use]
    pub fn blobs(&self) -> HostPath {
        self.place.join(BLOBS)
    }

    /// The folder under construction.
    #[must_use]
    pub fn place(&self) -> &HostPath {
        &self.place
    }

    /// The folder's previous contents.
    #[must_use]
    pub fn before(&self) -> &PackedRelease {
        &self.before
    }

    /// Removes everything that was written so far.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn clear(&self) -> Result<(), PackError> {
        self.host.remove(&self.place).map_err(|error| PackError::io("remove", &self.place, &error))
    }

    /// Makes a blob of another folder one of this one.
    ///
    /// # Errors
    /// It is absent, or not what its name says.
    pub fn take(&self, from: &HostPath, name: &str, size: u64) -> Result<(), PackError> {
        let (source, place) = (from.join(BLOBS).join(name), self.blobs().join(name));
        if self.host.exists(&place) {
            return Ok(());
        }
        let damaged = |what: &str| PackError::Damaged { path: source.to_string(), what: what.to_owned() };
        let found =
            self.host.stat(&source).map_err(|_| damaged("a variant names it, and it is not there"))?;
        if found.size != size {
            return Err(damaged(&format!("{} bytes, and its variant says {size}", found.size)));
        }
        if *from == self.folder || *from == self.place {
            return self.host.link(&source, &place).map_err(|error| PackError::io("link", &place, &error));
        }
        // Another folder may be changed by others later: what is published is a copy, and it is the copy that is looked at.
        self.host.duplicate(&source, &place).map_err(|error| PackError::io("copy", &place, &error))?;
        if super::layer::sum(self.host, &place)? != name {
            self.host.remove(&place).map_err(|error| PackError::io("remove", &place, &error))?;
            return Err(damaged("its content is not what its name says"));
        }
        Ok(())
    }

    /// Publishes these entries, with what is kept of those before: the folder is either as it was or as it shall be.
    ///
    /// # Errors
    /// What the disk says; a serial that goes back; a release of another name.
    pub fn publish(self, new: Vec<ReleaseEntry>, seal: &Seal<'_>) -> Result<Published, PackError> {
        let done = self.fill(new, seal).and_then(|published| self.switch().map(|()| published));
        if done.is_err() {
            // The remains do not affect later runs.
            let _ = self.clear();
        }
        done
    }

    fn fill(&self, new: Vec<ReleaseEntry>, seal: &Seal<'_>) -> Result<Published, PackError> {
        let (entries, dropped) = self.entries(new)?;
        let mut layers = BTreeMap::new();
        for entry in entries.values() {
            for layer in &entry.variant.layers {
                self.take(&self.folder, &layer.sha256, layer.size)?;
                layers.insert(layer.sha256.clone(), layer.size);
            }
            let place = self.place.join(VARIANTS).join(&entry.file());
            self.write(&place, &pretty(entry)?)?;
        }
        let (platforms, incomplete) = platforms(&entries, seal.default)?;
        let mut published = Published { manifest: None, incomplete, dropped, bytes: layers.values().sum() };
        let Some(first) = entries.values().next() else { return Ok(published) };
        if !published.incomplete.is_empty() {
            return Ok(published);
        }
        let manifest = self.manifest(&first.name, &first.version, platforms, seal)?;
        self.documents(&manifest, &layers, seal)?;
        published.manifest = Some(manifest);
        Ok(published)
    }

    /// All entries by file name, and what is left out of those before.
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
        seal: &Seal<'_>,
    ) -> Result<ReleaseManifest, PackError> {
        let before = self.before.manifest.as_ref();
        let same = before.filter(|before| {
            before.name == name && before.version == version && before.platforms == platforms
        });
        let is_its = |same: &&ReleaseManifest| seal.serial.is_none_or(|serial| serial == same.serial);
        if let Some(same) = same.filter(is_its).filter(|_| seal.days.is_none()) {
            return Ok(same.clone());
        }
        let serial = seal.serial.unwrap_or_else(|| before.map_or(1, |before| before.serial + 1));
        // Clients reject two manifests with the same serial.
        if let Some(before) = before.filter(|before| serial <= before.serial) {
            return Err(PackError::Serial { wanted: serial, known: before.serial });
        }
        let expires = seal.now + seal.days.unwrap_or(DAYS) * 24 * 60 * 60;
        let manifest = ReleaseManifest {
            schema: manifest::SCHEMA.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            serial,
            expires,
            platforms,
        };
        // What is written is what everybody else reads.
        let damaged = |problem: manifest::ManifestProblem| PackError::Damaged {
            path: self.place.join(MANIFEST).to_string(),
            what: problem.to_string(),
        };
        manifest::read(&pretty(&manifest)?).map_err(damaged)
    }

    /// The manifest with its signature, and the OCI layout around everything.
    fn documents(
        &self,
        manifest: &ReleaseManifest,
        layers: &BTreeMap<String, u64>,
        seal: &Seal<'_>,
    ) -> Result<(), PackError> {
        let text = pretty(manifest)?;
        self.write(&self.place.join(MANIFEST), &text)?;
        let mut parts =
            vec![self.blob("application/vnd.gpubuild.manifest.v1+json", &text, Some(MANIFEST))?];
        if let Some(signer) = seal.signer {
            let about = format!("{} {} serial {}", manifest.name, manifest.version, manifest.serial);
            let signature = signer.sign(&text, &about)?.into_bytes();
            let name = format!("{MANIFEST}{}", trust::SUFFIX);
            self.write(&self.place.join(&name), &signature)?;
            parts.push(self.blob(
                "application/vnd.gpubuild.signature.v1.minisign",
                &signature,
                Some(&name),
            )?);
        }
        parts.extend(layers.iter().map(|(name, size)| {
            json!({"mediaType": "application/vnd.gpubuild.layer.v1.tar+zstd", "digest": format!("sha256:{name}"), "size": size})
        }));
        let empty = self.blob("application/vnd.oci.empty.v1+json", b"{}", None)?;
        let image = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.gpubuild.release.v1",
            "config": empty,
            "layers": parts,
            "annotations": {"org.opencontainers.image.title": manifest.name, "org.opencontainers.image.version": manifest.version},
        });
        let mut image = self.blob("application/vnd.oci.image.manifest.v1+json", &plain(&image)?, None)?;
        image["artifactType"] = json!("application/vnd.gpubuild.release.v1");
        image["annotations"] = json!({"org.opencontainers.image.ref.name": manifest.version});
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [image],
        });
        self.write(&self.place.join("index.json"), &plain(&index)?)?;
        self.write(&self.place.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")
    }

    /// Writes a small blob and describes it.
    fn blob(&self, kind: &str, bytes: &[u8], title: Option<&str>) -> Result<serde_json::Value, PackError> {
        let name = sha256(bytes);
        self.write(&self.blobs().join(&name), bytes)?;
        let mut value = json!({"mediaType": kind, "digest": format!("sha256:{name}"), "size": bytes.len()});
        if let Some(title) = title {
            value["annotations"] = json!({"org.opencontainers.image.title": title});
        }
        Ok(value)
    }

    fn write(&self, place: &HostPath, bytes: &[u8]) -> Result<(), PackError> {
        self.host.write(place, bytes).map_err(|error| PackError::io("write", place, &error))
    }

    /// One step: from then on the folder is the new one.
    fn switch(&self) -> Result<(), PackError> {
        let io = |error: std::io::Error| PackError::io("replace", &self.folder, &error);
        if !self.host.exists(&self.folder) {
            return self.host.rename(&self.place, &self.folder).map_err(io);
        }
        match self.host.exchange(&self.place, &self.folder) {
            Ok(()) => {}
            // Disks that know no exchange: an empty folder, a moment without one, and the new one.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                let aside = beside(&self.folder, OLD);
                self.host.remove(&aside).map_err(io)?;
                self.host.rename(&self.folder, &aside).map_err(io)?;
                self.host.rename(&self.place, &self.folder).map_err(io)?;
                return self.host.remove(&aside).map_err(io);
            }
            Err(error) => return Err(io(error)),
        }
        self.clear()
    }
}

/// A folder beside another one, hidden.
fn beside(folder: &HostPath, what: &str) -> HostPath {
    let name = folder.file_name().unwrap_or("release");
    let parent = folder.parent().unwrap_or_else(|| folder.clone());
    parent.join(&format!(".{name}.gpubuild-{what}"))
}

/// The platforms of a manifest, and those that have no variant without GPU.
fn platforms(
    entries: &BTreeMap<String, ReleaseEntry>,
    wanted: Option<&str>,
) -> Result<(BTreeMap<String, ReleasePlatform>, Vec<String>), PackError> {
    let ids: BTreeSet<&String> = entries.values().map(|entry| &entry.platform).collect();
    let (mut platforms, mut incomplete) = (BTreeMap::new(), Vec::new());
    for id in ids {
        let variants: Vec<ReleaseVariant> = entries
            .values()
            .filter(|entry| entry.platform == *id)
            .map(|entry| entry.variant.clone())
            .collect();
        let runs = |variant: &&ReleaseVariant| variant.backends.contains(&Backend::Cpu);
        let named = wanted.and_then(|label| variants.iter().find(|variant| variant.label == label));
        if let Some(named) = named.filter(|named| !runs(named)) {
            return Err(PackError::Default { label: named.label.clone() });
        }
        // The plainest one: fewest backends, fewest bytes.
        let plainest = variants
            .iter()
            .filter(runs)
            .min_by_key(|one| (one.backends.len(), one.size(), one.label.clone()));
        match named.or(plainest) {
            None => incomplete.push(id.clone()),
            Some(default) => {
                let default = default.label.clone();
                platforms.insert(id.clone(), ReleasePlatform { default, variants });
            }
        }
    }
    Ok((platforms, incomplete))
}

fn pretty(value: &impl Serialize) -> Result<Vec<u8>, PackError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| PackError::Words(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

fn plain(value: &serde_json::Value) -> Result<Vec<u8>, PackError> {
    serde_json::to_vec(value).map_err(|error| PackError::Words(error.to_string()))
}
