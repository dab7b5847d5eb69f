//! Variables that do not name a toolkit.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;
use gpubuild_host::HostPath;

use super::{is_windows, spelling, variables};
use crate::DiagnosisCase;

/// A variable names a missing folder, a folder without a toolkit, or a folder inside a toolkit.
pub(super) fn invalid(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let mut found: Vec<Wrong<'_>> = Vec::new();
    for dead in case.inventory.dead_ends.iter().filter(|dead| dead.toolkit == "cuda") {
        let variable = dead.found_via.trim_start_matches("env:");
        let windows_own = is_windows(case) && variable == "CUDA_PATH" && dead.why.contains("not exist");
        let works = variable == "CUDACXX" && case.signs.cuda_toolkit.cudacxx_works;
        if !windows_own && !works && !is_debians(case, &dead.place) {
            found.push(Wrong { variable, place: &dead.place, why: dead.why.clone() });
        }
    }
    for inside in &case.signs.cuda_toolkit.inside {
        let why = format!("the toolkit's root is `{}`", inside.root);
        found.push(Wrong { variable: &inside.variable, place: &inside.place, why });
    }
    found.extend(incomplete(case));
    let Some(first) = found.first() else { return Vec::new() };
    let mut draft = FindingDraft::new(id!("cuda.toolkit.root-invalid"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("variable", first.variable)
        .value("place", first.place.as_str())
        .value("why", first.why.clone())
        .summary(format!("`{}` names `{}`, and {}", first.variable, first.place, first.why));
    for wrong in &found {
        draft = draft.evidence(Evidence::env(wrong.variable, wrong.place.as_str()));
    }
    let Some(copy) = best(case) else {
        return vec![super::missing::with_toolkit(
            case,
            draft.case("none"),
            &crate::advice::AdviceQuery::default(),
        )];
    };
    let right = if first.variable == "CUDACXX" { copy.part("compiler") } else { Some(spelling(case, copy)) };
    let right = right.unwrap_or(&copy.root);
    vec![draft.value("root", right.as_str()).evidence(super::evidence(copy))]
}

struct Wrong<'a> {
    variable: &'a str,
    place: &'a HostPath,
    why: String,
}

/// Variables that name an incomplete toolkit although a complete one exists.
fn incomplete<'a>(case: &DiagnosisCase<'a>) -> Vec<Wrong<'a>> {
    let copies = case.inventory.of("cuda");
    let complete: Vec<&Installation> = copies.iter().filter(|copy| copy.is_complete()).collect();
    // A folder inside a toolkit, such as that of a target, belongs to it.
    let inside = |copy: &Installation| complete.iter().any(|other| copy.root.is_inside(&other.root));
    let is_incomplete = |copy: &&Installation| {
        !copy.is_complete()
            && !complete.is_empty()
            && !inside(copy)
            && !super::is_of_environment(case, copy)
            && !is_debians(case, &copy.root)
    };
    let wrong = |copy: &'a Installation| {
        let missing: Vec<String> = copy.missing_parts().iter().map(|id| id.replace('-', " ")).collect();
        let why = format!("it has no {}", missing.join(" and no "));
        variables(copy).map(move |variable| Wrong { variable, place: &copy.root, why: why.clone() })
    };
    copies.iter().filter(is_incomplete).flat_map(wrong).collect()
}

/// The copy that the variable should name.
fn best<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Installation> {
    let copies = case.inventory.of("cuda");
    let inside = case.signs.cuda_toolkit.inside.first();
    let above = inside.and_then(|inside| copies.iter().find(|copy| copy.root.key() == inside.root.key()));
    above.or_else(|| super::recommended(case)).or_else(|| copies.iter().find(|copy| copy.is_complete()))
}

/// Whether a path is one of Debian's folders that look like a toolkit; other checks report these.
pub(super) fn is_debians(case: &DiagnosisCase<'_>, place: &HostPath) -> bool {
    case.signs.cuda_toolkit.debian.is_some()
        && ["/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"].iter().any(|own| place.as_str().starts_with(own))
}

/// Whether any variable names an existing toolkit.
pub(super) fn any_named(case: &DiagnosisCase<'_>) -> bool {
    case.inventory.of("cuda").iter().any(|copy| variables(copy).next().is_some())
}
