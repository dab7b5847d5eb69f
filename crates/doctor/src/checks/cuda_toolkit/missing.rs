//! No toolkit, an incomplete one, or only a driver and a runtime.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_detect::toolkit::Installation;
use gpubuild_host::{HostPath, Os};
use gpubuild_plan::offer::{OfferMachine, ReleaseQuery, which};
use gpubuild_plan::plan::provision::ReleaseChoice;
use gpubuild_plan::wheels::lock;

use super::several::agreeing;
use super::{chosen, fits, has_driver_library, release};
use crate::DiagnosisCase;
use crate::advice::{self, AdviceQuery};

/// Adds the commands that install a suitable toolkit with the system's packages or else without root, if one is known, or those
/// that select an installed one that suits.
pub(crate) fn with_toolkit(
    case: &DiagnosisCase<'_>,
    mut draft: FindingDraft,
    query: &AdviceQuery,
) -> FindingDraft {
    // A host compiler that can be installed keeps the chosen toolkit.
    let keeps_toolkit = draft.steps.contains_key("install_gcc");
    if let Some(copy) = installed(case, query).filter(|_| !keeps_toolkit) {
        draft.exact_fix = Some(format!(
            "build with CUDA {} in `{}`, which is installed and fits the card, the driver and the compiler",
            release(copy),
            copy.root
        ));
        return draft.value("toolkit", release(copy)).steps("install_toolkit", agreeing(case, copy));
    }
    if let Some(offer) = advice::toolkit(case, query) {
        return draft.value("toolkit", offer.release).steps("install_toolkit", offer.commands);
    }
    let suits = |one: &ReleaseChoice| {
        case.catalogue.get("cuda").is_some_and(|cuda| advice::suits(case, cuda, &one.version, query))
    };
    let Some(own) = own_release(case).filter(suits) else { return draft };
    let command = format!("gpubuild toolkit install cuda@{}", own.release);
    draft.value("toolkit", own.release).steps("install_toolkit", vec![command])
}

/// The newest installed toolkit besides the chosen one that fits the machine and the query.
fn installed<'a>(case: &DiagnosisCase<'a>, query: &AdviceQuery) -> Option<&'a Installation> {
    let description = case.catalogue.get("cuda")?;
    let own = chosen(case)?;
    let others = case
        .inventory
        .of("cuda")
        .iter()
        .filter(|copy| copy.is_complete() && copy.root.key() != own.root.key());
    let suits = |copy: &&Installation| {
        copy.version().is_some_and(|version| advice::suits(case, description, version, query))
            && fits(case, copy)
    };
    others.filter(suits).max_by(|left, right| left.version().cmp(&right.version()))
}

/// The release that gpubuild installs without root on this machine.
fn own_release(case: &DiagnosisCase<'_>) -> Option<ReleaseChoice> {
    let verdict = case.matrix.verdict(Backend::Cuda);
    let machine = OfferMachine {
        facts: case.facts,
        inventory: case.inventory,
        catalogue: case.catalogue,
        driver: verdict.driver.as_ref(),
        devices: &verdict.devices,
    };
    which(&machine, case.catalogue.get("cuda")?, &ReleaseQuery::default(), lock::embedded()).ok()
}

/// Adds the command with which gpubuild installs a toolkit without root.
fn without_root(case: &DiagnosisCase<'_>, draft: FindingDraft) -> FindingDraft {
    let hint = own_release(case).map(|_| "; without root: `gpubuild toolkit install cuda`");
    draft.value("without_root", hint.unwrap_or_default())
}

/// Adds the commands that install a toolkit for this machine. That of a Jetson is part of its system.
fn with_suitable(case: &DiagnosisCase<'_>, draft: FindingDraft) -> FindingDraft {
    if case.signs.nvidia.system.tegra.is_some() {
        return draft.case("jetson");
    }
    without_root(case, with_toolkit(case, draft, &AdviceQuery::default()))
}

/// Whether a reason with this id blocks the CUDA build.
pub(crate) fn is_blocked_by(case: &DiagnosisCase<'_>, id: DiagnosticId) -> bool {
    case.matrix.verdict(Backend::Cuda).build_reasons.iter().any(|reason| reason.id == id)
}

/// No toolkit is installed.
pub(super) fn toolkit(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("cuda.toolkit.missing");
    if !is_blocked_by(case, id) {
        return Vec::new();
    }
    let draft = FindingDraft::new(id).backend(Backend::Cuda).affects(Affects::Build);
    let draft = draft.evidence(Evidence::env("PATH", "no nvcc"));
    vec![on_musl(case, with_suitable(case, draft))]
}

/// Selects the text for musl, which NVIDIA does not support.
fn on_musl(case: &DiagnosisCase<'_>, draft: FindingDraft) -> FindingDraft {
    let is_musl = case.facts.libc.as_ref().is_some_and(|libc| libc.value.family == "musl");
    if is_musl { draft.case("musl") } else { draft }
}

/// The compiler is installed without its headers, or without a part of the package that has them.
pub(super) fn headers(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("cuda.toolkit.headers-missing");
    let draft = FindingDraft::new(id).backend(Backend::Cuda).affects(Affects::Build);
    if !is_blocked_by(case, id) {
        let Some((copy, name, absent)) = incomplete(case) else { return Vec::new() };
        let draft = draft.case(name).value("root", copy.root.to_string()).value("toolkit", release(copy));
        let draft = draft.value("package", release(copy).replace('.', "-"));
        return vec![draft.evidence(Evidence::file(absent.as_str(), "absent"))];
    }
    let Some(copy) = case.inventory.of("cuda").first() else { return vec![draft] };
    let draft = match copy.part("compiler") {
        Some(compiler) => draft.evidence(Evidence::file(compiler.as_str(), "present")),
        None => draft,
    };
    if case.signs.cuda_toolkit.debian.is_some() {
        return vec![draft.case("debian")];
    }
    // Suggest the missing parts of the installed release.
    let query = match copy.version() {
        Some(version) => AdviceQuery {
            at_least: release_of(version),
            below: release_after(version),
            ..AdviceQuery::default()
        },
        None => AdviceQuery::default(),
    };
    vec![with_toolkit(case, draft, &query)]
}

/// The chosen copy if it lacks `cuda_runtime.h` or every form of the runtime library, with the name of the case and what is absent.
fn incomplete<'a>(case: &DiagnosisCase<'a>) -> Option<(&'a Installation, &'static str, HostPath)> {
    let copy = chosen(case).filter(|copy| copy.part("compiler").is_some())?;
    let signs = &case.signs.cuda_toolkit;
    if let Some(folder) = &signs.without_runtime_header {
        return Some((copy, "runtime-header", folder.join("cuda_runtime.h")));
    }
    let has_library = copy.part("runtime-static").is_some() || signs.has_runtime_library;
    (!has_library).then(|| (copy, "runtime-library", copy.root.join("lib64/libcudart_static.a")))
}

fn release_of(version: &Version) -> Option<Version> {
    version.release().parse().ok()
}

fn release_after(version: &Version) -> Option<Version> {
    format!("{}.{}", version.major(), version.minor() + 1).parse().ok()
}

/// A working driver or a runtime library is present, but no compiler.
pub(super) fn runtime_only(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let verdict = case.matrix.verdict(Backend::Cuda);
    let has_compiler = case.inventory.of("cuda").iter().any(|copy| copy.part("compiler").is_some());
    if case.facts.platform.os == Os::Macos || has_compiler || chosen(case).is_some() {
        return Vec::new();
    }
    let signs = &case.signs.cuda_toolkit;
    let driver_works = verdict.hardware == Presence::Present
        && verdict.run == Readiness::Ready
        && (has_driver_library(case) || case.probes.contains_key(&Backend::Cuda));
    if !driver_works && signs.runtimes.is_empty() {
        return Vec::new();
    }
    let mut draft =
        FindingDraft::new(id!("cuda.toolkit.runtime-only")).backend(Backend::Cuda).affects(Affects::Build);
    for runtime in signs.runtimes.iter().take(2) {
        draft = draft.evidence(Evidence::file(runtime.as_str(), "a runtime library"));
    }
    let runtime = case.inventory.runtimes.get(&Backend::Cuda).and_then(|runtime| runtime.loader.as_ref());
    if let Some(loader) = runtime {
        draft = draft.evidence(Evidence::file(loader.value.as_str(), "the driver's library"));
    }
    draft = draft.evidence(Evidence::env("PATH", "no nvcc"));
    if driver_works && let Some(newest) = crate::driver::known_to_driver(case) {
        draft = draft.value("newest", newest.release()).case("driver");
        if let Some(driver) = &verdict.driver {
            draft = draft.value("driver", driver.to_string()).case("version");
        }
    }
    vec![with_suitable(case, draft)]
}
