//! Signs of Vulkan, Metal, OpenCL and SYCL.

pub mod metal;
pub mod opencl;
pub mod sycl;
pub mod vulkan;

use gpubuild_host::{HostPath, ReadFiles, find_program};

use super::SignContext;

/// Observations about graphics and compute APIs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphicsSigns {
    /// Vulkan.
    pub vulkan: vulkan::Vulkan,
    /// Metal.
    pub metal: metal::Metal,
    /// OpenCL.
    pub opencl: opencl::Opencl,
    /// SYCL.
    pub sycl: sycl::Sycl,
    /// PCI addresses of GPUs without display outputs, which are for computing.
    pub without_display: Vec<String>,
}

pub(super) fn gather(context: &SignContext<'_>) -> GraphicsSigns {
    GraphicsSigns {
        vulkan: vulkan::gather(context),
        metal: metal::gather(context),
        opencl: opencl::gather(context),
        sycl: sycl::gather(context),
        without_display: without_display(context),
    }
}

/// GPUs of the PCI classes 0302 (3D controller), 0380 (other display controller) and 1200 (accelerator).
fn without_display(context: &SignContext<'_>) -> Vec<String> {
    let is_headless = |address: &&String| {
        let file = context.host.path(&format!("/sys/bus/pci/devices/{address}/class"));
        let class = context.host.read_text(&file).unwrap_or_default();
        ["0x0302", "0x0380", "0x1200"].iter().any(|wanted| class.trim().starts_with(wanted))
    };
    context.facts.gpus.iter().filter_map(|gpu| gpu.pci.as_ref()).filter(is_headless).cloned().collect()
}

/// The first program of this name on PATH.
fn program(host: &dyn ReadFiles, name: &str) -> Option<HostPath> {
    find_program(host, name).into_iter().next()
}
