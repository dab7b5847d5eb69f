//! Variables whose value leads nowhere, and what they should name on this machine.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::shell;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::variables::WrongVariable;
use gpubuild_detect::finding::{Evidence, EvidenceKind, FindingDraft, FindingKind};
use gpubuild_host::{HostPath, Os};

use super::cuda_build;
use crate::DiagnosisCase;

/// One draft per finding about variables. Variables that another finding is based on are left to that finding.
pub(crate) fn variables(case: &DiagnosisCase<'_>, drafts: &[FindingDraft]) -> Vec<FindingDraft> {
    let is_own = |draft: &&FindingDraft| !draft.id.starts_with("env.") && draft.id != "cuda.arch.invalid";
    let is_cited = |name: &str| {
        let evidence = drafts.iter().filter(is_own).flat_map(|draft| &draft.evidence);
        evidence.filter(|one| one.kind == EvidenceKind::Env).any(|one| one.place == name)
    };
    let wrong: Vec<&WrongVariable> = case
        .facts
        .variables
        .iter()
        .filter(|wrong| !is_cited(&wrong.name) && !is_harmless(case, wrong))
        .collect();
    let mut ids: Vec<DiagnosticId> = wrong.iter().map(|wrong| wrong.id).collect();
    ids.sort_indirect();
    ids.dedup();
    ids.into_iter()
        .filter_map(|id| {
            let mut group: Vec<&WrongVariable> =
                wrong.iter().copied().filter(|wrong| wrong.id == id).collect();
            // Variables that every build reads, and those that stop it, are the most severe.
            group.sort_indirect_by_key(|wrong| (!wrong.blocks, wrong.backend.is_some()));
            draft(case, id, &group)
        })
        .collect()
}

/// Whether the variable does no harm: CMake accepts a value of CUDACXX that this check cannot follow.
fn is_harmless(case: &DiagnosisCase<'_>, wrong: &WrongVariable) -> bool {
    wrong.name == "CUDACXX" && case.signs.cuda_toolkit.cudacxx_works
}

fn draft(case: &DiagnosisCase<'_>, id: DiagnosticId, group: &[&WrongVariable]) -> Option<FindingDraft> {
    let first = group.first()?;
    let mut draft = FindingDraft::new(id)
        .affects(first.affects)
        .kind(kind(case, first))
        .value("variable", &first.name)
        .value("place", &first.part)
        .value("reader", first.reader);
    let texts: Vec<String> = group.iter().map(|wrong| wrong.text()).collect();
    draft = draft.summary(texts.join("; "));
    for wrong in group {
        draft = draft.evidence(Evidence::env(&wrong.name, &wrong.value));
        // One variable without a backend concerns every backend.
        if let (Some(backend), true) = (wrong.backend, first.backend.is_some()) {
            draft = draft.backend(backend);
        }
    }
    let os = case.facts.platform.os;
    let commands: Vec<String> = group.iter().filter_map(|wrong| repair(case, os, wrong)).collect();
    if let Some(right) = right(case, first) {
        draft = draft.value("right", right.as_str()).case("known");
    }
    Some(draft.steps("repair", commands))
}

/// A toolkit's variable on a machine without the toolkit is part of its absence.
fn kind(case: &DiagnosisCase<'_>, wrong: &WrongVariable) -> FindingKind {
    let toolkit = wrong.right.map(|right| right.split(':').next().unwrap_or(right));
    let is_toolkit = |id: &&str| case.catalogue.get(id).is_some();
    let of_backend = wrong.backend.and_then(|backend| case.catalogue.for_backend(backend));
    let has_no_toolkit = of_backend.is_some_and(|about| case.inventory.of(&about.id).is_empty());
    if wrong.blocks && has_no_toolkit {
        FindingKind::Absence
    } else if wrong.blocks {
        FindingKind::Fault
    } else if toolkit.filter(is_toolkit).is_some_and(|id| case.inventory.of(id).is_empty()) {
        FindingKind::Absence
    } else {
        FindingKind::Caution
    }
}

/// The command that corrects a variable: it is set to what it should name, or removed.
fn repair(case: &DiagnosisCase<'_>, os: Os, wrong: &WrongVariable) -> Option<String> {
    let name = &wrong.name;
    let is_flags = name.ends_with("_FLAGS");
    let right = right(case, wrong).filter(|_| !is_flags);
    let quoted = match &right {
        Some(right) => Some(shell::quote(os, right.as_str())?),
        None => None,
    };
    Some(match (os, quoted) {
        (Os::Windows, Some(right)) => format!("set {name}={right}"),
        (Os::Windows, None) => format!("set {name}="),
        (_, Some(right)) => format!("export {name}={right}"),
        (_, None) => format!("unset {name}"),
    })
}

/// What a variable should name on this machine, if it is there.
fn right(case: &DiagnosisCase<'_>, wrong: &WrongVariable) -> Option<HostPath> {
    let compiler = |part: &str| {
        let copies = ["gcc", "clang", "msvc"].iter().flat_map(|tool| case.inventory.of(tool));
        copies.filter(|copy| copy.is_complete()).find_map(|copy| copy.part(part).cloned())
    };
    match wrong.right? {
        "c" => compiler("program"),
        "cxx" => compiler("cxx"),
        "nvcc-host" => cuda_build::host_compiler(case),
        named => {
            let (toolkit, part) = named.split_once(':').unwrap_or((named, ""));
            let copies = case.inventory.of(toolkit);
            let copy = copies
                .iter()
                .find(|copy| copy.chosen)
                .or_else(|| copies.iter().find(|one| one.is_complete()))?;
            if part.is_empty() { Some(copy.root.clone()) } else { copy.part(part).cloned() }
        }
    }
}
