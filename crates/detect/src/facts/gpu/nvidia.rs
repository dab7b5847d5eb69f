//! GPUs and driver version from NVIDIA's kernel driver in procfs and sysfs.

use gpubuild_core::version::Version;
use gpubuild_host::ReadFiles;

use super::merge;
use crate::facts::{DriverFacts, Fact, Gpu, Vendor, trimmed};
use crate::finding::Evidence;

const GPUS: &str = "/proc/driver/nvidia/gpus";

/// Adds names and UUIDs to the GPUs, and adds GPUs that only the driver lists.
pub(super) fn probe_gpus(host: &dyn ReadFiles, gpus: &mut Vec<Gpu>) {
    for address in host.list(&host.path(GPUS)).unwrap_or_default() {
        let path = format!("{GPUS}/{address}/information");
        let Ok(text) = host.read_text(&host.path(&path)) else { continue };
        let information = parse_information(&text);
        let address = information.address.unwrap_or_else(|| address.to_lowercase());
        let shown = information.model.clone().unwrap_or_else(|| "no model".to_owned());
        let evidence = Evidence::file(path, shown);
        let gpu = merge(gpus, Vendor::Nvidia, &address, None);
        gpu.name = information.model.unwrap_or_else(|| gpu.name.clone());
        gpu.uuid = information.uuid.or(gpu.uuid.take());
        gpu.integrated = gpu.integrated.or(Some(false));
        if gpu.kernel_driver.is_none() {
            gpu.kernel_driver = Some("nvidia".to_owned());
        }
        gpu.found_via.push("procfs".to_owned());
        gpu.evidence.push(evidence);
    }
}

/// The content of `/proc/driver/nvidia/gpus/*/information`.
#[derive(Debug, Default, PartialEq, Eq)]
struct GpuInformation {
    model: Option<String>,
    uuid: Option<String>,
    address: Option<String>,
}

fn parse_information(text: &str) -> GpuInformation {
    let value = |wanted: &str| {
        let value = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim())
        });
        // Fields contain question marks if the driver failed to initialize the GPU.
        value.filter(|value| !value.is_empty() && !value.contains("??")).map(str::to_owned)
    };
    let model = value("Model").filter(|model| model != "Unknown").map(|model| {
        if model.starts_with("NVIDIA") { model } else { format!("{} {model}", Vendor::Nvidia.label()) }
    });
    GpuInformation {
        model,
        uuid: value("GPU UUID"),
        address: value("Bus Location").map(|at| at.to_lowercase()),
    }
}

/// The kernel driver, if it is loaded.
pub(super) fn probe_driver(host: &dyn ReadFiles) -> Option<DriverFacts> {
    let proc_path = "/proc/driver/nvidia/version";
    let proc_text = trimmed(host, proc_path);
    let module_path = "/sys/module/nvidia/version";
    let module_version = trimmed(host, module_path).and_then(|text| text.parse::<Version>().ok());
    let flavour = proc_text.as_deref().map(parse_flavour);
    let version = match (module_version, proc_text.as_deref().and_then(parse_version)) {
        (Some(version), _) => {
            let evidence = vec![Evidence::file(module_path, version.as_str())];
            Some(Fact { value: version, found_via: "sysfs".to_owned(), evidence })
        }
        (None, Some(version)) => {
            let line = proc_text.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
            let evidence = vec![Evidence::file(proc_path, line)];
            Some(Fact { value: version, found_via: "procfs".to_owned(), evidence })
        }
        (None, None) => None,
    };
    if version.is_none() && proc_text.is_none() && !host.is_dir(&host.path("/sys/module/nvidia")) {
        return None;
    }
    let flavour = flavour.map(str::to_owned);
    Some(DriverFacts { vendor: Vendor::Nvidia, module: "nvidia".to_owned(), version, flavour })
}

fn parse_flavour(text: &str) -> &'static str {
    if text.contains("Open Kernel Module") { "open" } else { "proprietary" }
}

/// Parses the version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 …`.
fn parse_version(text: &str) -> Option<Version> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    line.split_whitespace()
        .find(|word| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        .and_then(|word| word.parse().ok())
}

/// Converts a Windows driver version to NVIDIA's own version: `32.0.15.7283` is `572.83`.
pub(super) fn from_windows_version(text: &str) -> Option<Version> {
    let digits: String = text.split('.').skip(2).collect();
    let digits = digits.get(digits.len().checked_sub(5)?..)?;
    format!("{}.{}", digits.get(..3)?, digits.get(3..)?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_flavours_of_the_driver_are_parsed() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@U22)  Sun Jul 27 07:06:32 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
        assert_eq!(
            (parse_flavour(open), parse_version(open).unwrap().to_string().as_str()),
            ("open", "580.65.06")
        );
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n";
        assert_eq!(
            (parse_flavour(closed), parse_version(closed).unwrap().as_str()),
            ("proprietary", "535.183.01")
        );
        assert_eq!(parse_version("NVRM version: garbled\n"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn gpu_information_is_parsed() {
        let text = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1234\nGPU UUID: \t GPU-0a1b\nBus Type: \t PCIe\nBus Location: \t 0000:C1:00.0\nDevice Minor: \t 0\n";
        let information = GpuInformation {
            model: Some("NVIDIA H200".into()),
            uuid: Some("GPU-0a1b".into()),
            address: Some("0000:c1:00.0".into()),
        };
        assert_eq!(parse_information(text), information);
        let broken = "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????\n";
        assert_eq!(parse_information(broken), GpuInformation::default());
        assert_eq!(
            parse_information("Model: Tesla V100-SXM2-16GB\n").model.as_deref(),
            Some("NVIDIA Tesla V100-SXM2-16GB")
        );
    }

    #[test]
    fn windows_versions_are_converted() {
        let version = |text| from_windows_version(text).map(|version| version.to_string());
        assert_eq!(version("32.0.15.7283").as_deref(), Some("572.83"));
        assert_eq!(version("31.0.15.3623").as_deref(), Some("536.23"));
        assert_eq!(version("32.0"), None);
        assert_eq!(version(""), None);
    }
}
