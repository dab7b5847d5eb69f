//! Validates the drivers' answers to probes and merges them with the facts from files.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{ProbeAnswer, ProbeStatus};
use serde::Deserialize;

use super::Reason;
use crate::diagnostic::DiagnosticId;
use crate::facts::{Gpu, Vendor};
use crate::finding::{Evidence, EvidenceKind};
use crate::id;

/// Results of driver probes, by backend.
pub type Probes = BTreeMap<Backend, ProbeAnswer>;

/// A parsed answer.
#[derive(Debug, Default)]
pub(super) struct ParsedAnswer {
    /// The reported devices, including software devices.
    pub(super) devices: Vec<Gpu>,
    /// The reason if the answer is missing or invalid.
    pub(super) reason: Option<Reason>,
    /// Whether the driver returned a valid answer.
    pub(super) answered: bool,
    /// The newest release of the toolkit that the driver supports by its own account.
    pub(super) release: Option<Version>,
}

impl ParsedAnswer {
    /// Whether the driver reports a hardware device.
    pub(super) fn drives_hardware(&self) -> bool {
        self.devices.iter().any(|gpu| gpu.vendor != Vendor::Software)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProbeDocument {
    driver_version: Option<i64>,
    devices: Vec<ProbedDevice>,
    platforms: Vec<OpenClPlatform>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenClPlatform {
    name: String,
    devices: Vec<ProbedDevice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProbedDevice {
    name: String,
    r#type: String,
    cc: Option<String>,
    arch: Option<String>,
    memory_bytes: Option<u64>,
    pci: Option<String>,
    uuid: Option<String>,
    vendor_id: Option<u32>,
    driver_id: Option<u32>,
    unified_memory: Option<bool>,
}

/// Parses the answer of one backend.
pub(super) fn read(backend: Backend, answer: &ProbeAnswer) -> ParsedAnswer {
    let broken = |id: DiagnosticId, text: String, hint: &str| ParsedAnswer {
        reason: Some(Reason::new(id, text).hint(hint)),
        ..ParsedAnswer::default()
    };
    match answer.status {
        ProbeStatus::Crashed => broken(
            id!("probe.crashed"),
            format!("the {backend} driver crashed during the probe: {}", answer.error),
            "reinstall the driver; until then, detection relies on files only",
        ),
        ProbeStatus::Timeout => broken(
            id!("probe.timeout"),
            format!("the {backend} driver did not respond in time: {}", answer.error),
            "check for hung GPU processes, and check the kernel log",
        ),
        ProbeStatus::Failed => broken(
            id!("probe.failed"),
            format!("the {backend} driver reports an error: {}", answer.error),
            "run `gpubuild doctor` to find the cause",
        ),
        ProbeStatus::Ok => parse(backend, &answer.answer).unwrap_or_else(|problem| {
            broken(
                id!("probe.invalid"),
                format!("the {backend} driver returned an invalid answer: {problem}"),
                "detection relies on files only; reinstall the driver if it does not work",
            )
        }),
    }
}

fn parse(backend: Backend, text: &str) -> Result<ParsedAnswer, String> {
    let document: ProbeDocument = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(version) = document.driver_version.filter(|version| !(1000..100_000).contains(version)) {
        return Err(format!("driver version {version}"));
    }
    let platforms = document.platforms.into_iter().flat_map(|platform| {
        let name = platform.name;
        platform.devices.into_iter().map(move |mut device| {
            if device.name.is_empty() {
                device.name.clone_from(&name);
            }
            device
        })
    });
    let devices = document
        .devices
        .into_iter()
        .chain(platforms)
        .map(|device| gpu(backend, device))
        .collect::<Result<Vec<_>, _>>()?;
    let number = document.driver_version.filter(|_| backend == Backend::Cuda);
    let release = number.and_then(|number| u64::try_from(number).ok()).map(Version::of_cuda_number);
    Ok(ParsedAnswer { devices, reason: None, answered: true, release })
}

fn gpu(backend: Backend, device: ProbedDevice) -> Result<Gpu, String> {
    const MAX_MEMORY: u64 = 16 << 40;
    const MIN_MEMORY: u64 = 16 << 20;
    if device.name.trim().is_empty() || device.name.len() > 256 {
        return Err("a device without a name".to_owned());
    }
    let name: String = device.name.trim().chars().filter(|c| !c.is_control()).collect();
    let memory = device.memory_bytes.filter(|bytes| *bytes != 0);
    if let Some(bytes) = memory.filter(|bytes| !(MIN_MEMORY..=MAX_MEMORY).contains(bytes)) {
        return Err(format!("{bytes} bytes of memory on `{name}`"));
    }
    let arch = match (&device.cc, &device.arch) {
        (Some(cc), _) => Some(
            cc.parse::<gpubuild_core::arch::CudaArch>()
                .map_err(|_| format!("compute capability `{cc}`"))?
                .sm(),
        ),
        (None, Some(arch)) => {
            // Remove feature flags: `gfx90a:sramecc+:xnack-`.
            let arch = arch.split(':').next().unwrap_or_default();
            if !arch.starts_with("gfx") {
                return Err(format!("architecture `{arch}`"));
            }
            Some(arch.to_owned())
        }
        (None, None) => None,
    };
    let evidence = Evidence::new(EvidenceKind::Dlopen, format!("probe:{backend}"), name.clone());
    Ok(Gpu {
        vendor: vendor(backend, &device, &name),
        name,
        pci: device.pci.as_deref().map(normal_pci),
        ids: None,
        kernel_driver: None,
        arch,
        memory_bytes: memory,
        integrated: device.unified_memory.or(match device.r#type.as_str() {
            "integrated-gpu" => Some(true),
            "discrete-gpu" => Some(false),
            _ => None,
        }),
        uuid: device.uuid,
        found_via: vec![format!("probe:{backend}")],
        evidence: vec![evidence],
    })
}

fn vendor(backend: Backend, device: &ProbedDevice, name: &str) -> Vendor {
    // 10 and 13 are the VkDriverId of SwiftShader and llvmpipe.
    if device.r#type == "cpu" || matches!(device.driver_id, Some(10 | 13)) {
        return Vendor::Software;
    }
    let by_id = match device.vendor_id {
        Some(0x10de) => Some(Vendor::Nvidia),
        Some(0x1002) => Some(Vendor::Amd),
        Some(0x8086) => Some(Vendor::Intel),
        Some(0x106b) => Some(Vendor::Apple),
        Some(0x17cb | 0x5143) => Some(Vendor::Qualcomm),
        Some(_) => Some(Vendor::Other),
        None => None,
    };
    let lower = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    by_id.unwrap_or(match backend {
        Backend::Cuda => Vendor::Nvidia,
        Backend::Rocm => Vendor::Amd,
        _ if has(&["llvmpipe", "pocl", "swiftshader"]) => Vendor::Software,
        _ if has(&["nvidia", "geforce", "quadro", "tesla"]) => Vendor::Nvidia,
        _ if has(&["amd", "radeon", "gfx"]) => Vendor::Amd,
        _ if has(&["intel", "arc"]) => Vendor::Intel,
        _ if has(&["apple"]) || backend == Backend::Metal => Vendor::Apple,
        _ if has(&["adreno", "qualcomm"]) => Vendor::Qualcomm,
        _ => Vendor::Other,
    })
}

/// Converts a PCI address to the kernel's format: `00000000:C1:00.0` becomes `0000:c1:00.0`.
fn normal_pci(text: &str) -> String {
    let lower = text.trim().to_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && rest.contains(':') => format!("{}:{rest}", &domain[4..]),
        Some((_, rest)) if !rest.contains(':') => format!("0000:{lower}"),
        _ => lower,
    }
}

/// Merges the devices of an answer into those from files, so that each GPU is listed once.
pub(super) fn merge(gpus: &mut Vec<Gpu>, probed: &[Gpu]) {
    for device in probed.iter().filter(|gpu| gpu.vendor != Vendor::Software) {
        match same(gpus, probed, device) {
            Some(index) => fill(&mut gpus[index], device),
            None => gpus.push(device.clone()),
        }
    }
}

/// The index of the GPU that a probed device refers to: by PCI address, UUID or name, or because it is the vendor's only GPU.
fn same(gpus: &[Gpu], probed: &[Gpu], device: &Gpu) -> Option<usize> {
    let by =
        |test: &dyn Fn(&Gpu) -> bool| gpus.iter().position(|gpu| gpu.vendor == device.vendor && test(gpu));
    let differs = |gpu: &Gpu| gpu.pci.is_some() && device.pci.is_some() && gpu.pci != device.pci;
    let of_vendor = |list: &[Gpu]| list.iter().filter(|gpu| gpu.vendor == device.vendor).count();
    by(&|gpu| gpu.pci.is_some() && gpu.pci == device.pci)
        .or_else(|| by(&|gpu| gpu.uuid.is_some() && gpu.uuid == device.uuid))
        .or_else(|| {
            by(&|gpu| {
                gpu.name == device.name && !differs(gpu) && !gpu.found_via.contains(&device.found_via[0])
            })
        })
        .or_else(|| {
            let alone = of_vendor(gpus) == 1 && of_vendor(probed) == 1;
            if alone { by(&|gpu| !differs(gpu)) } else { None }
        })
}

fn fill(gpu: &mut Gpu, device: &Gpu) {
    if gpu.found_via.iter().all(|via| !via.starts_with("probe:")) {
        gpu.name.clone_from(&device.name);
    }
    // For architecture and memory, the driver is more reliable than a table.
    gpu.arch = device.arch.clone().or_else(|| gpu.arch.take());
    gpu.memory_bytes = device.memory_bytes.or(gpu.memory_bytes);
    gpu.integrated = gpu.integrated.or(device.integrated);
    gpu.pci = gpu.pci.take().or_else(|| device.pci.clone());
    gpu.uuid = gpu.uuid.take().or_else(|| device.uuid.clone());
    gpu.found_via.extend(device.found_via.iter().cloned());
    gpu.evidence.extend(device.evidence.iter().cloned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(text: &str) -> ProbeAnswer {
        ProbeAnswer { status: ProbeStatus::Ok, error: String::new(), answer: text.to_owned() }
    }

    #[test]
    fn a_gpu_in_several_answers_is_listed_once() {
        let text = r#"{"driver_version": 12040, "devices": [
            {"name": "NVIDIA H200", "cc": "9.0", "memory_bytes": 150754820096, "pci": "00000000:C1:00.0"}]}"#;
        let answer = read(Backend::Cuda, &ok(text));
        assert!(answer.answered && answer.reason.is_none());
        let mut gpus = answer.devices.clone();
        gpus[0].name = "NVIDIA GPU 10de:2335".to_owned();
        gpus[0].arch = None;
        gpus[0].found_via = vec!["sysfs".to_owned()];
        merge(&mut gpus, &answer.devices);
        let vulkan = r#"{"devices": [
            {"name": "NVIDIA H200", "type": "discrete-gpu", "vendor_id": 4318},
            {"name": "llvmpipe (LLVM 15.0.6, 256 bits)", "type": "cpu", "vendor_id": 65541, "driver_id": 13}]}"#;
        let vulkan = read(Backend::Vulkan, &ok(vulkan));
        merge(&mut gpus, &vulkan.devices);
        assert_eq!(gpus.len(), 1);
        assert_eq!(gpus[0].arch.as_deref(), Some("sm_90"));
        assert_eq!(gpus[0].pci.as_deref(), Some("0000:c1:00.0"));
        assert_eq!(gpus[0].found_via, ["sysfs", "probe:cuda", "probe:vulkan"]);
        assert_eq!(vulkan.devices[1].vendor, Vendor::Software);
    }

    #[test]
    fn two_gpus_with_the_same_name_are_not_merged() {
        let text = r#"{"devices": [{"name": "A100", "cc": "8.0"}, {"name": "A100", "cc": "8.0"}]}"#;
        let answer = read(Backend::Cuda, &ok(text));
        let mut gpus = Vec::new();
        merge(&mut gpus, &answer.devices);
        assert_eq!(gpus.len(), 2);
        merge(
            &mut gpus,
            &read(Backend::Vulkan, &ok(r#"{"devices": [{"name": "A100", "vendor_id": 4318}]}"#)).devices,
        );
        assert_eq!(gpus.len(), 2);
    }

    #[test]
    fn invalid_answers_become_reasons() {
        for text in [
            "",
            "[]garbage",
            r#"{"devices": 3}"#,
            r#"{"driver_version": -1}"#,
            r#"{"driver_version": 2000000000}"#,
            r#"{"devices": [{"name": ""}]}"#,
            r#"{"devices": [{"name": "x", "memory_bytes": 18446744073709551615}]}"#,
            r#"{"devices": [{"name": "x", "memory_bytes": 1}]}"#,
            r#"{"devices": [{"name": "x", "cc": "banana"}]}"#,
            r#"{"devices": [{"name": "x", "arch": "sm_90"}]}"#,
        ] {
            let answer = read(Backend::Cuda, &ok(text));
            assert_eq!(
                answer.reason.as_ref().map(|reason| reason.id.as_str()),
                Some("probe.invalid"),
                "{text}"
            );
            assert!(answer.devices.is_empty());
        }
        let crashed =
            ProbeAnswer { status: ProbeStatus::Crashed, error: "signal 11".into(), answer: String::new() };
        assert_eq!(read(Backend::Rocm, &crashed).reason.unwrap().id, "probe.crashed");
    }
}
