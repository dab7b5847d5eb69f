//! Safe wrappers of the kernels. `native/include/kernels.h` documents their interface.

unsafe extern "C" {
    #[link_name = "@ident@_dot_cpu"]
    fn dot_cpu(count: usize, x: *const f32, y: *const f32) -> f64;
}

/// The dot product of `x` and `y`, in double precision.
///
/// # Panics
/// `x` and `y` have different lengths.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    assert_eq!(x.len(), y.len(), "x and y have the same length");
    // SAFETY: the kernel reads `x.len()` values of both, which have the same length.
    unsafe { dot_cpu(x.len(), x.as_ptr(), y.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_summed() {
        assert_eq!(dot(&[], &[]), 0.0);
        assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, -5.0, 0.5]), -4.5);
    }
}
