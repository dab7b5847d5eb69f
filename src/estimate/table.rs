//! Typical models and published memory bandwidths, from `toolkits/tables/estimate.toml`.

use std::sync::OnceLock;

use gpubuild_host::search::star_matches;
use gpubuild_toolkits::tables;
use serde::Deserialize;

use super::model::Dimensions;

static TABLE: OnceLock<EstimateTable> = OnceLock::new();

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimateTable {
    #[serde(rename = "schema")]
    _schema: u32,
    /// Typical models, the smallest first.
    pub model: Vec<TypicalModel>,
    /// Devices with a published bandwidth.
    pub device: Vec<PublishedDevice>,
}

/// A typical model of a size.
#[derive(Debug, Deserialize)]
pub struct TypicalModel {
    /// The size, `8B`.
    pub name: String,
    /// The model whose dimensions these are.
    pub like: String,
    /// Its dimensions.
    #[serde(flatten)]
    pub dimensions: Dimensions,
    /// Tokens that it supports.
    pub context: u64,
    /// Where the dimensions are published.
    pub source: String,
}

/// A device with a published bandwidth.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedDevice {
    names: Vec<String>,
    /// Bandwidth of its memory in GB/s (10^9 bytes).
    pub bandwidth: f64,
    /// Memory in GiB, if all devices of this name have the same.
    pub memory: Option<u64>,
    /// Where the bandwidth is published.
    pub source: String,
}

/// The embedded table. A test parses it.
///
/// # Panics
/// Never: a test parses the table.
#[must_use]
pub fn table() -> &'static EstimateTable {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::ESTIMATE).expect("toolkits/tables/estimate.toml is tested")
    })
}

impl EstimateTable {
    /// The typical model of a size, ignoring case.
    #[must_use]
    pub fn model(&self, size: &str) -> Option<&TypicalModel> {
        self.model.iter().find(|model| model.name.eq_ignore_ascii_case(size))
    }

    /// The row of a device by the name that its driver reports.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&PublishedDevice> {
        self.device.iter().find(|row| row.names.iter().any(|pattern| star_matches(pattern, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_source_and_matches_one_device() {
        let table = table();
        assert!(table.device.len() > 30 && table.model.len() == 6);
        for row in &table.device {
            assert!(!row.source.is_empty() && row.bandwidth > 50.0 && row.bandwidth < 10_000.0, "{row:?}");
            for name in row.names.iter().filter(|name| !name.contains('*')) {
                assert_eq!(table.device(name).unwrap().source, row.source, "{name} matches an earlier row");
            }
        }
        assert!(table.model.iter().all(|model| !model.source.is_empty() && !model.like.is_empty()));
    }

    #[test]
    fn devices_of_similar_names_are_not_confused() {
        let bandwidth = |name: &str| table().device(name).map(|row| row.bandwidth);
        assert_eq!(bandwidth("NVIDIA GeForce RTX 4090"), Some(1008.0));
        assert_eq!(bandwidth("NVIDIA GeForce RTX 4090 Laptop GPU"), None);
        assert_eq!(bandwidth("NVIDIA GeForce RTX 5070 Ti"), Some(896.0));
        assert_eq!(bandwidth("AMD Radeon RX 7900 series"), None);
        assert_eq!(bandwidth("AMD Instinct MI300X OAM"), Some(5300.0));
    }
}
