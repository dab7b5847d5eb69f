//! Data about images, runners, packages and actions, from `tables.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use serde::Deserialize;

/// The contents of `tables.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// GPU images; the first matching row applies.
    pub image: Vec<ImageRow>,
    /// Images of plain distributions.
    pub plain: PlainTable,
    /// The published tags of `nvidia/cuda`.
    pub cuda_tags: CudaTags,
    /// CUDA toolkits packaged by distributions.
    pub distribution: Vec<DistributionRow>,
    /// Labels of retired GitHub runners.
    pub retired: Vec<RetiredRow>,
    /// Actions that install toolkits.
    pub action: Vec<ActionRow>,
}

/// A pattern for images.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRow {
    /// A pattern for `repository:tag`; `*` matches any text.
    #[serde(default, rename = "match")]
    pub pattern: Option<String>,
    /// A word in the tag; an alternative to `pattern`.
    pub word: Option<String>,
    /// The backend that the image is built for; `None` if it does not need a GPU.
    pub backend: Option<Backend>,
    /// Whether the image contains the CUDA compiler.
    #[serde(default)]
    pub toolkit: ToolkitIn,
    /// Where the toolkit's release is in the tag.
    pub version: Option<VersionIn>,
    /// Whether the image sets `NVIDIA_VISIBLE_DEVICES` and `NVIDIA_DRIVER_CAPABILITIES=compute,utility`.
    #[serde(default)]
    pub defaults: bool,
    /// Whether the image requests the graphics capability.
    #[serde(default)]
    pub graphics: bool,
    /// Whether the image is for Jetson, where `runtime: nvidia` is still required.
    #[serde(default)]
    pub jetson: bool,
    /// Where the data of the row comes from.
    pub source: String,
}

/// Whether an image contains the CUDA compiler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolkitIn {
    /// Always.
    All,
    /// Never.
    None,
    /// Only if the tag contains `devel`.
    Devel,
    /// Unknown.
    #[default]
    Unknown,
}

/// Where a tag contains the toolkit's release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionIn {
    /// At the start of the tag.
    Tag,
    /// After `cuda` or `cu`, anywhere in the tag.
    Word,
}

/// Images of plain distributions, which contain no toolkit and no driver.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainTable {
    /// Repository names.
    pub images: Vec<String>,
}

/// The published tags of `nvidia/cuda`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaTags {
    /// The CUDA release that fixes suggest by default.
    pub version: Version,
    /// The operating system that fixes suggest by default.
    pub os: String,
    /// Images of releases below this one are deleted.
    pub deleted_below: Version,
    /// Images of releases below this one may be deleted at any time.
    pub retiring_below: Version,
    /// The first release whose tags say `cudnn` instead of `cudnn8`.
    pub cudnn_without_digit_since: Version,
    /// The last patch release of each release: `12.4` to `12.4.1`.
    pub last: BTreeMap<String, String>,
    /// Operating systems that are not available for all releases.
    pub system: Vec<SystemRow>,
    /// Where the data of the row comes from.
    pub source: String,
}

/// An operating system in tags.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRow {
    /// The name in the tag: `ubuntu24.04`.
    pub os: String,
    /// The first CUDA release with images for it.
    pub since: Option<Version>,
    /// The last CUDA release with images for it.
    pub until: Option<Version>,
    /// The operating system to use instead.
    pub instead: String,
    /// Where the data of the row comes from.
    pub source: String,
}

/// The CUDA release of a distribution's own package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionRow {
    /// Image names, operating systems in tags and runner labels of the distribution.
    pub names: Vec<String>,
    /// The CUDA release.
    pub toolkit: Version,
    /// Where the data of the row comes from.
    pub source: String,
}

/// Labels of retired GitHub runners.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetiredRow {
    /// The retired labels.
    pub labels: Vec<String>,
    /// The date of retirement: `2025-04-15`.
    pub until: String,
    /// The label to use instead.
    #[serde(rename = "use")]
    pub instead: String,
    /// Where the data of the row comes from.
    pub source: String,
}

/// A GitHub action that installs a toolkit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionRow {
    /// `owner/name`.
    pub name: String,
    /// The input for the toolkit's version.
    pub input: String,
    /// The version that fixes suggest.
    pub example: String,
    /// The backend of the toolkit that it installs.
    pub backend: Backend,
    /// Where the data of the row comes from.
    pub source: String,
}

/// The embedded tables, parsed on first use.
///
/// # Panics
/// If the embedded file is invalid, which a test rules out.
#[must_use]
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        gpubuild_toml::from_str(include_str!("tables.toml")).expect("embedded tables are tested")
    })
}

impl Tables {
    /// The row of a distribution, by image name, operating system in a tag or runner label.
    #[must_use]
    pub fn distribution_toolkit(&self, name: &str) -> Option<&DistributionRow> {
        self.distribution.iter().find(|row| row.names.iter().any(|known| known == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_source() {
        let tables = tables();
        assert!(
            tables
                .image
                .iter()
                .all(|row| !row.source.is_empty() && (row.pattern.is_some() != row.word.is_some()))
        );
        assert!(tables.distribution.iter().all(|row| !row.source.is_empty() && !row.names.is_empty()));
        assert!(tables.retired.iter().all(|row| row.source.contains("issues/") && row.until.len() == 10));
        assert!(tables.action.iter().all(|row| !row.source.is_empty() && row.name.contains('/')));
        assert!(
            !tables.cuda_tags.source.is_empty()
                && tables.cuda_tags.system.iter().all(|row| !row.source.is_empty())
        );
        // The default suggestion is a published tag.
        let proposed = &tables.cuda_tags.version;
        assert_eq!(
            tables.cuda_tags.last.get(&proposed.release()).map(String::as_str),
            Some(proposed.as_str())
        );
        let retired: Vec<&String> = tables.retired.iter().flat_map(|row| &row.labels).collect();
        assert!(tables.retired.iter().all(|row| !retired.contains(&&row.instead)));
    }
}
