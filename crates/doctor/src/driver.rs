//! What an installed NVIDIA driver supports.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;

use crate::DiagnosisCase;

/// The newest release that the driver knows: what it said when it was asked (`12080` is 12.8), else what the table says of its
/// branch.
pub(crate) fn known_to_driver(case: &DiagnosisCase<'_>) -> Option<Version> {
    let said = || -> Option<Version> {
        let answer: serde_json::Value =
            serde_json::from_str(&case.probes.get(&Backend::Cuda)?.answer).ok()?;
        let number = answer.get("driver_version")?.as_u64()?;
        format!("{}.{}", number / 1000, number % 1000 / 10).parse().ok()
    };
    let driver = case.matrix.verdict(Backend::Cuda).driver.as_ref();
    said().or_else(|| case.catalogue.get("cuda")?.newest_for_driver(driver?).cloned())
}
