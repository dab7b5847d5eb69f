//! Signs: observations that only the doctor needs, collected before any check runs. Each family has a `gather` function and plain
//! values. Reads files, the registry and the environment only; starts no process.

pub mod access;
pub mod container;
pub mod cuda_build;
pub mod cuda_toolkit;
pub mod graphics;
pub mod nvidia;
pub mod packages;
pub mod rocm;
pub mod unfinished;

use gpubuild_detect::facts::Facts;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{InspectHost, find_program};

use super::resolvers::{Resolutions, resolve_all};

/// Input of the `gather` functions.
#[derive(Clone, Copy)]
pub struct SignContext<'a> {
    /// The host.
    pub host: &'a dyn InspectHost,
    /// Observed facts about the machine.
    pub facts: &'a Facts,
    /// Detected toolkits.
    pub inventory: &'a Inventory,
    /// The toolkit descriptions that detection used.
    pub catalogue: &'a Catalogue,
}

/// What a function observes on a host without toolkits.
#[cfg(test)]
fn gathered<T>(host: &gpubuild_host::RecordedHost, gather: fn(&SignContext<'_>) -> T) -> T {
    let facts = gpubuild_detect::facts::gather(host);
    let (inventory, catalogue) = (Inventory::default(), Catalogue::embedded());
    gather(&SignContext { host, facts: &facts, inventory: &inventory, catalogue: &catalogue })
}

/// All observations that the checks use besides facts and toolkits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineSigns {
    /// Whether Make is on PATH.
    pub has_make: bool,
    /// Users and groups.
    pub access: access::AccessSigns,
    /// Containers and WSL.
    pub container: container::ContainerSigns,
    /// Compiling for CUDA.
    pub cuda_build: cuda_build::CudaBuildSigns,
    /// Finding the CUDA Toolkit.
    pub cuda_toolkit: cuda_toolkit::CudaToolkitSigns,
    /// Vulkan, Metal, OpenCL and SYCL.
    pub graphics: graphics::GraphicsSigns,
    /// NVIDIA's driver.
    pub nvidia: nvidia::NvidiaSigns,
    /// Packages of the distribution that remedies may name.
    pub packages: packages::PackageSigns,
    /// ROCm and HIP.
    pub rocm: rocm::RocmSigns,
    /// Packages whose installation was interrupted or failed, and held ones.
    pub unfinished: unfinished::UnfinishedSigns,
    /// The copies of toolkits that build systems use.
    pub resolutions: Resolutions,
}

impl MachineSigns {
    /// Collects all observations on a host.
    #[must_use]
    pub fn gather(
        host: &dyn InspectHost,
        facts: &Facts,
        inventory: &Inventory,
        catalogue: &Catalogue,
    ) -> Self {
        let context = SignContext { host, facts, inventory, catalogue };
        let resolutions = resolve_all(host, inventory, catalogue);
        let mut signs = Self {
            packages: packages::gather(&context),
            unfinished: unfinished::gather(&context),
            resolutions,
            ..Self::for_states(&context)
        };
        signs.cuda_build.libclang = Some(cuda_build::LibclangSign::find(host));
        signs
    }

    /// All that affects states. Packages, libclang and the copies that build systems use affect only notes, evidence and remedies.
    pub(crate) fn for_states(context: &SignContext<'_>) -> Self {
        let host = context.host;
        Self {
            has_make: ["make", "gmake"].iter().any(|name| !find_program(host, name).is_empty()),
            access: access::gather(context),
            container: container::gather(context),
            cuda_build: cuda_build::gather(context),
            cuda_toolkit: cuda_toolkit::gather(context),
            graphics: graphics::gather(context),
            nvidia: nvidia::gather(context),
            packages: packages::PackageSigns::default(),
            rocm: rocm::gather(context),
            unfinished: unfinished::UnfinishedSigns::default(),
            resolutions: Resolutions::default(),
        }
    }
}
