//! A machine's properties for Python wheel variants (PEP 817, PEP 825): `namespace :: feature :: value`, the most preferred first. Pure.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;

use super::machine::{ReleaseMachine, level};

/// The variant properties of a machine. Names and values are those of the providers `nvidia-variant-provider` and
/// `provider-variant-x86-64`; no provider for AMD has been released.
#[must_use]
pub fn properties(machine: &ReleaseMachine, catalogue: &Catalogue) -> Vec<String> {
    let mut all = Vec::new();
    if let (Some(seen), Some(cuda)) =
        (machine.backends.get(&Backend::Cuda), catalogue.for_backend(Backend::Cuda))
    {
        if let Some(newest) = &seen.translates {
            let mut releases: Vec<_> = cuda.compatibility.branch.iter().map(|row| &row.toolkit).collect();
            releases.sort();
            releases.dedup();
            let known = releases.into_iter().rev().filter(|release| *release <= newest);
            all.extend(
                known.map(|release| format!("nvidia :: cuda_version_lower_bound :: {}", release.release())),
            );
        }
        let devices: Vec<CudaArch> =
            seen.devices.iter().filter_map(|device| device.arch.as_deref()?.parse().ok()).collect();
        let known: Vec<CudaArch> = cuda
            .compatibility
            .arch
            .iter()
            .flat_map(|row| &row.archs)
            .filter_map(|arch| arch.parse().ok())
            .collect();
        all.extend(for_all(&devices, &known, "real", CudaArch::runs_on));
        all.extend(for_all(&devices, &known, "virtual", CudaArch::translates_for));
    }
    if let Some((name, rank)) = machine.cpu.as_deref().and_then(level).filter(|(name, _)| *name == "x86-64") {
        let namespace = name.replace('-', "_");
        all.extend((1..=rank).rev().map(|rank| format!("{namespace} :: level :: v{rank}")));
    }
    all
}

/// The known architectures whose code runs on every device, the newest first.
fn for_all(
    devices: &[CudaArch],
    known: &[CudaArch],
    kind: &str,
    runs_on: impl Fn(&CudaArch, &CudaArch) -> bool,
) -> Vec<String> {
    if devices.is_empty() {
        return Vec::new();
    }
    let mut fitting: Vec<&CudaArch> =
        known.iter().filter(|code| devices.iter().all(|device| runs_on(code, device))).collect();
    fitting.sort_by(|left, right| right.cmp(left));
    fitting.dedup();
    fitting
        .into_iter()
        .map(|code| format!("nvidia :: sm_arch :: {}_{kind}", code.sm().trim_start_matches("sm_")))
        .collect()
}
