//! Which CUDA Toolkit is found, and by whom.

use super::Check;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[];
