//! Signs about Vulkan, Metal, OpenCL and SYCL.

pub mod metal;
pub mod opencl;
pub mod sycl;
pub mod vulkan;

use gpubuild_host::{HostPath, ReadFiles, find_program};

use super::SignContext;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphicsSigns {
    /// About Vulkan.
    pub vulkan: vulkan::Vulkan,
    /// About Metal.
    pub metal: metal::Metal,
    /// About OpenCL.
    pub opencl: opencl::Opencl,
    /// About SYCL.
    pub sycl: sycl::Sycl,
    /// PCI addresses of GPUs that have no display: cards for computing.
    pub without_display: Vec<String>,
}

/// Looks.
pub(super) fn gather(scene: &SignContext<'_>) -> GraphicsSigns {
    GraphicsSigns {
        vulkan: vulkan::gather(scene),
        metal: metal::gather(scene),
        opencl: opencl::gather(scene),
        sycl: sycl::gather(scene),
        without_display: without_display(scene),
    }
}

/// Classes 0302 (3D controller), 0380 (other display controller) and 1200 (accelerator).
fn without_display(scene: &SignContext<'_>) -> Vec<String> {
    let has_none = |address: &&String| {
        let file = scene.host.path(&format!("/sys/bus/pci/devices/{address}/class"));
        let class = scene.host.read_text(&file).unwrap_or_default();
        ["0x0302", "0x0380", "0x1200"].iter().any(|wanted| class.trim().starts_with(wanted))
    };
    scene.facts.gpus.iter().filter_map(|gpu| gpu.pci.as_ref()).filter(has_none).cloned().collect()
}

/// The first program of a name on PATH.
fn program(host: &dyn ReadFiles, name: &str) -> Option<HostPath> {
    find_program(host, name).into_iter().next()
}
