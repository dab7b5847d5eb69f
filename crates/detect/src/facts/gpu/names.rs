//! GPU names and architectures by PCI ids and device names, from `toolkits/tables/gpus.toml`. Only used for values that the machine
//! does not report.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_host::search::star_matches;
use gpubuild_toolkits::tables;
use serde::Deserialize;

use crate::facts::Vendor;

static TABLE: OnceLock<DeviceNameTable> = OnceLock::new();

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceNameTable {
    #[serde(rename = "schema")]
    _schema: u32,
    vendor: Vec<VendorNames>,
    device: BTreeMap<Vendor, BTreeMap<String, String>>,
    arch: Vec<Architecture>,
    range: Vec<DeviceIdRange>,
    series: Vec<Series>,
    /// Architectures of integrated GPUs.
    integrated: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VendorNames {
    id: Vendor,
    pci: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Architecture {
    vendor: Vendor,
    arch: String,
    names: Vec<String>,
}

/// A range of device ids of one chip.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceIdRange {
    vendor: Vendor,
    arch: String,
    from: String,
    to: String,
    #[serde(rename = "chip")]
    _chip: String,
}

/// GPUs whose device ids have the same first digits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::facts) struct Series {
    vendor: Vendor,
    #[serde(rename = "name")]
    _name: String,
    devices: Vec<String>,
    /// The first release of Linux that drives them.
    pub(in crate::facts) kernel: Option<String>,
    /// Whether the vendor's compute driver no longer supports them.
    #[serde(default)]
    pub(in crate::facts) legacy: bool,
}

/// The embedded table. A test parses it.
fn table() -> &'static DeviceNameTable {
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::GPUS).expect("toolkits/tables/gpus.toml is tested")
    })
}

/// Maps a PCI vendor id to a vendor.
pub(in crate::facts) fn vendor(number: u16) -> Vendor {
    let number = format!("{number:04x}");
    let maker = table().vendor.iter().find(|maker| maker.pci.contains(&number));
    maker.map_or(Vendor::Other, |maker| maker.id)
}

/// The name of a device by its PCI ids, or text such as `NVIDIA GPU 10de:2335` if the table does not contain it.
pub(in crate::facts) fn device_name(vendor: Vendor, ids: (u16, u16)) -> String {
    let known = table().device.get(&vendor).and_then(|devices| devices.get(&format!("{:04x}", ids.1)));
    match (known, vendor) {
        (Some(name), _) => name.clone(),
        (None, Vendor::Other) => format!("GPU {:04x}:{:04x}", ids.0, ids.1),
        (None, _) => format!("{} GPU {:04x}:{:04x}", vendor.label(), ids.0, ids.1),
    }
}

/// The architecture of a device by its name, if the table contains it and the name is unambiguous.
pub(in crate::facts) fn arch(vendor: Vendor, name: &str) -> Option<&'static str> {
    let words = words(name);
    let of_vendor = table().arch.iter().filter(|row| row.vendor == vendor);
    let row = of_vendor.into_iter().find(|row| row.names.iter().any(|wanted| contains_words(&words, wanted)));
    row.map(|row| row.arch.as_str())
}

/// The architecture of a device by its PCI ids.
pub(in crate::facts) fn arch_of_ids(vendor: Vendor, ids: (u16, u16)) -> Option<&'static str> {
    let number = format!("{:04x}", ids.1);
    let holds = |row: &&DeviceIdRange| row.vendor == vendor && row.from <= number && number <= row.to;
    table().range.iter().find(holds).map(|row| row.arch.as_str())
}

/// The series of a device by its PCI ids.
pub(in crate::facts) fn series(vendor: Vendor, ids: (u16, u16)) -> Option<&'static Series> {
    let number = format!("{:04x}", ids.1);
    let has =
        |row: &&Series| row.vendor == vendor && row.devices.iter().any(|start| number.starts_with(start));
    table().series.iter().find(has)
}

/// Whether GPUs of an architecture are integrated and share memory with the CPU.
pub(in crate::facts) fn is_integrated(arch: &str) -> bool {
    table().integrated.iter().any(|known| known == arch)
}

fn words(name: &str) -> Vec<String> {
    let separators = |c: char| c.is_whitespace() || matches!(c, '-' | '/' | '(' | ')');
    name.to_lowercase().split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn contains_words(words: &[String], wanted: &str) -> bool {
    let wanted = self::words(wanted);
    words
        .windows(wanted.len())
        .any(|window| window.iter().zip(&wanted).all(|(word, pattern)| star_matches(pattern, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        for row in &table().arch {
            let spelling = match row.vendor {
                Vendor::Nvidia => row.arch.strip_prefix("sm_").is_some_and(|n| n.parse::<u16>().is_ok()),
                _ => row.arch.strip_prefix("gfx").is_some_and(|n| n.chars().all(|c| c.is_ascii_hexdigit())),
            };
            assert!(spelling && !row.names.is_empty(), "{row:?}");
        }
        for (vendor, devices) in &table().device {
            for (number, name) in devices {
                assert!(u16::from_str_radix(number, 16).is_ok() && number.len() == 4, "{number}");
                assert!(name.starts_with(vendor.label()), "{name}");
            }
        }
    }

    #[test]
    fn device_ids_map_to_chips() {
        let of = |device| arch_of_ids(Vendor::Nvidia, (0x10de, device));
        for (device, expected) in [
            (0x128b, Some("sm_35")),
            (0x13c2, Some("sm_52")),
            (0x1c81, Some("sm_61")),
            (0x1db1, Some("sm_70")),
            (0x1eb8, Some("sm_75")),
            (0x2182, Some("sm_75")),
            (0x20b2, Some("sm_80")),
            (0x2684, Some("sm_89")),
            (0x2330, Some("sm_90")),
            (0x2901, Some("sm_100")),
            (0x2f04, Some("sm_120")),
            (0x1af1, None),
            (0xffff, None),
        ] {
            assert_eq!(of(device), expected, "{device:04x}");
        }
        for row in &table().range {
            assert!(row.from <= row.to && row.from.len() == 4 && row.to.len() == 4, "{row:?}");
            let start = if row.vendor == Vendor::Nvidia { "sm_" } else { "gfx" };
            assert!(u16::from_str_radix(&row.from, 16).is_ok() && row.arch.starts_with(start), "{row:?}");
        }
        // The architectures by name and by id must be the same.
        for (number, name) in &table().device[&Vendor::Nvidia] {
            let by_number = of(u16::from_str_radix(number, 16).unwrap());
            if let (Some(by_name), Some(by_number)) = (arch(Vendor::Nvidia, name), by_number) {
                assert_eq!(by_name, by_number, "{number} {name}");
            }
        }
    }

    #[test]
    fn device_ids_map_to_series() {
        let of =
            |device| series(Vendor::Intel, (0x8086, device)).map(|row| (row.kernel.as_deref(), row.legacy));
        assert_eq!(of(0x56a0), Some((Some("6.2"), false)));
        assert_eq!(of(0xe20b), Some((Some("6.12"), false)));
        assert_eq!(of(0x3e92), Some((None, true)));
        assert_eq!(of(0x9a49), None);
        for row in &table().series {
            let kernel = row.kernel.as_ref().map(|kernel| kernel.parse::<gpubuild_core::version::Version>());
            assert!(kernel.is_none_or(|kernel| kernel.is_ok()), "{row:?}");
            assert!(row.devices.iter().all(|start| u16::from_str_radix(start, 16).is_ok()), "{row:?}");
        }
    }

    #[test]
    fn driver_names_map_to_architectures() {
        for (name, expected) in [
            ("NVIDIA H200", Some("sm_90")),
            ("NVIDIA A100-SXM4-80GB", Some("sm_80")),
            ("NVIDIA A10", Some("sm_86")),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", Some("sm_89")),
            ("NVIDIA RTX 5000 Ada Generation", Some("sm_89")),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", Some("sm_120")),
            ("NVIDIA GeForce RTX 5090", Some("sm_120")),
            ("Quadro RTX 5000", Some("sm_75")),
            ("Tesla V100-SXM2-16GB", Some("sm_70")),
            ("NVIDIA GeForce GTX 960M", Some("sm_50")),
            ("NVIDIA GeForce GTX 970M", None),
            ("NVIDIA Jetson AGX Orin Developer Kit", Some("sm_87")),
            ("NVIDIA Graphics Device", None),
        ] {
            assert_eq!(arch(Vendor::Nvidia, name), expected, "{name}");
        }
        for (name, expected) in [
            ("AMD Radeon RX 7900 XTX", Some("gfx1100")),
            ("AMD Radeon RX 7700S", None),
            ("AMD Radeon RX 6800/6900 series", Some("gfx1030")),
            ("AMD Instinct MI300X OAM", Some("gfx942")),
            ("AMD Radeon(TM) 780M", Some("gfx1103")),
            ("AMD Radeon Graphics", None),
            ("AMD Radeon RX 470/480/570/580 series", Some("gfx803")),
            ("AMD Radeon RX 580 2048SP", Some("gfx803")),
            ("AMD Radeon Graphics (Raphael)", Some("gfx1036")),
            ("AMD Ryzen AI Max+ (Strix Halo) 8060S", Some("gfx1151")),
            ("AMD Radeon RX Vega 56/64", Some("gfx900")),
            ("Radeon RX 7900 XTX", Some("gfx1100")),
        ] {
            assert_eq!(arch(Vendor::Amd, name), expected, "{name}");
        }
    }

    #[test]
    fn pci_ids_map_to_names() {
        assert_eq!(vendor(0x10de), Vendor::Nvidia);
        assert_eq!(vendor(0x1414), Vendor::Virtual);
        assert_eq!(vendor(0x1a03), Vendor::Other);
        assert_eq!(device_name(Vendor::Nvidia, (0x10de, 0x2335)), "NVIDIA H200 SXM 141GB");
        assert_eq!(device_name(Vendor::Nvidia, (0x10de, 0xffff)), "NVIDIA GPU 10de:ffff");
        assert_eq!(device_name(Vendor::Other, (0x1a03, 0x2000)), "GPU 1a03:2000");
    }
}
