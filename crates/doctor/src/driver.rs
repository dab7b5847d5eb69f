//! The CUDA release that the installed NVIDIA driver supports.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;

use crate::DiagnosisCase;

/// Newest CUDA release that the driver supports: the answer of the driver probe (`12080` is 12.8), otherwise the table row of
/// the driver's branch.
pub(crate) fn known_to_driver(case: &DiagnosisCase<'_>) -> Option<Version> {
    let reported = || -> Option<Version> {
        let answer: serde_json::Value =
            serde_json::from_str(&case.probes.get(&Backend::Cuda)?.answer).ok()?;
        let number = answer.get("driver_version")?.as_u64()?;
        Some(Version::of_cuda_number(number))
    };
    let driver = case.matrix.verdict(Backend::Cuda).driver.as_ref();
    reported().or_else(|| case.catalogue.get("cuda")?.newest_for_driver(driver?).cloned())
}
