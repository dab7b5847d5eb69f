//! What belongs to no vendor.

use gpubuild_detect::finding::{Draft, Evidence, EvidenceKind};

use super::Check;
use crate::Case;

/// The checks of this family.
pub(super) const CHECKS: &[Check] = &[Check { id: "cpu.compiler-missing", run: no_compiler }];

/// Where a compiler was looked for.
fn no_compiler(case: &Case<'_>) -> Vec<Draft> {
    let told = case
        .matrix
        .verdicts
        .iter()
        .flat_map(|verdict| &verdict.build_reasons)
        .any(|reason| reason.id == "cpu.compiler-missing");
    if !told {
        return Vec::new();
    }
    let path = case.env.get("PATH").unwrap_or_default();
    let named = ["CC", "CXX"].iter().filter_map(|name| Some(Evidence::env(*name, case.env.get(name)?)));
    let places = std::iter::once(Evidence::new(EvidenceKind::Env, "PATH", path)).chain(named);
    vec![places.fold(Draft::new("cpu.compiler-missing"), Draft::evidence)]
}
