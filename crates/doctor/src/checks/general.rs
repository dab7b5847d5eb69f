//! Checks that belong to no vendor.

use gpubuild_detect::finding::{Evidence, EvidenceKind, FindingDraft};
use gpubuild_detect::id;

use super::DoctorCheck;
use crate::DiagnosisCase;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] =
    &[DoctorCheck { id: id!("cpu.compiler-missing"), run: no_compiler }];

/// No host compiler; adds the places that were searched as evidence.
fn no_compiler(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let is_reported = case
        .matrix
        .verdicts
        .iter()
        .flat_map(|verdict| &verdict.build_reasons)
        .any(|reason| reason.id == "cpu.compiler-missing");
    if !is_reported {
        return Vec::new();
    }
    let path = case.env.get("PATH").unwrap_or_default();
    let named = ["CC", "CXX"].iter().filter_map(|name| Some(Evidence::env(*name, case.env.get(name)?)));
    let places = std::iter::once(Evidence::new(EvidenceKind::Env, "PATH", path)).chain(named);
    vec![places.fold(FindingDraft::new(id!("cpu.compiler-missing")), FindingDraft::evidence)]
}
