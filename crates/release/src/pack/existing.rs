//! The contents of a release folder that exists. Packing replaces the folder, so whatever is not part of a release is refused.

use std::io::ErrorKind;

use gpubuild_host::{HostPath, ReadFiles};
use serde::{Deserialize, Serialize};

use super::PackError;
use crate::manifest::{self, ReleaseManifest, ReleaseVariant};

/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";
/// The folder of the blobs.
pub const BLOBS: &str = "blobs/sha256";
/// The folder of the entries.
pub const VARIANTS: &str = "variants";
/// The schema id of [`ReleaseEntry`].
const ENTRY_SCHEMA: &str = "gpubuild.variant/1";
/// All names that a release folder can contain at its top.
const KNOWN_NAMES: [&str; 6] =
    [MANIFEST, "manifest.json.minisig", VARIANTS, "blobs", "oci-layout", "index.json"];

/// A packed variant: `variants/linux-x86_64-cuda13.json`. Releases that were packed on several machines are merged by these files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseEntry {
    schema: String,
    /// The name of the released program.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The platform, `linux-x86_64`.
    pub platform: String,
    /// The variant's entry in the manifest.
    pub variant: ReleaseVariant,
    /// The hash of each layer's contents, from [`contents`](super::layer::contents), so that a layer is not compressed again.
    pub contents: Vec<String>,
}

impl ReleaseEntry {
    /// Creates an entry.
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

    /// Whether another entry has the same files and requirements.
    pub(super) fn is_same_build(&self, other: &Self) -> bool {
        if self.variant.provenance.is_none() {
            return false;
        }
        let variant = ReleaseVariant { provenance: self.variant.provenance.clone(), ..other.variant.clone() };
        *self == Self { variant, ..other.clone() }
    }

    pub(super) fn file(&self) -> String {
        format!("{}-{}.json", self.platform, self.variant.label)
    }
}

/// The contents of a release folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedRelease {
    /// The packed variants.
    pub entries: Vec<ReleaseEntry>,
    /// The manifest, if the release has one.
    pub manifest: Option<ReleaseManifest>,
}

/// Reads a release folder. A folder that does not exist or is empty yields an empty release.
///
/// # Errors
/// The folder contains something other than a release, its parts contradict each other, or it cannot be read.
pub fn read(host: &dyn ReadFiles, folder: &HostPath) -> Result<PackedRelease, PackError> {
    let Some(names) = list(host, folder, folder, |name| KNOWN_NAMES.contains(&name))? else {
        return Ok(PackedRelease::default());
    };
    list(host, folder, &folder.join("blobs"), |name| name == "sha256")?;
    list(host, folder, &folder.join(BLOBS), is_hash)?;
    let release = PackedRelease {
        manifest: names.iter().any(|name| name == MANIFEST).then(|| manifest(host, folder)).transpose()?,
        entries: entries(host, folder)?,
    };
    check(folder, &release)?;
    // A folder with known names only is not necessarily a release: other programs also create a folder `blobs`.
    match names.first() {
        Some(name) if release == PackedRelease::default() => Err(foreign(folder, &format!("`{name}`"))),
        _ => Ok(release),
    }
}

/// The names in a folder of a release; `None` if it does not exist.
fn list(
    host: &dyn ReadFiles,
    release: &HostPath,
    folder: &HostPath,
    is_known: impl Fn(&str) -> bool,
) -> Result<Option<Vec<String>>, PackError> {
    let read = |error: std::io::Error| PackError::io("read", folder, &error);
    let names = match host.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound && host.stat(folder).is_err() => return Ok(None),
        Err(error) => return Err(read(error)),
    };
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let path = folder.join(name);
        let inside = path.as_str().get(release.as_str().len() + 1..).unwrap_or(name);
        return Err(foreign(release, &format!("`{inside}`")));
    }
    if host.has_unlisted(folder).map_err(read)? {
        return Err(foreign(folder, "a file whose name is not UTF-8"));
    }
    Ok(Some(names))
}

fn foreign(folder: &HostPath, name: &str) -> PackError {
    PackError::Foreign { folder: folder.to_string(), name: name.to_owned() }
}

fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn manifest(host: &dyn ReadFiles, folder: &HostPath) -> Result<ReleaseManifest, PackError> {
    let path = folder.join(MANIFEST);
    let damaged = |what: String| PackError::Damaged { path: path.to_string(), what };
    if !host.is_file(&path) {
        return Err(damaged("it is not a file".to_owned()));
    }
    let bytes = host.read_start(&path, manifest::MAX_BYTES + 1);
    let bytes = bytes.map_err(|error| PackError::io("read", &path, &error))?;
    manifest::read(&bytes).map_err(|problem| damaged(problem.to_string()))
}

fn entries(host: &dyn ReadFiles, folder: &HostPath) -> Result<Vec<ReleaseEntry>, PackError> {
    let variants = folder.join(VARIANTS);
    let mut entries = Vec::new();
    for name in list(host, folder, &variants, |_| true)?.unwrap_or_default() {
        let path = variants.join(&name);
        let bytes = host.read(&path).map_err(|error| PackError::io("read", &path, &error))?;
        let damaged = |what: String| PackError::Damaged { path: path.to_string(), what };
        let entry: ReleaseEntry =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if entry.schema != ENTRY_SCHEMA || entry.file() != name {
            return Err(damaged(format!("it is not a `{ENTRY_SCHEMA}` document for this file name")));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Checks that the manifest is that of the entries: packing takes only the entries over.
fn check(folder: &HostPath, release: &PackedRelease) -> Result<(), PackError> {
    let Some(manifest) = &release.manifest else { return Ok(()) };
    if let Some(entry) = release.entries.iter().find(|entry| entry.name != manifest.name) {
        let what =
            format!("it is the manifest of `{}`, but the variants are of `{}`", manifest.name, entry.name);
        return Err(PackError::Damaged { path: folder.join(MANIFEST).to_string(), what });
    }
    for (platform, variants) in &manifest.platforms {
        for variant in &variants.variants {
            let file = format!("{platform}-{}.json", variant.label);
            if !release.entries.iter().any(|entry| entry.file() == file) {
                let path = folder.join(VARIANTS).join(&file).to_string();
                let what = "the manifest lists this variant, but the file does not exist".to_owned();
                return Err(PackError::Damaged { path, what });
            }
        }
    }
    Ok(())
}
