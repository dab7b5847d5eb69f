//! The document of `gpubuild pack`, and its text.

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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PackReport<'a> {
    schema: Schema,
    /// Folder of the release.
    folder: &'a str,
    /// Variants that were added.
    variants: Vec<Packed>,
    /// The manifest; absent if it was not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<&'a ReleaseManifest>,
    /// Whether the manifest was signed.
    signed: bool,
    /// Platforms without a variant for the CPU. If there are any, the manifest is not written.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    incomplete: &'a [String],
    /// Variants of another version that were removed from the folder.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    dropped: &'a [String],
    /// Total size of the layers in the folder in bytes.
    bytes: u64,
}

/// A variant that was packed or copied from another folder.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Packed {
    /// Its platform: `linux-x86_64`.
    platform: String,
    /// Its label.
    label: String,
    /// Download size in bytes.
    bytes: u64,
    /// Installed size in bytes.
    unpacked: u64,
    /// Size in bytes of the layers that it does not share with an earlier variant.
    added: u64,
    /// Its layers, if it was packed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<PackedLayer>,
    /// Needed libraries that are not packed, because the machine provides them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    /// Files that third-party libraries can open at run time and that were not found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_found: Vec<String>,
    /// Number of data files for other architectures, which are not packed.
    #[serde(skip_serializing_if = "is_none")]
    data_left: usize,
    /// Third-party libraries whose licence was not found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_licence: Vec<String>,
    /// Include folders of toolkits that the headers of packed libraries need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub includes: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Packed {
    /// A variant that was built and packed.
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
            includes: staged.includes.clone(),
            ..Self::plain(platform, variant)
        }
    }

    /// A variant that was copied from another folder.
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
            includes: Vec::new(),
        }
    }
}

impl<'a> PackReport<'a> {
    /// The document of a release.
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

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for one in &self.variants {
            let _ = writeln!(
                text,
                "{} {}: {} to download, {} installed",
                one.platform,
                one.label,
                bytes::show(one.bytes),
                bytes::show(one.unpacked)
            );
            if one.added < one.bytes {
                let _ = writeln!(
                    text,
                    "  {} new, the rest is shared with other variants",
                    bytes::show(one.added)
                );
            }
            if !one.left.is_empty() {
                let _ = writeln!(text, "  not packed, the machine provides them: {}", one.left.join(", "));
            }
        }
        match self.manifest {
            None => {
                let _ = writeln!(text, "{}: {} in total", self.folder, bytes::show(self.bytes));
            }
            Some(manifest) => {
                let count: usize = manifest.platforms.values().map(|platform| platform.variants.len()).sum();
                let _ = writeln!(
                    text,
                    "{}: {} {}, serial {}, {count} {}, {} in total",
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
