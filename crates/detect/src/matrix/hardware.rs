//! Determines whether the hardware is present.

use gpubuild_core::order::SortIndirect as _;

use super::reasons::RuleInput;
use super::{Presence, Reason};
use crate::facts::{Gpu, Vendor};
use crate::finding::Evidence;
use crate::id;
use crate::toolkit::ToolkitRuntime;
use crate::toolkit::description::{Description, is_on};

/// The hardware part of a verdict.
pub(super) struct HardwareVerdict {
    pub(super) state: Presence,
    /// Hardware devices first, then software devices.
    pub(super) devices: Vec<Gpu>,
    pub(super) reasons: Vec<Reason>,
}

impl HardwareVerdict {
    /// The hardware devices.
    pub(super) fn real(&self) -> impl Iterator<Item = &Gpu> {
        self.devices.iter().filter(|gpu| gpu.vendor != Vendor::Software)
    }

    /// The software devices, which run on the CPU.
    pub(super) fn software(&self) -> impl Iterator<Item = &Gpu> {
        self.devices.iter().filter(|gpu| gpu.vendor == Vendor::Software)
    }
}

/// Selects the devices that a description's backends can use.
pub(super) fn evaluate(
    input: &RuleInput<'_>,
    description: &Description,
    runtime: Option<&ToolkitRuntime>,
    gpus: &[Gpu],
    probed: &[Gpu],
) -> HardwareVerdict {
    let rules = &description.hardware;
    if !is_on(&rules.on, input.os()) {
        let id = RuleInput::id(description, "platform", id!("toolkit.platform"));
        let reason = input.reason(id, description, &[]);
        return HardwareVerdict { state: Presence::Absent, devices: Vec::new(), reasons: vec![reason] };
    }
    let mut devices: Vec<Gpu> =
        gpus.iter().filter(|gpu| rules.vendors.contains(&gpu.vendor)).cloned().collect();
    if devices.is_empty() && rules.builtin.contains(&input.facts.platform) {
        let name = rules.builtin_name.as_deref().unwrap_or("GPU");
        devices.push(device(rules.vendors[0], name, "platform"));
    }
    for gpu in &mut devices {
        if gpu.arch.is_none()
            && let Some(arch) = description.arch_of_name(&gpu.name)
        {
            gpu.arch = Some(arch.to_owned());
        }
    }
    order(&mut devices);
    let present = !devices.is_empty();
    devices.extend(software(runtime, probed));
    let state = if present {
        Presence::Present
    } else if input.facts.wsl.is_some() {
        Presence::Unknown
    } else {
        Presence::Absent
    };
    let reasons = if present {
        Vec::new()
    } else {
        let id = RuleInput::id(description, "hardware.absent", id!("toolkit.hardware-absent"));
        vec![input.reason(id, description, &[])]
    };
    HardwareVerdict { state, devices, reasons }
}

/// Sorts devices, the best first: dedicated memory before shared memory, larger memory before smaller, then by PCI address.
fn order(devices: &mut [Gpu]) {
    devices.sort_indirect_by_key(|gpu| {
        (gpu.integrated == Some(true), std::cmp::Reverse(gpu.memory_bytes.unwrap_or(0)), gpu.pci.clone())
    });
}

fn software(runtime: Option<&ToolkitRuntime>, probed: &[Gpu]) -> Vec<Gpu> {
    let software: Vec<Gpu> = probed.iter().filter(|gpu| gpu.vendor == Vendor::Software).cloned().collect();
    if !software.is_empty() {
        return software;
    }
    let mut found: Vec<Gpu> = Vec::new();
    for driver in runtime.into_iter().flat_map(|runtime| &runtime.drivers).filter(|driver| driver.found) {
        if let Some(name) = &driver.software
            && found.iter().all(|gpu| gpu.name != *name)
        {
            let mut gpu = device(Vendor::Software, name, "manifest");
            gpu.evidence.push(Evidence::file(driver.manifest.as_str(), driver.library.as_str()));
            found.push(gpu);
        }
    }
    found
}

fn device(vendor: Vendor, name: &str, found_via: &str) -> Gpu {
    Gpu {
        vendor,
        name: name.to_owned(),
        pci: None,
        ids: None,
        kernel_driver: None,
        arch: None,
        memory_bytes: None,
        integrated: None,
        uuid: None,
        found_via: vec![found_via.to_owned()],
        evidence: Vec::new(),
    }
}
