//! A machine's properties for Python wheel variants (PEP 825, PEP 850): `namespace :: feature :: value`, the most preferred first. Pure.

use std::collections::BTreeMap;

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::matrix::{PREFERENCE, Presence, Readiness};
use gpubuild_detect::toolkit::{Catalogue, Description};

use super::machine::{MachineDevice, ObservedMachine, ReleaseMachine, level};

/// The variant properties of a machine. Names and values are those of the providers in `toolkits/tables/wheel-variants.toml`. If several
/// GPUs differ, only properties that fit all of them are listed.
#[must_use]
pub fn properties(machine: &ReleaseMachine, catalogue: &Catalogue) -> Vec<String> {
    let usable = |backend: Backend| {
        let seen = machine.backends.get(&backend)?;
        (seen.hardware == Presence::Present && seen.run != Readiness::Blocked).then_some(seen)
    };
    let mut all = Vec::new();
    if let (Some(seen), Some(cuda)) = (usable(Backend::Cuda), catalogue.for_backend(Backend::Cuda)) {
        all.extend(nvidia(seen, cuda));
    }
    if let Some(gfx) = usable(Backend::Rocm).and_then(|seen| common_gfx(&seen.devices)) {
        all.push(format!("amd :: gfx_arch :: {gfx}"));
    }
    let backends = PREFERENCE.into_iter().filter(|backend| usable(*backend).is_some());
    all.extend(backends.map(|backend| format!("gpubuild :: backend :: {}", backend.id())));
    if let Some((name, rank)) = machine.cpu.as_deref().and_then(level).filter(|(name, _)| *name == "x86-64") {
        let namespace = name.replace('-', "_");
        all.extend((1..=rank).rev().map(|rank| format!("{namespace} :: level :: v{rank}")));
    }
    all
}

fn nvidia(seen: &ObservedMachine, cuda: &Description) -> Vec<String> {
    let mut releases: Vec<_> = cuda.compatibility.branch.iter().map(|row| &row.toolkit).collect();
    releases.sort_indirect();
    releases.dedup();
    let newest = seen.translates.as_ref();
    let known = releases.into_iter().rev().filter(|release| newest.is_some_and(|newest| *release <= newest));
    let mut all: Vec<String> =
        known.map(|release| format!("nvidia :: cuda_version_lower_bound :: {}", release.release())).collect();
    let devices: Vec<CudaArch> =
        seen.devices.iter().filter_map(|device| device.arch.as_deref()?.parse().ok()).collect();
    let known = known_archs(cuda);
    all.extend(for_all(&devices, &known, "real", CudaArch::runs_on));
    all.extend(for_all(&devices, &known, "virtual", CudaArch::translates_for));
    all
}

/// The architectures that some CUDA release has, the oldest first, with the first such release.
pub(crate) fn known_archs(cuda: &Description) -> Vec<(CudaArch, Version)> {
    let mut known: BTreeMap<CudaArch, Version> = BTreeMap::new();
    for row in cuda.compatibility.arch.iter() {
        for arch in row.archs.iter().filter_map(|arch| arch.parse().ok()) {
            known.entry(arch).or_insert_with(|| row.since.clone());
        }
    }
    known.into_iter().collect()
}

/// The architecture of all devices; `None` if it is unknown or they differ, because code runs on one architecture only.
fn common_gfx(devices: &[MachineDevice]) -> Option<&str> {
    // `gfx90a:sramecc+:xnack-` is a gfx90a.
    let mut archs = devices
        .iter()
        .map(|device| device.arch.as_deref().map(|arch| arch.split(':').next().unwrap_or(arch)));
    let first = archs.next()??;
    archs.all(|arch| arch == Some(first)).then_some(first)
}

/// The known architectures whose code runs on every device, the newest first.
fn for_all(
    devices: &[CudaArch],
    known: &[(CudaArch, Version)],
    kind: &str,
    runs_on: impl Fn(&CudaArch, &CudaArch) -> bool,
) -> Vec<String> {
    if devices.is_empty() {
        return Vec::new();
    }
    let newest_first = known.iter().rev().map(|(code, _)| code);
    newest_first
        .filter(|code| devices.iter().all(|device| runs_on(code, device)))
        .map(|code| format!("nvidia :: sm_arch :: {}_{kind}", code.sm().trim_start_matches("sm_")))
        .collect()
}
