//! NVIDIA's driver.

use super::Check;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[];
