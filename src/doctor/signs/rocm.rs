//! Signs about ROCm and HIP.

use super::Scene;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signs {}

/// Looks.
pub(super) fn gather(scene: &Scene<'_>) -> Signs {
    let _ = scene;
    Signs {}
}
