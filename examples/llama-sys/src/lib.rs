//! A few functions of llama.cpp that need no structs.

#![expect(unsafe_code, reason = "the bindings")]

use std::ffi::{CStr, c_char};

unsafe extern "C" {
    fn llama_backend_init();
    fn llama_print_system_info() -> *const c_char;
    fn llama_supports_gpu_offload() -> bool;
    fn llama_max_devices() -> usize;
}

/// Information from llama.cpp about its build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// The line about instruction sets and backends.
    pub info: String,
    /// True if layers can be offloaded to a GPU.
    pub gpu_offload: bool,
    /// The maximum number of devices in use at once.
    pub max_devices: usize,
    /// The backends that gpubuild built.
    pub backends: Vec<&'static str>,
}

/// Queries llama.cpp.
#[must_use]
pub fn system() -> System {
    // SAFETY: the functions have no parameters; the text is static and NUL-terminated.
    let (info, gpu_offload, max_devices) = unsafe {
        llama_backend_init();
        let info = CStr::from_ptr(llama_print_system_info());
        (info.to_string_lossy().into_owned(), llama_supports_gpu_offload(), llama_max_devices())
    };
    System { info, gpu_offload, max_devices, backends: backends() }
}

fn backends() -> Vec<&'static str> {
    let all = [
        ("cpu", cfg!(gpubuild_backend = "cpu")),
        ("cuda", cfg!(gpubuild_backend = "cuda")),
        ("rocm", cfg!(gpubuild_backend = "rocm")),
        ("metal", cfg!(gpubuild_backend = "metal")),
        ("vulkan", cfg!(gpubuild_backend = "vulkan")),
        ("sycl", cfg!(gpubuild_backend = "sycl")),
        ("opencl", cfg!(gpubuild_backend = "opencl")),
    ];
    all.into_iter().filter(|(_, built)| *built).map(|(name, _)| name).collect()
}
