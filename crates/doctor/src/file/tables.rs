//! What is known about images, runners, packages and actions: `tables.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use serde::Deserialize;

/// The tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Images; the first row that fits counts.
    pub image: Vec<ImageRow>,
    /// Images of bare distributions.
    pub plain: PlainTable,
    /// Which tags of NVIDIA's own images exist.
    pub cuda_tags: CudaTags,
    /// Toolkits of distributions.
    pub distribution: Vec<DistributionRow>,
    /// Labels of runners that are gone.
    pub retired: Vec<RetiredRow>,
    /// Actions that install toolkits.
    pub action: Vec<ActionRow>,
}

/// A kind of image.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRow {
    /// `repository:tag` with `*` for any text.
    #[serde(default, rename = "match")]
    pub pattern: Option<String>,
    /// A word of the tag.
    pub word: Option<String>,
    /// What it needs; nothing if left out.
    pub backend: Option<Backend>,
    /// Whether the compiler is in it.
    #[serde(default)]
    pub toolkit: ToolkitIn,
    /// Where the tag tells the release.
    pub version: Option<VersionIn>,
    /// Whether it sets `NVIDIA_VISIBLE_DEVICES` and `NVIDIA_DRIVER_CAPABILITIES=compute,utility`.
    #[serde(default)]
    pub defaults: bool,
    /// Whether it asks the runtime for graphics.
    #[serde(default)]
    pub graphics: bool,
    /// Whether it is made for Jetson, where `runtime: nvidia` is the way.
    #[serde(default)]
    pub jetson: bool,
    /// Where this comes from.
    pub source: String,
}

/// Whether an image has the compiler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolkitIn {
    /// Always.
    All,
    /// Never.
    None,
    /// Where the tag says `devel`.
    Devel,
    /// Not known.
    #[default]
    Unknown,
}

/// Where a tag tells the release of the toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionIn {
    /// At its beginning.
    Tag,
    /// After `cuda` or `cu`.
    Word,
}

/// Bare distributions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainTable {
    /// Repositories.
    pub images: Vec<String>,
}

/// Which tags of `nvidia/cuda` exist.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaTags {
    /// Release of the tag that is proposed where none is given.
    pub version: Version,
    /// System of that tag.
    pub os: String,
    /// Releases below are gone.
    pub deleted_below: Version,
    /// Releases below may go any day.
    pub retiring_below: Version,
    /// From this release on the tag says `cudnn` without a number.
    pub cudnn_without_digit_since: Version,
    /// The last point release by release.
    pub last: BTreeMap<String, String>,
    /// Systems that came or went.
    pub system: Vec<SystemRow>,
    /// Where this comes from.
    pub source: String,
}

/// A system of the tags.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRow {
    /// As in the tag.
    pub os: String,
    /// First release that it exists for.
    pub since: Option<Version>,
    /// Last release that it exists for.
    pub until: Option<Version>,
    /// The system to take instead.
    pub instead: String,
    /// Where this comes from.
    pub source: String,
}

/// The toolkit in a distribution's own package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistributionRow {
    /// Images, systems of tags and labels of runners that have it.
    pub names: Vec<String>,
    /// The release.
    pub toolkit: Version,
    /// Where this comes from.
    pub source: String,
}

/// Labels of runners that are gone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetiredRow {
    /// The labels.
    pub labels: Vec<String>,
    /// The day they went.
    pub until: String,
    /// The label to take instead.
    #[serde(rename = "use")]
    pub instead: String,
    /// Where this comes from.
    pub source: String,
}

/// An action that installs a toolkit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionRow {
    /// `owner/name`.
    pub name: String,
    /// The input that takes the version.
    pub input: String,
    /// A version for it.
    pub example: String,
    /// What it installs.
    pub backend: Backend,
    /// Where this comes from.
    pub source: String,
}

/// The embedded tables.
///
/// # Panics
/// If they are broken, which a test rules out.
#[must_use]
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        gpubuild_toml::from_str(include_str!("tables.toml")).expect("embedded tables are tested")
    })
}

impl Tables {
    /// The toolkit in the package of a distribution, by image, system of a tag or label of a runner.
    #[must_use]
    pub fn distribution_toolkit(&self, name: &str) -> Option<&DistributionRow> {
        self.distribution.iter().find(|row| row.names.iter().any(|known| known == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_its_source() {
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
        // What is proposed exists.
        let proposed = &tables.cuda_tags.version;
        assert_eq!(
            tables.cuda_tags.last.get(&proposed.release()).map(String::as_str),
            Some(proposed.as_str())
        );
        let retired: Vec<&String> = tables.retired.iter().flat_map(|row| &row.labels).collect();
        assert!(tables.retired.iter().all(|row| !retired.contains(&&row.instead)));
    }
}
