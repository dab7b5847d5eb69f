//! GPUs from the `kfd` topology of AMD's kernel driver, and the driver's version.

use gpubuild_core::version::Version;
use gpubuild_host::{ReadFiles, glob};

use super::merge;
use crate::facts::{DriverFacts, Fact, Gpu, Vendor, trimmed};
use crate::finding::Evidence;

const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

/// Adds architecture and memory to the GPUs, and adds GPUs that only the topology lists.
pub(super) fn probe_topology(host: &dyn ReadFiles, gpus: &mut Vec<Gpu>) {
    for node in glob(host, &format!("{NODES}/*")) {
        let path = node.join("properties");
        let Some(properties) = host.read_text(&path).ok().and_then(|text| parse_node(&text)) else {
            continue;
        };
        let memory: u64 = glob(host, node.join("mem_banks/*/properties").as_str())
            .iter()
            .filter_map(|bank| parse_bank(&host.read_text(bank).ok()?))
            .sum();
        let gpu = merge(gpus, Vendor::Amd, &properties.address, Some((0x1002, properties.device)));
        gpu.arch = Some(properties.arch.clone());
        gpu.integrated = Some(properties.has_processor);
        if gpu.memory_bytes.is_none() && memory > 0 {
            gpu.memory_bytes = Some(memory);
        }
        if gpu.kernel_driver.is_none() {
            gpu.kernel_driver = Some("amdgpu".to_owned());
        }
        gpu.found_via.push("kfd".to_owned());
        gpu.evidence
            .push(Evidence::file(path.as_str(), format!("gfx_target_version of {}", properties.arch)));
    }
}

/// A GPU in the topology.
#[derive(Debug, PartialEq, Eq)]
struct TopologyNode {
    arch: String,
    address: String,
    device: u16,
    has_processor: bool,
}

/// Parses the properties of a node; `None` for a CPU.
fn parse_node(text: &str) -> Option<TopologyNode> {
    let value = |wanted: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.trim().split_once(' ')?;
            (name == wanted).then(|| value.trim().parse::<u64>().ok()).flatten()
        })
    };
    let version = value("gfx_target_version").filter(|version| *version > 0)?;
    let location = value("location_id").unwrap_or(0);
    let address = format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        value("domain").unwrap_or(0),
        location >> 8 & 0xff,
        location >> 3 & 0x1f,
        location & 0x7
    );
    Some(TopologyNode {
        arch: gfx(version),
        address,
        device: u16::try_from(value("device_id").unwrap_or(0)).unwrap_or(0),
        has_processor: value("cpu_cores_count").unwrap_or(0) > 0,
    })
}

/// Converts a `gfx_target_version` to an architecture: `110003` is `gfx1103`, `90010` is `gfx90a`. The number consists of major, minor
/// and stepping, with two decimal digits each.
fn gfx(version: u64) -> String {
    format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100)
}

/// The size in bytes of a memory bank in GPU memory: heap types 1 (visible to the CPU) and 2.
fn parse_bank(text: &str) -> Option<u64> {
    let value = |wanted: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(wanted)?.trim().parse::<u64>().ok())
    };
    matches!(value("heap_type")?, 1 | 2).then(|| value("size_in_bytes")).flatten()
}

/// The kernel driver, if it is loaded. Only the module from AMD's driver package has a version.
pub(super) fn probe_driver(host: &dyn ReadFiles) -> Option<DriverFacts> {
    let path = "/sys/module/amdgpu/version";
    let version = trimmed(host, path).and_then(|text| text.parse::<Version>().ok());
    if version.is_none() && !host.is_dir(&host.path("/sys/module/amdgpu")) {
        return None;
    }
    let version = version.map(|version| {
        let evidence = vec![Evidence::file(path, version.as_str())];
        Fact { value: version, found_via: "sysfs".to_owned(), evidence }
    });
    Some(DriverFacts { vendor: Vendor::Amd, module: "amdgpu".to_owned(), version, flavour: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_versions_become_gfx_names() {
        for (version, expected) in [
            (90_402, "gfx942"),
            (90_010, "gfx90a"),
            (110_003, "gfx1103"),
            (100_300, "gfx1030"),
            (120_001, "gfx1201"),
        ] {
            assert_eq!(gfx(version), expected);
        }
    }

    #[test]
    fn nodes_and_memory_banks_are_parsed() {
        let text = "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nlocation_id 49408\ndomain 1\n";
        let node = TopologyNode {
            arch: "gfx942".into(),
            address: "0001:c1:00.0".into(),
            device: 0x74a1,
            has_processor: false,
        };
        assert_eq!(parse_node(text), Some(node));
        assert_eq!(parse_node("cpu_cores_count 64\ngfx_target_version 0\n"), None);
        assert_eq!(parse_node("garbage"), None);
        assert_eq!(parse_bank("heap_type 1\nsize_in_bytes 206141652992\nflags 0\n"), Some(206_141_652_992));
        assert_eq!(parse_bank("heap_type 0\nsize_in_bytes 5\n"), None);
    }
}
