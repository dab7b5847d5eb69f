//! Whether code for GPUs runs on a device. Pure.

use gpubuild_core::arch::CudaArch;

use super::machine::ObservedMachine;
use super::manifest::{Cuda, Rocm};

/// How a device is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VariantCover {
    /// By machine code.
    Native,
    /// By code that its driver translates first.
    Translated,
}

/// How CUDA code serves all devices, or why it does not.
pub(super) fn cuda(code: &Cuda, seen: &ObservedMachine, portable: bool) -> Result<VariantCover, String> {
    if let Some(driver) = &seen.driver
        && *driver < code.driver
    {
        return Err(format!("driver {driver} is here, and it needs {} [nv.driver.too-old]", code.driver));
    }
    let mut cover = VariantCover::Native;
    for device in &seen.devices {
        let Some(arch) = device.arch.as_deref().and_then(|arch| arch.parse::<CudaArch>().ok()) else {
            if portable {
                continue;
            }
            return Err(format!("the architecture of {} is unknown [resolve.arch-unknown]", device.name));
        };
        if code.real.iter().any(|real| real.runs_on(&arch)) {
            continue;
        }
        if !code.ptx.iter().any(|ptx| ptx.translates_for(&arch)) {
            let held = code.real.iter().chain(&code.ptx).map(CudaArch::sm).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{} is {}, and it holds code for {held} [nv.no-kernel-image]",
                device.name,
                arch.sm()
            ));
        }
        let knows = seen.translates.as_ref();
        if let Some(knows) = knows
            .filter(|knows| (knows.major(), knows.minor()) < (code.release.major(), code.release.minor()))
        {
            return Err(format!(
                "{} needs its PTX translated, and the driver knows releases up to {}, not {} [nv.ptx.too-new]",
                device.name,
                knows.release(),
                code.release.release()
            ));
        }
        cover = VariantCover::Translated;
    }
    Ok(cover)
}

/// How ROCm code serves all devices, or why it does not: code objects run on their own architecture alone.
pub(super) fn rocm(code: &Rocm, seen: &ObservedMachine, portable: bool) -> Result<VariantCover, String> {
    for device in &seen.devices {
        // `gfx90a:sramecc+:xnack-` is a gfx90a.
        let Some(arch) = device.arch.as_deref().map(|arch| arch.split(':').next().unwrap_or(arch)) else {
            if portable {
                continue;
            }
            return Err(format!("the architecture of {} is unknown [resolve.arch-unknown]", device.name));
        };
        if !code.gfx.iter().any(|gfx| gfx == arch) {
            let held = code.gfx.join(", ");
            return Err(format!(
                "{} is {arch}, and it holds code for {held} [rocm.gfx-unsupported]",
                device.name
            ));
        }
    }
    Ok(VariantCover::Native)
}
