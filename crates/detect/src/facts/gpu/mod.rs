//! Every GPU of a host and the kernel drivers, from files and the registry alone.

mod amd;
mod linux;
pub(super) mod names;
mod nvidia;
#[cfg(test)]
mod tests;
mod windows;

use gpubuild_host::{Arch, Host, Os};

use super::{Driver, Gpu, Vendor};

/// All GPUs in the order of their addresses, and the drivers by vendor.
pub(super) fn probe(host: &dyn Host) -> (Vec<Gpu>, Vec<Driver>) {
    let (mut gpus, drivers) = match host.platform().os {
        Os::Linux => probe_linux(host),
        Os::Windows => windows::probe(host),
        Os::Macos => (probe_macos(host), Vec::new()),
    };
    for gpu in &mut gpus {
        if gpu.arch.is_none() {
            let by_number = gpu.ids.and_then(|ids| names::arch_of_ids(gpu.vendor, ids));
            // Windows' drivers call every processor's graphics `AMD Radeon(TM) Graphics`.
            let by_table = || names::arch(gpu.vendor, &names::device_name(gpu.vendor, gpu.ids?));
            let found = names::arch(gpu.vendor, &gpu.name).or(by_number).or_else(by_table);
            gpu.arch = found.map(str::to_owned);
        }
        // The kernel shows the GPU of a newer processor as a node of its own, like a card.
        if gpu.vendor == Vendor::Amd && gpu.arch.as_deref().is_some_and(names::is_integrated) {
            gpu.integrated = Some(true);
        }
    }
    // Those without an address come last, in the order in which they were found.
    gpus.sort_by(|left, right| (left.pci.is_none(), &left.pci).cmp(&(right.pci.is_none(), &right.pci)));
    (gpus, drivers)
}

fn probe_linux(host: &dyn Host) -> (Vec<Gpu>, Vec<Driver>) {
    let mut gpus = linux::probe_pci(host);
    let drm = linux::probe_drm(host, &gpus);
    gpus.extend(drm);
    nvidia::probe_cards(host, &mut gpus);
    amd::probe_topology(host, &mut gpus);
    let has_nvidia = |gpus: &[Gpu]| gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    if !has_nvidia(&gpus) {
        gpus.extend(linux::probe_wsl(host).or_else(|| linux::probe_jetson(host)));
    }
    if !has_nvidia(&gpus) {
        gpus.extend(linux::probe_nodes(host));
    }
    let mut drivers: Vec<Driver> =
        [nvidia::probe_driver(host), amd::probe_driver(host)].into_iter().flatten().collect();
    // Drivers without a version of their own, as far as they are bound to a card.
    for gpu in &gpus {
        let Some(module) = gpu.kernel_driver.as_ref().filter(|module| *module != "vfio-pci") else {
            continue;
        };
        if !drivers.iter().any(|driver| driver.module == *module) {
            drivers.push(Driver { vendor: gpu.vendor, module: module.clone(), version: None, flavour: None });
        }
    }
    (gpus, drivers)
}

/// Every Mac with Apple's own processor has its GPU; which one, only Metal tells. Of other Macs no file tells.
fn probe_macos(host: &dyn Host) -> Vec<Gpu> {
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

/// The GPU at an address, made if it is not known yet. A card at another address never counts as the same.
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
