//! `gpubuild pack`: what was packed, as a document and as text.

use std::fmt::Write as _;

use gpubuild_plan::plan::bytes;
use gpubuild_release::manifest::{ReleaseManifest, ReleaseVariant};
use gpubuild_release::pack::PackedLayer;
use gpubuild_release::pack::release::{Published, ReleaseEntry};
use gpubuild_release::pack::stage::Staged;
use serde::Serialize;

use super::Schema;

/// The document of `pack --json`.
#[derive(Debug, Serialize)]
pub struct PackReport<'a> {
    schema: Schema,
    folder: &'a str,
    variants: Vec<Packed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<&'a ReleaseManifest>,
    signed: bool,
    /// Platforms without a variant that runs without a GPU; the manifest is not written while there are any.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    incomplete: &'a [String],
    /// Variants of another version that were in the folder.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    dropped: &'a [String],
    /// Bytes of all layers in the folder, each counted once.
    bytes: u64,
}

/// A variant that was packed or taken from another folder.
#[derive(Debug, Serialize)]
pub struct Packed {
    platform: String,
    label: String,
    bytes: u64,
    unpacked: u64,
    /// Bytes that no other variant had before.
    added: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<PackedLayer>,
    /// Libraries that are left to the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    /// What libraries of others would open while they run, and is not here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_found: Vec<String>,
    /// Data files for other architectures, which stay behind.
    #[serde(skip_serializing_if = "is_none")]
    data_left: usize,
    /// Libraries of others whose licence was not found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_licence: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Packed {
    /// One that was built and packed.
    #[must_use]
    pub fn new(platform: &str, variant: &ReleaseVariant, layers: Vec<PackedLayer>, staged: &Staged) -> Self {
        let added = layers.iter().filter(|layer| !layer.shared).map(|layer| layer.layer.size).sum();
        Self {
            layers,
            added,
            left: staged.left.iter().cloned().collect(),
            not_found: staged.not_found.iter().cloned().collect(),
            data_left: staged.data_left,
            without_licence: staged.without_licence.clone(),
            ..Self::plain(platform, variant)
        }
    }

    /// One of another folder.
    #[must_use]
    pub fn taken(entry: &ReleaseEntry) -> Self {
        Self::plain(&entry.platform, &entry.variant)
    }

    fn plain(platform: &str, variant: &ReleaseVariant) -> Self {
        Self {
            platform: platform.to_owned(),
            label: variant.label.clone(),
            bytes: variant.size(),
            unpacked: variant.layers.iter().map(|layer| layer.unpacked).sum(),
            added: variant.size(),
            layers: Vec::new(),
            left: Vec::new(),
            not_found: Vec::new(),
            data_left: 0,
            without_licence: Vec::new(),
        }
    }
}

impl<'a> PackReport<'a> {
    /// The document.
    #[must_use]
    pub fn new(folder: &'a str, variants: Vec<Packed>, published: &'a Published, signed: bool) -> Self {
        Self {
            schema: Schema { name: "pack", version: 1 },
            folder,
            variants,
            manifest: published.manifest.as_ref(),
            signed: signed && published.manifest.is_some(),
            incomplete: &published.incomplete,
            dropped: &published.dropped,
            bytes: published.bytes,
        }
    }

    /// The same for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for one in &self.variants {
            let _ = writeln!(
                text,
                "{} {}: {} to fetch, {} on the disk",
                one.platform,
                one.label,
                bytes::show(one.bytes),
                bytes::show(one.unpacked)
            );
            if one.added < one.bytes {
                let _ = writeln!(text, "  {} of it new, the rest is shared", bytes::show(one.added));
            }
            if !one.left.is_empty() {
                let _ = writeln!(text, "  left to the machine: {}", one.left.join(", "));
            }
        }
        match self.manifest {
            None => {
                let _ = writeln!(text, "{}: {} in all", self.folder, bytes::show(self.bytes));
            }
            Some(manifest) => {
                let count: usize = manifest.platforms.values().map(|platform| platform.variants.len()).sum();
                let _ = writeln!(
                    text,
                    "{}: {} {}, serial {}, {count} {}, {} in all",
                    self.folder,
                    manifest.name,
                    manifest.version,
                    manifest.serial,
                    if count == 1 { "variant" } else { "variants" },
                    bytes::show(self.bytes)
                );
            }
        }
        text
    }
}
