//! Intel: GPUs, Level Zero, oneAPI.

use super::Machine;
use super::linux::RENDER;

/// PCI device ids.
pub const ARC_A770: &str = "0x56a0";
pub const ARC_B580: &str = "0xe20b";
pub const IRIS_XE: &str = "0x9a49";
pub const UHD_630: &str = "0x3e92";

impl Machine {
    /// Adds a GPU on the PCI bus and its render node.
    pub fn intel(self, device: &str, address: &str, driver: &str) -> Self {
        self.pci(address, "0x030000", "0x8086", device, Some(driver)).device_of(
            "/dev/dri/renderD128",
            RENDER,
            "",
        )
    }

    /// Adds the Level Zero loader.
    pub fn level_zero_loader(self) -> Self {
        let lib = self.lib.clone();
        self.opaque(&format!("{lib}/libze_loader.so.1"))
    }

    /// Adds the Level Zero driver for Intel GPUs and the OpenCL driver of the same package.
    pub fn level_zero_driver(self) -> Self {
        let lib = self.lib.clone();
        self.opaque(&format!("{lib}/libze_intel_gpu.so.1"))
            .opaque(&format!("{lib}/intel-opencl/libigdrcl.so"))
            .file("/etc/OpenCL/vendors/intel.icd", &format!("{lib}/intel-opencl/libigdrcl.so\n"))
    }

    /// Adds the oneAPI compiler in `/opt/intel/oneapi`, without the variables of `setvars.sh`.
    pub fn oneapi(self, version: &str) -> Self {
        let root = format!("/opt/intel/oneapi/compiler/{version}");
        self.file("/opt/intel/oneapi/setvars.sh", "# sets the environment\n")
            .program(&format!("{root}/bin/icpx"))
            .program(&format!("{root}/bin/icx"))
            .program(&format!("{root}/bin/sycl-ls"))
            .opaque(&format!("{root}/lib/libsycl.so.8"))
            .opaque(&format!("{root}/lib/libsycl.so"))
            .file(&format!("{root}/include/sycl/sycl.hpp"), "#pragma once\n")
            .opaque(&format!("{root}/lib/cmake/IntelSYCL/IntelSYCLConfig.cmake"))
            .link("/opt/intel/oneapi/compiler/latest", version)
    }

    /// Adds the variables that `setvars.sh` sets.
    pub fn oneapi_sourced(self, version: &str) -> Self {
        self.env("ONEAPI_ROOT", "/opt/intel/oneapi")
            .env("CMPLR_ROOT", &format!("/opt/intel/oneapi/compiler/{version}"))
            .env("LD_LIBRARY_PATH", &format!("/opt/intel/oneapi/compiler/{version}/lib"))
            .path_first(&format!("/opt/intel/oneapi/compiler/{version}/bin"))
    }
}
