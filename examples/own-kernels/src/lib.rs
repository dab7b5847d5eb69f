//! Safe wrappers of custom kernels.

#![expect(unsafe_code, reason = "the bindings")]

unsafe extern "C" {
    fn own_sum(values: *const f32, count: usize) -> f32;
    fn own_scale(values: *mut f32, count: usize, factor: f32);
    #[cfg(gpubuild_backend = "cuda")]
    fn own_scale_cuda(values: *mut f32, count: usize, factor: f32) -> std::ffi::c_int;
}

/// The sum of all values.
#[must_use]
pub fn sum(values: &[f32]) -> f32 {
    // SAFETY: the function reads `len` values.
    unsafe { own_sum(values.as_ptr(), values.len()) }
}

/// Multiplies each value, on the CPU.
pub fn scale(values: &mut [f32], factor: f32) {
    // SAFETY: the function reads and writes `len` values.
    unsafe { own_scale(values.as_mut_ptr(), values.len(), factor) }
}

/// Multiplies each value, on a GPU.
///
/// # Errors
/// The kernel was skipped in this build, or CUDA failed.
#[cfg_attr(not(gpubuild_backend = "cuda"), expect(unused_variables, reason = "built without the kernel"))]
pub fn scale_on_gpu(values: &mut [f32], factor: f32) -> Result<(), String> {
    #[cfg(gpubuild_backend = "cuda")]
    {
        // SAFETY: the function reads and writes `len` values.
        match unsafe { own_scale_cuda(values.as_mut_ptr(), values.len(), factor) } {
            0 => Ok(()),
            code => Err(format!("CUDA error {code}")),
        }
    }
    #[cfg(not(gpubuild_backend = "cuda"))]
    Err(format!("skipped: {}", env!("OWN_KERNELS_WITHOUT_CUDA")))
}
