//! A toolkit that build systems do not find.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;

use super::{chosen, evidence, is_of_environment, is_windows, release, roots, spelling, variables};
use crate::DiagnosisCase;

/// A toolkit is in a known folder, but nvcc is not on PATH and no variable is set.
pub(super) fn not_on_path(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = hidden(case) else { return Vec::new() };
    let is_named =
        case.inventory.dead_ends.iter().any(|dead| dead.toolkit == "cuda") || roots::any_named(case);
    if is_windows(case) || is_named {
        return Vec::new();
    }
    let draft =
        FindingDraft::new(id!("cuda.toolkit.not-on-path")).backend(Backend::Cuda).affects(Affects::Build);
    let draft = with_copy(case, draft, copy).evidence(Evidence::env("PATH", "no nvcc"));
    if copy.is_own() {
        // gpubuild passes its own copy to its builds; it is not meant to be on PATH.
        return vec![draft.kind(FindingKind::Note).case("own")];
    }
    vec![match &case.signs.cuda_toolkit.login_script {
        Some(script) => draft.value("script", script.as_str()).case("login"),
        None => draft,
    }]
}

/// CMake's `find_package(CUDAToolkit)` finds the toolkit, but `enable_language(CUDA)` does not.
pub(super) fn language_vs_package(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = hidden(case) else { return Vec::new() };
    let of_language = ["CUDACXX", "CUDA_PATH"];
    let copies = case.inventory.of("cuda");
    if copy.is_own() || copies.iter().any(|copy| variables(copy).any(|name| of_language.contains(&name))) {
        return Vec::new();
    }
    let draft =
        FindingDraft::new(id!("cuda.language-vs-package")).backend(Backend::Cuda).affects(Affects::Build);
    let by = variables(copy).next().map_or_else(|| "its own search".to_owned(), |name| format!("`{name}`"));
    let mut draft = with_copy(case, draft, copy).value("by", by).evidence(Evidence::env("PATH", "no nvcc"));
    for name in variables(copy) {
        draft = draft.evidence(Evidence::env(name, copy.root.as_str()));
    }
    let compiler = copy.part("compiler").unwrap_or(&copy.root);
    vec![draft.value("compiler", compiler.as_str())]
}

/// The chosen copy, if nvcc is not on PATH and the copy is not part of an environment.
fn hidden<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Installation> {
    let copy = chosen(case).filter(|copy| !is_of_environment(case, copy))?;
    case.signs.cuda_toolkit.nvcc.is_none().then_some(copy)
}

fn with_copy(case: &DiagnosisCase<'_>, draft: FindingDraft, copy: &Installation) -> FindingDraft {
    draft
        .value("root", spelling(case, copy).as_str())
        .value("version", release(copy))
        .evidence(evidence(copy))
}
