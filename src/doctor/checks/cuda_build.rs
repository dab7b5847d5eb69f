//! Compiling for CUDA: host compilers and architectures.

use super::Check;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[];
