//! Vulkan and OpenCL: loaders, drivers, headers.

use super::Machine;

impl Machine {
    /// Adds the Vulkan loader.
    pub fn vulkan_loader(self) -> Self {
        let lib = self.lib.clone();
        self.opaque(&format!("{lib}/libvulkan.so.1.3.275"))
            .link(&format!("{lib}/libvulkan.so.1"), "libvulkan.so.1.3.275")
    }

    /// Adds everything that a Vulkan build needs from a distribution.
    pub fn vulkan_development(self) -> Self {
        self.vulkan_loader().vulkan_headers("/usr/include", 275).program("/usr/bin/glslc")
    }

    /// Adds headers of version 1.3.`patch` and the development link of the loader.
    pub fn vulkan_headers(self, include: &str, patch: u32) -> Self {
        let lib = self.lib.clone();
        let core = format!(
            "#define VK_HEADER_VERSION {patch}\n#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, 3, VK_HEADER_VERSION)\n"
        );
        self.file(&format!("{include}/vulkan/vulkan.h"), "#include \"vulkan_core.h\"\n")
            .file(&format!("{include}/vulkan/vulkan_core.h"), &core)
            .link(&format!("{lib}/libvulkan.so"), "libvulkan.so.1")
    }

    /// Adds Mesa's driver `radeon`, `intel`, `nouveau` or `lvp`.
    pub fn mesa(self, driver: &str) -> Self {
        let library = format!("{}/libvulkan_{driver}.so", self.lib);
        let manifest = format!(
            "{{\"ICD\": {{\"api_version\": \"1.3.274\", \"library_path\": \"{library}\"}}, \"file_format_version\": \"1.0.0\"}}\n"
        );
        self.opaque(&library).file(&format!("/usr/share/vulkan/icd.d/{driver}_icd.x86_64.json"), &manifest)
    }

    /// Adds the OpenCL loader.
    pub fn opencl_loader(self) -> Self {
        let lib = self.lib.clone();
        self.opaque(&format!("{lib}/libOpenCL.so.1"))
    }

    /// Adds the headers and the development link of the loader.
    pub fn opencl_development(self) -> Self {
        let lib = self.lib.clone();
        self.opencl_loader()
            .link(&format!("{lib}/libOpenCL.so"), "libOpenCL.so.1")
            .file("/usr/include/CL/cl.h", "#define CL_VERSION_3_0 1\n")
    }
}
