//! What only the doctor looks for, gathered before any check runs: thin `gather` functions and plain values, one file per
//! family. Files, registry and environment only; no process is started here.

pub mod access;
pub mod container;
pub mod cuda_build;
pub mod cuda_toolkit;
pub mod graphics;
pub mod nvidia;
pub mod rocm;

use gpubuild_detect::facts::Facts;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::InspectHost;

use super::resolvers::{Resolutions, resolve_all};

/// What a `gather` function looks at.
#[derive(Clone, Copy)]
pub struct SignContext<'a> {
    /// The machine.
    pub host: &'a dyn InspectHost,
    /// What is known of it.
    pub facts: &'a Facts,
    /// Toolkits on it.
    pub inventory: &'a Inventory,
    /// The descriptions that they were found by.
    pub catalogue: &'a Catalogue,
}

/// Everything that the checks look at beside facts and toolkits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSigns {
    /// Who asks needs no `sudo`.
    pub is_root: bool,
    /// Who may open what.
    pub access: access::AccessSigns,
    /// About containers and WSL.
    pub container: container::ContainerSigns,
    /// About compiling for CUDA.
    pub cuda_build: cuda_build::CudaBuildSigns,
    /// About finding the CUDA Toolkit.
    pub cuda_toolkit: cuda_toolkit::CudaToolkitSigns,
    /// About Vulkan, Metal, OpenCL and SYCL.
    pub graphics: graphics::GraphicsSigns,
    /// About NVIDIA's driver.
    pub nvidia: nvidia::NvidiaSigns,
    /// About ROCm and HIP.
    pub rocm: rocm::RocmSigns,
    /// Which toolkit each build system will take.
    pub resolutions: Resolutions,
}

impl MachineSigns {
    /// Looks at a machine.
    #[must_use]
    pub fn gather(
        host: &dyn InspectHost,
        facts: &Facts,
        inventory: &Inventory,
        catalogue: &Catalogue,
    ) -> Self {
        let scene = SignContext { host, facts, inventory, catalogue };
        Self {
            is_root: host.identity().uid == Some(0),
            access: access::gather(&scene),
            container: container::gather(&scene),
            cuda_build: cuda_build::gather(&scene),
            cuda_toolkit: cuda_toolkit::gather(&scene),
            graphics: graphics::gather(&scene),
            nvidia: nvidia::gather(&scene),
            rocm: rocm::gather(&scene),
            resolutions: resolve_all(host, inventory, catalogue),
        }
    }
}
