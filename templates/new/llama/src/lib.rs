//! Bindings of llama.cpp in [`sys`], and the start of a safe side.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::NonNull;

/// Everything that `llama.h` declares, as bindgen makes it.
#[allow(clippy::all, clippy::pedantic, non_camel_case_types, non_snake_case)]
#[allow(non_upper_case_globals, unsafe_op_in_unsafe_fn, unused)]
pub mod sys {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

/// Something that computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Short, such as `CPU` or `Vulkan0`.
    pub name: String,
    /// What it is.
    pub description: String,
}

/// What llama.cpp says of itself: instruction sets and backends.
pub fn system_info() -> String {
    // SAFETY: the function takes nothing and returns static text.
    unsafe { text(sys::llama_print_system_info()) }
}

/// All devices of the backends that were built.
pub fn devices() -> Vec<Device> {
    // SAFETY: backends register their devices at the first call; indices below the count are devices, and their texts static.
    unsafe {
        (0..sys::ggml_backend_dev_count())
            .map(|index| {
                let device = sys::ggml_backend_dev_get(index);
                let name = text(sys::ggml_backend_dev_name(device));
                let description = text(sys::ggml_backend_dev_description(device));
                Device { name, description }
            })
            .collect()
    }
}

/// A model, on the processor.
pub struct Model(NonNull<sys::llama_model>);

impl Model {
    /// Loads a GGUF file. `None`: it cannot be loaded, and llama.cpp has said why on standard error.
    pub fn load(path: &Path) -> Option<Self> {
        let path = CString::new(path.to_str()?).ok()?;
        // SAFETY: the path ends in a zero byte; the parameters are llama.cpp's own with no layers on other devices.
        let model = unsafe {
            sys::llama_backend_init();
            let mut parameters = sys::llama_model_default_params();
            parameters.n_gpu_layers = 0;
            sys::llama_model_load_from_file(path.as_ptr(), parameters)
        };
        NonNull::new(model).map(Self)
    }

    /// Architecture, size and quantisation in a few words.
    pub fn description(&self) -> String {
        let mut bytes = [0_u8; 256];
        // SAFETY: no more is written than there is room for, with a zero byte at its end.
        unsafe {
            let start = bytes.as_mut_ptr().cast::<c_char>();
            sys::llama_model_desc(self.0.as_ptr(), start, bytes.len());
        }
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        text.to_string_lossy().into_owned()
    }

    /// How many numbers it has.
    pub fn parameters(&self) -> u64 {
        // SAFETY: the model is alive until `self` is dropped.
        unsafe { sys::llama_model_n_params(self.0.as_ptr()) }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more, and it is freed once.
        unsafe { sys::llama_model_free(self.0.as_ptr()) }
    }
}

/// # Safety
/// It is static text that ends in a zero byte.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
