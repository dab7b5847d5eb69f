//! Bindings of whisper.cpp in [`sys`], and the start of a safe side.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::NonNull;

/// Everything that `whisper.h` declares, as bindgen makes it.
#[allow(clippy::all, clippy::pedantic, non_camel_case_types, non_snake_case)]
#[allow(non_upper_case_globals, unsafe_op_in_unsafe_fn, unused)]
pub mod sys {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

/// What whisper.cpp says of itself: instruction sets and backends.
pub fn system_info() -> String {
    // SAFETY: the function takes nothing and returns static text.
    unsafe { text(sys::whisper_print_system_info()) }
}

/// The languages that it knows, by their short names.
pub fn languages() -> Vec<String> {
    // SAFETY: ids up to the highest one have a static name.
    unsafe {
        (0..=sys::whisper_lang_max_id())
            .map(|id| text(sys::whisper_lang_str(id)))
            .collect()
    }
}

/// A model, on the processor.
pub struct Model(NonNull<sys::whisper_context>);

impl Model {
    /// Loads a model. `None`: it cannot be loaded, and whisper.cpp has said why on standard error.
    pub fn load(path: &Path) -> Option<Self> {
        let path = CString::new(path.to_str()?).ok()?;
        // SAFETY: the path ends in a zero byte; the parameters are whisper.cpp's own without a GPU.
        let context = unsafe {
            let mut parameters = sys::whisper_context_default_params();
            parameters.use_gpu = false;
            sys::whisper_init_from_file_with_params(path.as_ptr(), parameters)
        };
        NonNull::new(context).map(Self)
    }

    /// How many words it knows.
    pub fn vocabulary(&self) -> i32 {
        // SAFETY: the model is alive until `self` is dropped.
        unsafe { sys::whisper_model_n_vocab(self.0.as_ptr()) }
    }

    /// How many layers listen, and how many write.
    pub fn layers(&self) -> (i32, i32) {
        // SAFETY: the model is alive until `self` is dropped.
        unsafe {
            let listening = sys::whisper_model_n_audio_layer(self.0.as_ptr());
            (listening, sys::whisper_model_n_text_layer(self.0.as_ptr()))
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more, and it is freed once.
        unsafe { sys::whisper_free(self.0.as_ptr()) }
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
