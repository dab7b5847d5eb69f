//! Signs about NVIDIA's driver: what is on disk for which kernel, which copies of its libraries a program gets, what
//! belongs to a server with NVSwitches, and what happened to the machine since it was started.

mod kernel;
mod libraries;
mod system;

use gpubuild_detect::facts::Vendor;
use gpubuild_host::Os;

use super::SignContext;
pub use kernel::{InstalledKernels, ModuleSigns};
pub use libraries::{Collision, DriverLibrary, DriverOrigin, Libraries};
pub use system::{Fabric, System, SystemGroup};

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NvidiaSigns {
    /// Kernels and the driver's modules for them.
    pub kernels: InstalledKernels,
    /// Copies of the driver's libraries, and several versions of CUDA's on one search path.
    pub libraries: Libraries,
    /// The rest of the machine.
    pub system: System,
}

/// Looks. What costs more than a few files is looked at only where a card or a driver of NVIDIA is.
pub(super) fn gather(scene: &SignContext<'_>) -> NvidiaSigns {
    if scene.facts.platform.os != Os::Linux {
        return NvidiaSigns::default();
    }
    let has_card = scene.facts.gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    let on_a_machine = scene.facts.container.is_none() && scene.facts.wsl.is_none();
    let kernels = if has_card && on_a_machine { kernel::gather(scene) } else { InstalledKernels::default() };
    NvidiaSigns { kernels, libraries: libraries::gather(scene), system: system::gather(scene) }
}
