//! Several toolkits, and who takes which.

use super::{chosen, release, spelling, variables};
use crate::backend::Backend;
use crate::doctor::Case;
use crate::finding::{Affects, Draft, Evidence};
use crate::toolkit::Installation;

/// A way by which build systems come to a copy.
struct Choice<'a> {
    by: String,
    evidence: Evidence,
    copy: &'a Installation,
}

/// What variables, PATH and the link lead to.
fn choices<'a>(case: &Case<'a>) -> Vec<Choice<'a>> {
    let copies = case.inventory.of("cuda");
    let signs = &case.signs.cuda_toolkit;
    let at = |root: &crate::host::HostPath| copies.iter().find(|copy| copy.root.key() == root.key());
    let mut choices = Vec::new();
    for copy in copies {
        for name in variables(copy) {
            let value = case.env.get(name).unwrap_or_default();
            choices.push(Choice { by: format!("`{name}`"), evidence: Evidence::env(name, value), copy });
        }
    }
    if let Some((nvcc, copy)) = signs.nvcc.as_ref().and_then(|nvcc| Some((nvcc, at(&nvcc.root)?))) {
        let evidence = Evidence::env("PATH", nvcc.program.as_str());
        choices.push(Choice { by: "PATH".to_owned(), evidence, copy });
    }
    let link = signs.link.as_ref().and_then(|link| Some((link, at(link.root.as_ref()?)?)));
    if let Some((link, copy)) = link {
        let evidence = Evidence::file(link.place.as_str(), format!("link to {}", copy.root));
        choices.push(Choice { by: format!("`{}`", link.place), evidence, copy });
    }
    choices
}

/// Whether two copies differ in what they build.
fn differ(left: &Installation, right: &Installation) -> bool {
    left.root.key() != right.root.key()
        && match (left.version(), right.version()) {
            (Some(left), Some(right)) => left.release() != right.release(),
            _ => true,
        }
}

/// Variables, PATH and the link lead to different releases.
pub(super) fn multiple(case: &Case<'_>) -> Vec<Draft> {
    let choices = choices(case);
    if is_shadowed(case, &choices) {
        return Vec::new();
    }
    told(case, "cuda.toolkit.multiple", &choices)
}

/// The same, one of them in the conda environment that is active.
pub(super) fn conda_shadow(case: &Case<'_>) -> Vec<Draft> {
    let choices = choices(case);
    if !is_shadowed(case, &choices) {
        return Vec::new();
    }
    told(case, "cuda.toolkit.conda-shadow", &choices)
}

/// Whether one choice is inside of the environment and another outside.
fn is_shadowed(case: &Case<'_>, choices: &[Choice<'_>]) -> bool {
    let Some(conda) = &case.signs.cuda_toolkit.conda else { return false };
    let inside = |choice: &&Choice<'_>| choice.copy.root.is_inside(&conda.real);
    choices.iter().any(|choice| inside(&choice)) && choices.iter().any(|choice| !inside(&choice))
}

fn told(case: &Case<'_>, id: &str, choices: &[Choice<'_>]) -> Vec<Draft> {
    let Some(first) = choices.first() else { return Vec::new() };
    if !choices.iter().any(|choice| differ(choice.copy, first.copy)) {
        return Vec::new();
    }
    let Some(chosen) = chosen(case) else { return Vec::new() };
    let mut draft = Draft::new(id)
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("root", spelling(case, chosen).as_str())
        .value("version", release(chosen))
        .value("compiler", chosen.part("compiler").unwrap_or(&chosen.root).as_str())
        .value("reason", chosen.reason.clone());
    let mut parts: Vec<String> = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for choice in choices {
        let root = choice.copy.root.as_str();
        draft = draft.evidence(choice.evidence.clone());
        if told.contains(&root) {
            continue;
        }
        told.push(root);
        let by: Vec<&str> =
            choices.iter().filter(|one| one.copy.root.as_str() == root).map(|one| one.by.as_str()).collect();
        let leads = if by.len() == 1 { "leads" } else { "lead" };
        parts.push(format!("{} {leads} to CUDA {}", by.join(" and "), release(choice.copy)));
    }
    vec![draft.value("choices", parts.join(", "))]
}
