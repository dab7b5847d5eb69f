//! GPUs on Linux: PCI devices in sysfs, and GPUs without a PCI address (WSL, Jetson, containers without sysfs).

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::search::natural_order;
use gpubuild_host::{Arch, HostPath, ReadFiles, library};

use super::names;
use crate::facts::{Gpu, Vendor, trimmed};
use crate::finding::Evidence;

const PCI: &str = "/sys/bus/pci/devices";
/// The path at which WSL provides the CUDA driver library of Windows.
const WSL_CUDA: &str = "/usr/lib/wsl/lib/libcuda.so.1";

/// All display, 3D and accelerator devices on PCI, ordered by address.
pub(super) fn probe_pci(host: &dyn ReadFiles) -> Vec<Gpu> {
    let mut addresses = host.list(&host.path(PCI)).unwrap_or_default();
    addresses.sort_indirect_by(|left, right| natural_order(left, right));
    addresses.iter().filter_map(|address| probe_device(host, address)).collect()
}

fn probe_device(host: &dyn ReadFiles, address: &str) -> Option<Gpu> {
    let folder = host.path(PCI).join(address);
    let class = number(host, &folder, "class")?;
    if !is_gpu_class(class) {
        return None;
    }
    let ids = (short(number(host, &folder, "vendor")?)?, short(number(host, &folder, "device")?)?);
    let vendor = names::vendor(ids.0);
    let kernel_driver = bound_driver(host, &folder);
    // In the accelerator class, only devices of these vendors are GPUs; Intel and others use it for NPUs.
    if class >> 16 == 0x12 && !matches!(vendor, Vendor::Nvidia | Vendor::Amd) {
        return None;
    }
    let product = trimmed(host, folder.join("product_name").as_str()).filter(|_| vendor == Vendor::Amd);
    let memory = trimmed(host, folder.join("mem_info_vram_total").as_str()).filter(|_| vendor == Vendor::Amd);
    let evidence = vec![Evidence::file(
        folder.as_str(),
        format!(
            "class {class:#08x}, {:04x}:{:04x}, driver {}",
            ids.0,
            ids.1,
            kernel_driver.as_deref().unwrap_or("none")
        ),
    )];
    Some(Gpu {
        name: product.unwrap_or_else(|| names::device_name(vendor, ids)),
        pci: Some(address.to_lowercase()),
        ids: Some(ids),
        kernel_driver,
        memory_bytes: memory.and_then(|bytes| bytes.parse().ok()),
        integrated: is_integrated(vendor, address),
        found_via: vec!["sysfs".to_owned()],
        evidence,
        ..Gpu::unknown(vendor)
    })
}

/// Whether a PCI class is that of display controllers, or of processing accelerators.
fn is_gpu_class(class: u32) -> bool {
    class >> 16 == 0x03 || class >> 8 == 0x1200
}

/// Whether a GPU shares memory with the CPU; `None` if the PCI address does not show it.
fn is_integrated(vendor: Vendor, address: &str) -> Option<bool> {
    match vendor {
        Vendor::Nvidia => Some(false),
        // Intel's integrated GPUs have always had this address.
        Vendor::Intel => Some(address.ends_with(":00:02.0")),
        _ => None,
    }
}

fn number(host: &dyn ReadFiles, folder: &HostPath, name: &str) -> Option<u32> {
    let text = trimmed(host, folder.join(name).as_str())?;
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
}

fn short(number: u32) -> Option<u16> {
    u16::try_from(number).ok()
}

/// The name of the driver that a device is bound to.
fn bound_driver(host: &dyn ReadFiles, folder: &HostPath) -> Option<String> {
    let link = host.read_link(&folder.join("driver")).ok();
    let from_link =
        link.and_then(|target| target.trim_end_matches('/').rsplit('/').next().map(str::to_owned));
    from_link.filter(|name| !name.is_empty()).or_else(|| {
        let events = host.read_text(&folder.join("uevent")).ok()?;
        events.lines().find_map(|line| line.strip_prefix("DRIVER=").map(|name| name.trim().to_owned()))
    })
}

/// GPUs in the drm class that are not among the PCI devices, for containers in which sysfs only contains that class.
pub(super) fn probe_drm(host: &dyn ReadFiles, known: &[Gpu]) -> Vec<Gpu> {
    let mut found: Vec<Gpu> = Vec::new();
    for card in gpubuild_host::glob(host, "/sys/class/drm/card*") {
        // Names such as `card0-DP-1` are connectors.
        if card.file_name().is_none_or(|name| name.contains('-')) {
            continue;
        }
        let folder = card.join("device");
        let Some(vendor_number) = number(host, &folder, "vendor").and_then(short) else { continue };
        let Some(device_number) = number(host, &folder, "device").and_then(short) else { continue };
        let events = host.read_text(&folder.join("uevent")).unwrap_or_default();
        let address =
            events.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=")).map(str::to_lowercase);
        let ids = (vendor_number, device_number);
        let is_known = known.iter().chain(&found).any(|gpu| match &address {
            Some(address) => gpu.pci.as_ref() == Some(address),
            None => gpu.ids == Some(ids),
        });
        if is_known {
            continue;
        }
        let vendor = names::vendor(ids.0);
        let memory = trimmed(host, folder.join("mem_info_vram_total").as_str());
        found.push(Gpu {
            name: names::device_name(vendor, ids),
            pci: address,
            ids: Some(ids),
            kernel_driver: bound_driver(host, &folder),
            memory_bytes: memory.and_then(|bytes| bytes.parse().ok()),
            found_via: vec!["drm".to_owned()],
            evidence: vec![Evidence::file(folder.as_str(), format!("{:04x}:{:04x}", ids.0, ids.1))],
            ..Gpu::unknown(vendor)
        });
    }
    found
}

/// The GPU of the Windows host under WSL. No file identifies it, but the driver library only exists if there is a GPU.
pub(super) fn probe_wsl(host: &dyn ReadFiles) -> Option<Gpu> {
    let device = host.path("/dev/dxg");
    let cuda = host.path(WSL_CUDA);
    if !host.exists(&device) || !host.exists(&cuda) {
        return None;
    }
    Some(Gpu {
        name: "NVIDIA GPU (of the Windows host)".to_owned(),
        kernel_driver: Some("dxgkrnl".to_owned()),
        found_via: vec!["wsl".to_owned()],
        evidence: vec![Evidence::file(device.as_str(), "present"), Evidence::file(cuda.as_str(), "present")],
        ..Gpu::unknown(Vendor::Nvidia)
    })
}

/// The GPU of an NVIDIA Jetson, which is not a PCI device.
pub(super) fn probe_jetson(host: &dyn ReadFiles) -> Option<Gpu> {
    if host.platform().arch != Arch::Aarch64 {
        return None;
    }
    let model_path = "/proc/device-tree/model";
    let model = trimmed(host, model_path)
        .or_else(|| trimmed(host, "/sys/firmware/devicetree/base/model"))
        .filter(|model| model.contains("Jetson") || model.contains("Tegra"));
    let release_path = "/etc/nv_tegra_release";
    let release = trimmed(host, release_path);
    if model.is_none() && release.is_none() {
        return None;
    }
    let mut evidence = Vec::new();
    if let Some(model) = &model {
        evidence.push(Evidence::file(model_path, model.clone()));
    }
    if let Some(release) = release {
        let first = release.lines().next().unwrap_or_default().to_owned();
        evidence.push(Evidence::file(release_path, first));
    }
    Some(Gpu {
        name: model.unwrap_or_else(|| "NVIDIA Tegra".to_owned()),
        kernel_driver: ["nvgpu", "nvidia"]
            .iter()
            .find(|module| host.exists(&host.path(&format!("/sys/module/{module}"))))
            .map(|&module| module.to_owned()),
        integrated: Some(true),
        found_via: vec!["device-tree".to_owned()],
        evidence,
        ..Gpu::unknown(Vendor::Nvidia)
    })
}

/// GPUs for which only NVIDIA device nodes are visible, as in containers that hide sysfs.
pub(super) fn probe_nodes(host: &dyn ReadFiles) -> Vec<Gpu> {
    let nodes = gpubuild_host::glob(host, "/dev/nvidia*");
    let cards = nodes.iter().filter(|node| {
        let number = node.file_name().and_then(|name| name.strip_prefix("nvidia"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let has_library = std::cell::LazyCell::new(|| library::find(host, "libcuda.so.1").is_some());
    cards
        .map(|node| Gpu {
            name: format!("NVIDIA GPU ({node})"),
            found_via: vec!["dev".to_owned()],
            evidence: vec![Evidence::file(
                node.as_str(),
                if *has_library { "present, with libcuda.so.1" } else { "present" },
            )],
            ..Gpu::unknown(Vendor::Nvidia)
        })
        .collect()
}
