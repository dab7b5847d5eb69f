//! Determines whether GPU code runs on a machine's devices. Pure.

use gpubuild_core::arch::CudaArch;

use super::machine::ObservedMachine;
use super::manifest::{Cuda, Rocm};

/// How code runs on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VariantCover {
    /// As machine code for its architecture.
    Native,
    /// As PTX that the driver compiles first.
    Translated,
}

/// How CUDA code runs on all devices, or why it does not.
pub(super) fn cuda(code: &Cuda, seen: &ObservedMachine, portable: bool) -> Result<VariantCover, String> {
    if let Some(driver) = &seen.driver
        && *driver < code.driver
    {
        return Err(format!(
            "the driver is {driver}, but the variant needs {} [nv.driver.too-old]",
            code.driver
        ));
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
            let archs = code.real.iter().chain(&code.ptx).map(CudaArch::sm).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{} is {}, but the variant has code only for {archs} [nv.no-kernel-image]",
                device.name,
                arch.sm()
            ));
        }
        let newest = seen.translates.as_ref();
        if let Some(newest) = newest
            .filter(|newest| (newest.major(), newest.minor()) < (code.release.major(), code.release.minor()))
        {
            return Err(format!(
                "{} needs the variant's PTX code, but the driver compiles PTX only up to CUDA {}, not {} [nv.ptx.too-new]",
                device.name,
                newest.release(),
                code.release.release()
            ));
        }
        cover = VariantCover::Translated;
    }
    Ok(cover)
}

/// How ROCm code runs on all devices, or why it does not. A code object runs only on its own architecture.
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
            let archs = code.gfx.join(", ");
            return Err(format!(
                "{} is {arch}, but the variant has code only for {archs} [rocm.gfx-unsupported]",
                device.name
            ));
        }
    }
    Ok(VariantCover::Native)
}
