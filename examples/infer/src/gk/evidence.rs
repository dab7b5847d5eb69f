//! How the kernels of each backend were tested by the authors.

use serde::Serialize;

/// The kind of test that the kernels passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The op suite passed on such hardware.
    Hardware,
    /// The op suite passed on a CPU implementation of the interface: llvmpipe, `PoCL`, Intel's `OpenCL`
    /// runtime.
    CpuImplementation,
    /// Compiled for the device, which was not available; the op suite passed on an emulation.
    CompiledOnly,
    /// Not even compiled for the device; the op suite passed on an emulation.
    SourceOnly,
}

impl Evidence {
    /// For the kernels that a backend runs on a device of this architecture. `None` for backends without
    /// kernels.
    #[must_use]
    pub fn of(backend: &str, arch: &str) -> Option<Self> {
        match (backend, arch) {
            ("cpu", "neon") | ("rocm", _) => Some(Self::CompiledOnly),
            ("cpu" | "ref" | "cuda", _) => Some(Self::Hardware),
            ("vulkan" | "opencl" | "sycl", _) => Some(Self::CpuImplementation),
            ("metal", _) => Some(Self::SourceOnly),
            _ => None,
        }
    }

    /// Human-readable text.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Hardware => "run on hardware",
            Self::CpuImplementation => "run on a CPU implementation",
            Self::CompiledOnly => "compiled only",
            Self::SourceOnly => "source only",
        }
    }
}
