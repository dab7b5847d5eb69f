//! Safe wrappers of the kernels. `kernels/include/kernels.h` documents their interface.

use std::ffi::{CStr, c_char};

type Axpy = unsafe extern "C" fn(count: usize, a: f32, x: *const f32, y: *mut f32) -> *const c_char;

unsafe extern "C" {
    #[link_name = "@ident@_axpy_cpu"]
    fn axpy_cpu(count: usize, a: f32, x: *const f32, y: *mut f32) -> *const c_char;
    #[cfg(gpubuild_backend = "cuda")]
    #[link_name = "@ident@_axpy_cuda"]
    fn axpy_cuda(count: usize, a: f32, x: *const f32, y: *mut f32) -> *const c_char;
    #[cfg(gpubuild_backend = "vulkan")]
    #[link_name = "@ident@_axpy_vulkan"]
    fn axpy_vulkan(count: usize, a: f32, x: *const f32, y: *mut f32) -> *const c_char;
}

/// A backend that the kernels were compiled for.
pub struct Backend {
    /// Its id in gpubuild.toml.
    pub name: &'static str,
    axpy: Axpy,
}

/// Every backend in this program.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "cpu",
        axpy: axpy_cpu,
    },
    #[cfg(gpubuild_backend = "cuda")]
    Backend {
        name: "cuda",
        axpy: axpy_cuda,
    },
    #[cfg(gpubuild_backend = "vulkan")]
    Backend {
        name: "vulkan",
        axpy: axpy_vulkan,
    },
];

impl Backend {
    /// `y[i] += a * x[i]`.
    ///
    /// # Errors
    /// This backend has no device or driver, or it failed; `y` is then unchanged.
    ///
    /// # Panics
    /// `x` and `y` have different lengths.
    pub fn axpy(&self, a: f32, x: &[f32], y: &mut [f32]) -> Result<(), String> {
        assert_eq!(x.len(), y.len(), "x and y have the same length");
        // SAFETY: the kernel reads `x` and reads and writes `y`, which both have `x.len()` values.
        let why = unsafe { (self.axpy)(x.len(), a, x.as_ptr(), y.as_mut_ptr()) };
        if why.is_null() {
            return Ok(());
        }
        // SAFETY: the text is static and NUL-terminated.
        Err(unsafe { CStr::from_ptr(why) }
            .to_string_lossy()
            .into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_agrees_with_the_reference() {
        for count in [0, 1, 255, 256, 257, 100_000] {
            let x: Vec<f32> = (0..count).map(|i| (i % 101) as f32 - 50.0).collect();
            let start: Vec<f32> = (0..count).map(|i| (i % 7) as f32).collect();
            for backend in BACKENDS {
                let mut y = start.clone();
                if let Err(why) = backend.axpy(0.25, &x, &mut y) {
                    assert_ne!(backend.name, "cpu", "{why}");
                    assert_eq!(y, start, "{}", backend.name);
                    println!("skipped: {} is unavailable: {why}", backend.name);
                    continue;
                }
                for i in 0..count {
                    let wanted = 0.25 * f64::from(x[i]) + f64::from(start[i]);
                    let off = (f64::from(y[i]) - wanted).abs();
                    assert!(
                        off < 1e-4,
                        "{} at {i}: {} is not {wanted}",
                        backend.name,
                        y[i]
                    );
                }
            }
        }
    }
}
