//! Several toolkits, and which build system uses which.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;

use super::{chosen, release, variables};
use crate::DiagnosisCase;
use crate::resolvers::AgreementLine;
use crate::resolvers::agree::ResolverChange;
use crate::resolvers::line_text;

/// A copy, with what leads build systems to it.
struct ChosenCopy<'a> {
    by: String,
    evidence: Evidence,
    copy: &'a Installation,
}

/// The copies that variables, PATH and the link lead to.
fn choices<'a>(case: &DiagnosisCase<'a>) -> Vec<ChosenCopy<'a>> {
    let copies = case.inventory.of("cuda");
    let signs = &case.signs.cuda_toolkit;
    // An incomplete toolkit, such as the folder of a wrapper around nvcc, is not a choice.
    let complete = || copies.iter().filter(|copy| copy.is_complete());
    let at = |root: &gpubuild_host::HostPath| complete().find(|copy| copy.root.key() == root.key());
    let mut choices: Vec<ChosenCopy<'_>> = Vec::new();
    for copy in complete() {
        for name in variables(copy) {
            let value = case.env.get(name).unwrap_or_default();
            choices.push(ChosenCopy { by: format!("`{name}`"), evidence: Evidence::env(name, value), copy });
        }
    }
    if let Some((nvcc, copy)) = signs.nvcc.as_ref().and_then(|nvcc| Some((nvcc, at(&nvcc.root)?))) {
        let evidence = Evidence::env("PATH", nvcc.program.as_str());
        choices.push(ChosenCopy { by: "PATH".to_owned(), evidence, copy });
    }
    let link = signs.link.as_ref().and_then(|link| Some((link, at(link.root.as_ref()?)?)));
    // If PATH and a variable agree, as `module load` sets them, the link does not matter.
    let is_decided = choices.len() > 1 && choices.iter().all(|choice| !differ(choice.copy, choices[0].copy));
    if let Some((link, copy)) = link.filter(|_| !is_decided) {
        let evidence = Evidence::file(link.place.as_str(), format!("link to {}", copy.root));
        choices.push(ChosenCopy { by: format!("`{}`", link.place), evidence, copy });
    }
    choices
}

/// Whether two copies have different releases.
fn differ(left: &Installation, right: &Installation) -> bool {
    left.root.key() != right.root.key()
        && match (left.version(), right.version()) {
            (Some(left), Some(right)) => left.release() != right.release(),
            _ => true,
        }
}

/// Variables, PATH and the link lead to different releases.
pub(super) fn multiple(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let choices = choices(case);
    if is_shadowed(case, &choices) {
        return Vec::new();
    }
    disagreement(case, id!("cuda.toolkit.multiple"), &choices)
}

/// As [`multiple`], with one of the copies in the active conda environment.
pub(super) fn conda_shadow(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let choices = choices(case);
    if !is_shadowed(case, &choices) {
        return Vec::new();
    }
    let drafts = disagreement(case, id!("cuda.toolkit.conda-shadow"), &choices);
    // Build systems that use PATH or the link need the compiler to be named.
    let nvcc = chosen(case).and_then(|copy| copy.part("compiler"));
    let line = nvcc.and_then(|nvcc| {
        let changes = vec![ResolverChange::Set { name: "CUDACXX".to_owned(), value: nvcc.to_string() }];
        line_text(&AgreementLine { source: None, changes }, case.facts.platform.os)
    });
    let other = environment_instead(case, &choices);
    let with_compiler = |mut draft: FindingDraft| {
        draft.steps.entry("agree".to_owned()).or_default().extend(line.clone());
        match &other {
            Some(other) => draft.case("environment-instead").value("instead", other),
            None => draft,
        }
    };
    drafts.into_iter().map(with_compiler).collect()
}

/// How to take the environment's copy, if the lines take the other one: the environment was activated for a reason.
fn environment_instead(case: &DiagnosisCase<'_>, choices: &[ChosenCopy<'_>]) -> Option<String> {
    let conda = case.signs.cuda_toolkit.conda.as_ref()?;
    let own = choices.iter().find(|choice| choice.copy.root.is_inside(&conda.real))?;
    if super::recommended(case).is_some_and(|copy| copy.root.key() == own.copy.root.key()) {
        return None;
    }
    // CMake and PyTorch search the headers in `include` of the root, and these are below `targets`.
    let headers = conda.target.as_ref().map(|target| format!(", with its headers in `{target}/include`"));
    Some(format!("CUDA {} of `{}`{}", release(own.copy), conda.prefix, headers.unwrap_or_default()))
}

/// Whether one choice is inside the conda environment and another one outside.
fn is_shadowed(case: &DiagnosisCase<'_>, choices: &[ChosenCopy<'_>]) -> bool {
    let Some(conda) = &case.signs.cuda_toolkit.conda else { return false };
    let inside = |choice: &&ChosenCopy<'_>| choice.copy.root.is_inside(&conda.real);
    choices.iter().any(|choice| inside(&choice)) && choices.iter().any(|choice| !inside(&choice))
}

fn disagreement(case: &DiagnosisCase<'_>, id: DiagnosticId, choices: &[ChosenCopy<'_>]) -> Vec<FindingDraft> {
    let Some(first) = choices.first() else { return Vec::new() };
    if !choices.iter().any(|choice| differ(choice.copy, first.copy)) {
        return Vec::new();
    }
    let (Some(own), Some(chosen)) = (chosen(case), super::recommended(case)) else { return Vec::new() };
    // Converge on the copy that fits this machine, even if builds use another one now.
    let reason = if own.root.key() == chosen.root.key() {
        chosen.reason.clone()
    } else {
        format!(
            "CUDA {} fits the card, the driver and the compiler, and {} does not",
            release(chosen),
            release(own)
        )
    };
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", release(chosen))
        .value("reason", reason);
    let mut parts: Vec<String> = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    for choice in choices {
        let root = choice.copy.root.as_str();
        draft = draft.evidence(choice.evidence.clone());
        if listed.contains(&root) {
            continue;
        }
        listed.push(root);
        let by: Vec<&str> =
            choices.iter().filter(|one| one.copy.root.as_str() == root).map(|one| one.by.as_str()).collect();
        let leads = if by.len() == 1 { "leads" } else { "lead" };
        parts.push(format!("{} {leads} to CUDA {}", by.join(" and "), release(choice.copy)));
    }
    for (root, names) in case.signs.resolutions.copies("cuda") {
        draft = draft.evidence(Evidence::file(root.as_str(), format!("used by {}", names.join(", "))));
    }
    vec![draft.value("choices", parts.join(", ")).steps("agree", agreeing(case, chosen))]
}

/// The lines that make all build systems use a copy: the verified ones of the agreement, otherwise the usual variables.
pub(super) fn agreeing(case: &DiagnosisCase<'_>, copy: &Installation) -> Vec<String> {
    let os = case.facts.platform.os;
    let agreement = case.signs.resolutions.agreements.get("cuda");
    let tried = agreement.filter(|agreement| agreement.chosen.key() == copy.root.key());
    let lines: Vec<String> =
        tried.iter().flat_map(|agreement| &agreement.lines).filter_map(|line| line_text(line, os)).collect();
    if !lines.is_empty() {
        return lines;
    }
    let set = |name: &str| AgreementLine {
        source: None,
        changes: vec![ResolverChange::Set { name: name.to_owned(), value: copy.root.to_string() }],
    };
    let path = AgreementLine {
        source: None,
        changes: vec![ResolverChange::Prepend {
            name: "PATH".to_owned(),
            value: copy.root.join("bin").to_string(),
        }],
    };
    let names = ["CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"];
    names.iter().map(|name| set(name)).chain([path]).filter_map(|line| line_text(&line, os)).collect()
}
