//! Vulkan, Metal, OpenCL and SYCL.

use super::Check;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[];
