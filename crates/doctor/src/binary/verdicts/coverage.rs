//! Which device code runs on which device: the compatibility rules of NVIDIA and AMD.

use std::collections::BTreeSet;

use gpubuild_core::arch::CudaArch;
use gpubuild_core::version::Version;
use gpubuild_object::{FatbinCode, KernelKind};
use serde::Serialize;

/// How a file's kernels run on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DeviceCover {
    /// Machine code for the device is present.
    Native,
    /// The driver compiles the kernels for the device at the first start.
    Compiled,
    /// There is only PTX for the device, and it is too new for the driver.
    PtxTooNew,
    /// No kernel runs on the device.
    None,
    /// Cannot be determined.
    Unknown,
}

/// How one object's kernels run on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Index of the object in the graph.
    pub object: usize,
    /// Architecture of the device: `sm_90`, `gfx1100`; empty if it is unknown.
    pub device: String,
    /// Name of the device.
    pub name: String,
    /// How the kernels run on it.
    pub cover: DeviceCover,
}

/// How a file's CUDA code runs on a device. `driver` is the newest CUDA release that the driver supports; `release` returns the
/// CUDA release of a PTX version.
pub(super) fn cuda(
    code: &FatbinCode,
    device: &CudaArch,
    driver: Option<&Version>,
    release: &dyn Fn((u16, u16)) -> Option<Version>,
) -> DeviceCover {
    let of = |kind: KernelKind| code.kernels.iter().filter(move |kernel| kernel.kind == kind);
    if of(KernelKind::Sass).any(|kernel| kernel.arch.runs_on(device)) {
        return DeviceCover::Native;
    }
    let mut ptx = of(KernelKind::Ptx).filter(|kernel| kernel.arch.translates_for(device)).peekable();
    if ptx.peek().is_some() {
        let is_readable = |version: Option<(u16, u16)>| match (version.and_then(release), driver) {
            (Some(release), Some(driver)) => release <= *driver,
            _ => true,
        };
        return if ptx.any(|kernel| is_readable(kernel.ptx)) {
            DeviceCover::Compiled
        } else {
            DeviceCover::PtxTooNew
        };
    }
    // LTO code is linked at run time by a linker that the program bundles.
    let has_lto = of(KernelKind::Lto).next().is_some();
    if code.incomplete || has_lto { DeviceCover::Unknown } else { DeviceCover::None }
}

/// Whether one of the targets runs on a device. Source of the generic targets: llvm.org/docs/AMDGPUUsage.html, "Generic
/// processor targets".
pub(super) fn hip(targets: &BTreeSet<String>, device: &str) -> bool {
    targets.iter().any(|target| {
        let target = target.split(':').next().unwrap_or_default();
        match target {
            "spirv" => true,
            "gfx9-generic" => {
                matches!(device, "gfx900" | "gfx902" | "gfx904" | "gfx906" | "gfx909" | "gfx90c")
            }
            "gfx9-4-generic" => matches!(device, "gfx942" | "gfx950"),
            "gfx10-1-generic" => in_range(device, "gfx1010", "gfx1013"),
            "gfx10-3-generic" => in_range(device, "gfx1030", "gfx1036"),
            "gfx11-generic" => {
                in_range(device, "gfx1100", "gfx1103") || in_range(device, "gfx1150", "gfx1153")
            }
            "gfx12-generic" => in_range(device, "gfx1200", "gfx1201"),
            exact => exact == device,
        }
    })
}

fn in_range(device: &str, first: &str, last: &str) -> bool {
    device.len() == first.len() && (first..=last).contains(&device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(text: &str) -> CudaArch {
        text.parse().unwrap()
    }

    #[test]
    fn machine_code_and_ptx_follow_nvidias_rules() {
        for (code, device, machine_code, ptx) in [
            ("80", "80", true, true),
            ("80", "86", true, true),
            ("86", "80", false, false),
            ("80", "90", false, true),
            ("90", "80", false, false),
            ("90a", "90", true, true),
            ("90a", "100", false, false),
            ("100f", "103", true, true),
            ("100f", "120", false, false),
            ("100f", "100", true, true),
            ("103f", "100", false, false),
            ("120", "121", true, true),
            ("52", "121", false, true),
            ("101", "110", true, true),
            ("100", "110", false, true),
            ("70", "75", true, true),
        ] {
            assert_eq!(arch(code).runs_on(&arch(device)), machine_code, "sm_{code} on {device}");
            assert_eq!(arch(code).translates_for(&arch(device)), ptx, "compute_{code} on {device}");
        }
    }

    #[test]
    fn amd_targets_are_exact_or_generic() {
        for (target, device, runs) in [
            ("gfx90a", "gfx90a", true),
            ("gfx90a:xnack-", "gfx90a", true),
            ("gfx900", "gfx906", false),
            ("gfx9-generic", "gfx906", true),
            ("gfx9-generic", "gfx942", false),
            ("gfx10-3-generic", "gfx1035", true),
            ("gfx11-generic", "gfx1151", true),
            ("gfx11-generic", "gfx1200", false),
            ("gfx1100", "gfx1101", false),
            ("spirv", "gfx1201", true),
        ] {
            assert_eq!(hip(&BTreeSet::from([target.to_owned()]), device), runs, "{target} on {device}");
        }
    }
}
