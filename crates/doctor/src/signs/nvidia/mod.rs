//! Signs of NVIDIA's driver: modules on disk by kernel, copies of the driver's libraries, NVSwitches and their manager, and
//! events since the machine was started.

mod kernel;
mod libraries;
mod system;

use gpubuild_detect::facts::Vendor;
use gpubuild_host::Os;

use super::SignContext;
pub use kernel::{InstalledKernels, ModuleSigns};
pub use libraries::{Collision, DriverLibrary, DriverOrigin, Libraries};
pub use system::{Fabric, System};

/// Observations about NVIDIA's driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NvidiaSigns {
    /// Installed kernels and the driver's modules for them.
    pub kernels: InstalledKernels,
    /// Copies of the driver's libraries, and CUDA libraries in several versions on one search path.
    pub libraries: Libraries,
    /// Other observations about the machine.
    pub system: System,
}

/// Reads kernel modules only if the machine has an NVIDIA GPU and is neither a container nor WSL, because it reads many files.
pub(super) fn gather(context: &SignContext<'_>) -> NvidiaSigns {
    if context.facts.platform.os != Os::Linux {
        return NvidiaSigns::default();
    }
    let has_gpu = context.facts.gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    let is_bare_host = context.facts.container.is_none() && context.facts.wsl.is_none();
    let kernels = if has_gpu && is_bare_host { kernel::gather(context) } else { InstalledKernels::default() };
    NvidiaSigns { kernels, libraries: libraries::gather(context), system: system::gather(context) }
}
