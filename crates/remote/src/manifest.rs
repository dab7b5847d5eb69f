//! The description of an entry on a server, its signature, and every check of both. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_exec::store::entry::{self, SCHEMA, StoreEntry};
use gpubuild_exec::store::sha256;
use gpubuild_release::pack::sign::Signer;
use gpubuild_release::trust::{self, TrustKey};
use serde::{Deserialize, Serialize};

use super::content::{Blob, Content};

/// The format of manifests.
const FORMAT: &str = "gpubuild.store/1";
/// The kind of the entries: complete trees.
pub(crate) const TREES: &str = "trees";
/// The largest manifest that is read, in bytes.
pub(crate) const MAX_BYTES: u64 = 16 << 20;
/// The largest `inputs.json` that is read, in bytes.
const MAX_INPUTS: u64 = 32 << 20;
/// The placeholder of the build folder in paths.
const BUILD: &str = "{gpubuild:build}";

/// What a server stores: the text of a [`RemoteManifest`] and its signature.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    schema: String,
    /// The manifest's bytes, which the signature covers.
    manifest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// The description of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteManifest {
    /// The name of the entry in a store: the key, and the folders if the entry cannot be moved.
    pub(crate) name: String,
    /// `entry.json`: the files with size, sha256 and mode.
    pub(crate) entry: StoreEntry,
    /// `inputs.json`.
    pub(crate) inputs: Content,
    /// The blob of each content, by its sha256.
    pub(crate) blobs: BTreeMap<String, Blob>,
}

/// Why a manifest is not used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// It is not valid.
    Damaged(String),
    /// It has no valid signature, although one is required.
    Unsigned(String),
}

/// The id of an entry on a server: 64 hexadecimal digits, which every kind of server accepts as a name.
#[must_use]
pub fn id(name: &str) -> String {
    sha256(format!("{FORMAT}\n{TREES}\n{name}").as_bytes())
}

impl RemoteManifest {
    /// The bytes that a server stores.
    pub(crate) fn seal(&self, signer: Option<&Signer>) -> Result<Vec<u8>, String> {
        let manifest = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let about = format!("gpubuild store entry {}", self.name);
        let signature = signer.map(|signer| signer.sign(manifest.as_bytes(), &about)).transpose();
        let signature = signature.map_err(|error| error.to_string())?;
        let envelope = Envelope { schema: FORMAT.to_owned(), manifest, signature };
        serde_json::to_vec(&envelope).map_err(|error| error.to_string())
    }

    /// Reads and verifies what a server sent as the entry `name`. With `keys`, one of them must have signed it.
    pub(crate) fn open(bytes: &[u8], name: &str, keys: Option<&[TrustKey]>) -> Result<Self, Rejected> {
        let damaged = |error: serde_json::Error| Rejected::Damaged(error.to_string());
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(damaged)?;
        if envelope.schema != FORMAT {
            return Err(Rejected::Damaged(format!("its format is not {FORMAT}")));
        }
        if let Some(keys) = keys {
            let signature = envelope.signature.as_deref();
            trust::verify_signature(envelope.manifest.as_bytes(), signature.map(str::as_bytes), keys)
                .map_err(|error| Rejected::Unsigned(error.to_string()))?;
        }
        let manifest: Self = serde_json::from_str(&envelope.manifest).map_err(damaged)?;
        manifest.check(name).map_err(Rejected::Damaged)?;
        Ok(manifest)
    }

    /// The names of the blobs of an entry, and when it was created, without any check.
    pub(crate) fn references(bytes: &[u8]) -> Option<(Vec<String>, u64)> {
        let envelope: Envelope = serde_json::from_slice(bytes).ok()?;
        let manifest: Self = serde_json::from_str(&envelope.manifest).ok()?;
        Some((manifest.blobs.into_values().map(|blob| blob.sha256).collect(), manifest.entry.created))
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let entry = &self.entry;
        if self.name != name || entry::name(&entry.key, entry.place.as_deref()) != name {
            return Err("it is another entry".to_owned());
        }
        if entry.schema != SCHEMA || entry.kind != TREES {
            return Err(format!("its entry has version {} and kind `{}`", entry.schema, entry.kind));
        }
        check_shareable(entry)?;
        if self.inputs.bytes > MAX_INPUTS {
            return Err("its inputs are too large".to_owned());
        }
        let contents = entry.files.iter().map(|file| &file.sha256).chain([&self.inputs.sha256]);
        for content in contents {
            let blob = self.blobs.get(content).ok_or_else(|| format!("it has no blob for {content}"))?;
            if !is_sha256(&blob.sha256) || !is_sha256(content) {
                return Err("a hash is invalid".to_owned());
            }
        }
        Ok(())
    }

    /// The blob of a content.
    pub(crate) fn blob(&self, content: &str) -> Option<&Blob> {
        self.blobs.get(content)
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Checks that an entry writes only into its build folder, so that no entry of a server can change other files.
pub(crate) fn check_shareable(entry: &StoreEntry) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut total: u64 = 0;
    for file in &entry.files {
        let name = file.name.strip_prefix("files/").unwrap_or_default();
        if !is_component(name) || !names.insert(name.to_lowercase()) {
            return Err(format!("`{}` is not a valid name of a file", file.name));
        }
        check_path(&file.path)?;
        total = total.checked_add(file.bytes).ok_or("its size is invalid")?;
    }
    if total != entry.bytes {
        return Err(format!("its files have {total} bytes, not {}", entry.bytes));
    }
    for (path, target) in &entry.links {
        check_path(path)?;
        if !is_component(target) {
            return Err(format!("the link `{path}` leads to another folder"));
        }
    }
    Ok(())
}

/// Checks that a path is in the build folder, and not in the folder of gpubuild's own state.
fn check_path(path: &str) -> Result<(), String> {
    let rest = path.strip_prefix(BUILD).and_then(|rest| rest.strip_prefix(['/', '\\']));
    let Some(rest) = rest.filter(|rest| rest.split(['/', '\\']).all(is_component)) else {
        return Err(format!("`{path}` is not in the build folder"));
    };
    if rest.split(['/', '\\']).next().is_some_and(|first| first.eq_ignore_ascii_case("gpubuild")) {
        return Err(format!("`{path}` is a file of gpubuild"));
    }
    Ok(())
}

fn is_component(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.chars().any(|c| c.is_control() || "/\\:{}".contains(c))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
