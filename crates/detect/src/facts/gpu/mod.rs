//! All GPUs of a host and their kernel drivers, from files and the registry.

mod amd;
mod linux;
pub(super) mod names;
mod nvidia;
#[cfg(test)]
mod tests;
mod windows;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{Arch, HostInfo, InspectHost, Os, ReadFiles};

use super::{DriverFacts, Gpu, Vendor};

/// Returns all GPUs ordered by PCI address, and the kernel drivers by vendor.
pub(super) fn probe(host: &dyn InspectHost) -> (Vec<Gpu>, Vec<DriverFacts>) {
    let (mut gpus, drivers) = match host.platform().os {
        Os::Linux => probe_linux(host),
        Os::Windows => windows::probe(host),
        Os::Macos => (probe_macos(host), Vec::new()),
    };
    for gpu in &mut gpus {
        if gpu.arch.is_none() {
            let by_number = gpu.ids.and_then(|ids| names::arch_of_ids(gpu.vendor, ids));
            // Windows drivers report the name `AMD Radeon(TM) Graphics` for the GPU of every AMD processor.
            let by_table = || names::arch(gpu.vendor, &names::device_name(gpu.vendor, gpu.ids?));
            let found = names::arch(gpu.vendor, &gpu.name).or(by_number).or_else(by_table);
            gpu.arch = found.map(str::to_owned);
        }
        // The topology lists integrated GPUs of newer processors as separate nodes, like discrete GPUs.
        if gpu.vendor == Vendor::Amd && gpu.arch.as_deref().is_some_and(names::is_integrated) {
            gpu.integrated = Some(true);
        }
    }
    // GPUs without an address are last, in the order in which they were found.
    gpus.sort_indirect_by(|left, right| {
        (left.pci.is_none(), &left.pci).cmp(&(right.pci.is_none(), &right.pci))
    });
    (gpus, drivers)
}

fn probe_linux(host: &dyn ReadFiles) -> (Vec<Gpu>, Vec<DriverFacts>) {
    let mut gpus = linux::probe_pci(host);
    let drm = linux::probe_drm(host, &gpus);
    gpus.extend(drm);
    nvidia::probe_gpus(host, &mut gpus);
    amd::probe_topology(host, &mut gpus);
    let has_nvidia = |gpus: &[Gpu]| gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    if !has_nvidia(&gpus) {
        gpus.extend(linux::probe_wsl(host).or_else(|| linux::probe_jetson(host)));
    }
    if !has_nvidia(&gpus) {
        gpus.extend(linux::probe_nodes(host));
    }
    let mut drivers: Vec<DriverFacts> =
        [nvidia::probe_driver(host), amd::probe_driver(host)].into_iter().flatten().collect();
    // Add drivers without a version if they are bound to a GPU.
    for gpu in &gpus {
        let Some(module) = gpu.kernel_driver.as_ref().filter(|module| *module != "vfio-pci") else {
            continue;
        };
        if !drivers.iter().any(|driver| driver.module == *module) {
            drivers.push(DriverFacts {
                vendor: gpu.vendor,
                module: module.clone(),
                version: None,
                flavour: None,
            });
        }
    }
    (gpus, drivers)
}

/// Every Mac with an Apple processor has a GPU, whose model only Metal reports. GPUs of other Macs cannot be detected from files.
fn probe_macos(host: &dyn HostInfo) -> Vec<Gpu> {
    if host.platform().arch != Arch::Aarch64 {
        return Vec::new();
    }
    vec![Gpu {
        name: "Apple GPU".to_owned(),
        integrated: Some(true),
        found_via: vec!["platform".to_owned()],
        ..Gpu::unknown(Vendor::Apple)
    }]
}

/// Returns the GPU at an address, adding it if it is missing. GPUs at different addresses are never merged.
fn merge<'a>(gpus: &'a mut Vec<Gpu>, vendor: Vendor, address: &str, ids: Option<(u16, u16)>) -> &'a mut Gpu {
    let known = gpus.iter().position(|gpu| gpu.vendor == vendor && gpu.pci.as_deref() == Some(address));
    let index = known.unwrap_or_else(|| {
        let name = match ids {
            Some(ids) => names::device_name(vendor, ids),
            None => format!("{} GPU", vendor.label()),
        };
        gpus.push(Gpu { name, pci: Some(address.to_owned()), ids, ..Gpu::unknown(vendor) });
        gpus.len() - 1
    });
    &mut gpus[index]
}
