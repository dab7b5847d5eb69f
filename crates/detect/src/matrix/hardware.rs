//! Is the hardware there?

use super::words::Case;
use super::{Presence, Reason};
use crate::facts::{Gpu, Vendor};
use crate::finding::Evidence;
use crate::toolkit::Runtime;
use crate::toolkit::description::{Description, is_on};

/// The answer to the first question.
pub(super) struct Hardware {
    pub(super) state: Presence,
    /// Real devices first, then software ones.
    pub(super) devices: Vec<Gpu>,
    pub(super) reasons: Vec<Reason>,
}

impl Hardware {
    /// The devices that are no programs.
    pub(super) fn real(&self) -> impl Iterator<Item = &Gpu> {
        self.devices.iter().filter(|gpu| gpu.vendor != Vendor::Software)
    }

    /// The devices that run on the processor.
    pub(super) fn software(&self) -> impl Iterator<Item = &Gpu> {
        self.devices.iter().filter(|gpu| gpu.vendor == Vendor::Software)
    }
}

/// Looks at the devices that a description's backends can drive.
pub(super) fn evaluate(
    case: &Case<'_>,
    description: &Description,
    runtime: Option<&Runtime>,
    gpus: &[Gpu],
    probed: &[Gpu],
) -> Hardware {
    let rules = &description.hardware;
    if !is_on(&rules.on, case.os()) {
        let reason = case.say(&format!("{}.platform", description.family), description, &[]);
        return Hardware { state: Presence::Absent, devices: Vec::new(), reasons: vec![reason] };
    }
    let mut devices: Vec<Gpu> =
        gpus.iter().filter(|gpu| rules.vendors.contains(&gpu.vendor)).cloned().collect();
    if devices.is_empty() && rules.builtin.contains(&case.facts.platform) {
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
    } else if case.facts.wsl.is_some() {
        Presence::Unknown
    } else {
        Presence::Absent
    };
    let absent = || case.say(&format!("{}.hardware.absent", description.family), description, &[]);
    let reasons = if present { Vec::new() } else { vec![absent()] };
    Hardware { state, devices, reasons }
}

/// Best first: own memory before shared, more before less, then as they lie on the bus.
fn order(devices: &mut [Gpu]) {
    devices.sort_by_key(|gpu| {
        (gpu.integrated == Some(true), std::cmp::Reverse(gpu.memory_bytes.unwrap_or(0)), gpu.pci.clone())
    });
}

fn software(runtime: Option<&Runtime>, probed: &[Gpu]) -> Vec<Gpu> {
    let asked: Vec<Gpu> = probed.iter().filter(|gpu| gpu.vendor == Vendor::Software).cloned().collect();
    if !asked.is_empty() {
        return asked;
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
