//! GPUs on Windows, from the registry keys of the display adapter class and the PCI device list.

use gpubuild_core::version::Version;
use gpubuild_host::ReadRegistry;

use super::{names, nvidia};
use crate::facts::{DriverFacts, Fact, Gpu, Vendor};
use crate::finding::{Evidence, EvidenceKind};

const CLASS: &str = "{4d36e968-e325-11ce-bfc1-08002be10318}";
const CLASSES: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Class";
const PCI: &str = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI";

/// A display device on PCI.
#[derive(Debug)]
struct DisplayAdapter {
    key: String,
    ids: (u16, u16),
    /// The subkey of the adapter class that describes the driver: `0001`.
    driver: Option<String>,
    address: Option<String>,
    name: Option<String>,
}

/// Returns the display adapters and their drivers.
pub(super) fn probe(host: &dyn ReadRegistry) -> (Vec<Gpu>, Vec<DriverFacts>) {
    let devices = probe_devices(host);
    let mut gpus = Vec::new();
    let mut drivers: Vec<DriverFacts> = Vec::new();
    let class = format!(r"{CLASSES}\{CLASS}");
    for number in host.registry_keys(&class) {
        let key = format!(r"{class}\{number}");
        let value = |name: &str| host.registry_value(&key, name).map(|value| value.text);
        let matching = value("MatchingDeviceId").unwrap_or_default();
        let Some(ids) = parse_ids(&matching) else {
            // Adreno is part of the processor and is not on PCI: `ACPI\VEN_QCOM&DEV_0C36`.
            if matching.to_uppercase().contains("QCOM") {
                gpus.push(adreno(&key, &value));
                drivers.extend(driver(Vendor::Qualcomm, &key, value("DriverVersion").as_deref()));
            }
            continue;
        };
        let device = devices.iter().find(|device| device.driver.as_deref() == Some(number.as_str()));
        // Skip removed GPUs, whose keys remain in the registry.
        if !devices.is_empty() && device.is_none() && !devices.iter().any(|device| device.ids == ids) {
            continue;
        }
        let vendor = names::vendor(ids.0);
        // Microsoft's basic driver is used for GPUs without a vendor driver.
        let basic = value("ProviderName").as_deref() == Some("Microsoft")
            || value("DriverDesc").is_some_and(|name| name.starts_with("Microsoft Basic"));
        if !basic
            && let Some(driver) = driver(vendor, &key, value("DriverVersion").as_deref())
            && !drivers.iter().any(|known| known.vendor == driver.vendor)
        {
            drivers.push(driver);
        }
        let memory = value("HardwareInformation.qwMemorySize").and_then(|bytes| bytes.parse().ok());
        gpus.push(Gpu {
            name: value("DriverDesc").filter(|_| !basic).unwrap_or_else(|| names::device_name(vendor, ids)),
            pci: device.and_then(|device| device.address.clone()),
            ids: Some(ids),
            kernel_driver: module(vendor).filter(|_| !basic).map(str::to_owned),
            memory_bytes: memory.filter(|bytes| *bytes > 0),
            found_via: vec!["registry".to_owned()],
            evidence: vec![Evidence::new(
                EvidenceKind::Registry,
                key.clone(),
                value("DriverDesc").unwrap_or_default(),
            )],
            ..Gpu::unknown(vendor)
        });
    }
    for device in devices {
        if gpus.iter().any(|gpu: &Gpu| gpu.ids == Some(device.ids)) {
            continue;
        }
        let vendor = names::vendor(device.ids.0);
        gpus.push(Gpu {
            name: device.name.unwrap_or_else(|| names::device_name(vendor, device.ids)),
            pci: device.address,
            ids: Some(device.ids),
            found_via: vec!["registry".to_owned()],
            evidence: vec![Evidence::new(
                EvidenceKind::Registry,
                device.key,
                "no driver of the display class",
            )],
            ..Gpu::unknown(vendor)
        });
    }
    (gpus, drivers)
}

fn adreno(key: &str, value: &dyn Fn(&str) -> Option<String>) -> Gpu {
    let id = value("MatchingDeviceId").unwrap_or_default();
    Gpu {
        name: value("DriverDesc").unwrap_or_else(|| "Qualcomm Adreno".to_owned()),
        kernel_driver: module(Vendor::Qualcomm).map(str::to_owned),
        integrated: Some(true),
        found_via: vec!["registry".to_owned()],
        evidence: vec![Evidence::new(EvidenceKind::Registry, key, id)],
        ..Gpu::unknown(Vendor::Qualcomm)
    }
}

/// The name of a vendor's driver in messages. Windows has no well-known module names.
fn module(vendor: Vendor) -> Option<&'static str> {
    match vendor {
        Vendor::Nvidia => Some("nvidia"),
        Vendor::Amd => Some("amdgpu"),
        Vendor::Intel => Some("igfx"),
        Vendor::Qualcomm => Some("adreno"),
        _ => None,
    }
}

fn driver(vendor: Vendor, key: &str, version: Option<&str>) -> Option<DriverFacts> {
    let text = version?.trim();
    let parsed: Option<Version> = match vendor {
        Vendor::Nvidia => nvidia::from_windows_version(text),
        _ => text.parse().ok(),
    };
    let evidence = vec![Evidence::new(EvidenceKind::Registry, format!(r"{key}\DriverVersion"), text)];
    let version = parsed.map(|value| Fact { value, found_via: "registry".to_owned(), evidence });
    Some(DriverFacts { vendor, module: module(vendor)?.to_owned(), version, flavour: None })
}

/// Display devices on PCI, with or without a driver.
fn probe_devices(host: &dyn ReadRegistry) -> Vec<DisplayAdapter> {
    let mut devices = Vec::new();
    for hardware in host.registry_keys(PCI) {
        let Some(ids) = parse_ids(&hardware) else { continue };
        if names::vendor(ids.0) == Vendor::Other {
            continue;
        }
        for instance in host.registry_keys(&format!(r"{PCI}\{hardware}")) {
            let key = format!(r"{PCI}\{hardware}\{instance}");
            let value = |name: &str| host.registry_value(&key, name).map(|value| value.text);
            let class = value("ClassGUID").map(|class| class.to_lowercase());
            let is_display = class.as_deref() == Some(CLASS)
                || value("CompatibleIDs").is_some_and(|ids| ids.to_uppercase().contains(r"PCI\CC_03"));
            if !is_display {
                continue;
            }
            devices.push(DisplayAdapter {
                ids,
                driver: value("Driver").and_then(|driver| driver.rsplit('\\').next().map(str::to_owned)),
                address: value("LocationInformation").as_deref().and_then(parse_location),
                name: value("DeviceDesc").and_then(|name| name.rsplit(';').next().map(str::to_owned)),
                key,
            });
        }
    }
    devices
}

/// Parses the PCI ids in `pci\ven_10de&dev_2684&subsys_…`.
fn parse_ids(text: &str) -> Option<(u16, u16)> {
    let lower = text.to_lowercase();
    let number = |name: &str| {
        let digits = lower.split_once(name)?.1.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    Some((number("ven_")?, number("dev_")?))
}

/// Parses the PCI address in `@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(1,0,0)`.
fn parse_location(text: &str) -> Option<String> {
    let numbers: Vec<u32> = match text.rsplit_once('(') {
        Some((_, inside)) => {
            inside.trim_end_matches(')').split(',').map_while(|number| number.trim().parse().ok()).collect()
        }
        None => text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect(),
    };
    let [bus, device, function] = numbers[..] else { return None };
    Some(format!("0000:{bus:02x}:{device:02x}.{function:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_ids_and_addresses_are_parsed() {
        assert_eq!(parse_ids(r"PCI\VEN_10DE&DEV_2684&SUBSYS_16F4"), Some((0x10de, 0x2684)));
        assert_eq!(parse_ids(r"ROOT\BasicDisplay"), None);
        assert_eq!(parse_ids(r"pci\ven_10"), None);
        let location = r"@System32\drivers\pci.sys,#65536;PCI bus %1, device %2, function %3;(193,0,1)";
        assert_eq!(parse_location(location).as_deref(), Some("0000:c1:00.1"));
        assert_eq!(parse_location("PCI bus 1, device 0, function 0").as_deref(), Some("0000:01:00.0"));
        assert_eq!(parse_location("somewhere"), None);
    }
}
