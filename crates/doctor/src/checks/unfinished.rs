//! Packages whose installation was interrupted or failed, and held ones that keep a driver at its version.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::matrix::Readiness;
use gpubuild_host::dpkg::STATUS;

use super::{DoctorCheck, NvidiaView};
use crate::DiagnosisCase;
use crate::signs::unfinished::UnfinishedPackage;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("pkg.unfinished"), run: unfinished },
    DoctorCheck { id: id!("pkg.held"), run: held },
];

/// Most packages that are listed as evidence.
const SHOWN: usize = 4;

/// Packages are unpacked but not configured, or were not unpacked completely.
fn unfinished(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    unfinished_draft(case).into_iter().collect()
}

fn unfinished_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let signs = &case.signs.unfinished;
    let mut packages: Vec<&UnfinishedPackage> = signs.unfinished.iter().collect();
    if packages.is_empty() && !signs.interrupted {
        return None;
    }
    packages.sort_by_key(|package| (!blocks(case, package), package.backend.is_none()));
    let mut draft = FindingDraft::new(id!("pkg.unfinished"));
    for package in packages.iter().take(SHOWN) {
        draft = draft.evidence(Evidence::file(STATUS, format!("{} is {}", package.name, package.state)));
    }
    let Some(first) = packages.first() else {
        let draft = draft.evidence(Evidence::file("/var/lib/dpkg/updates", "not empty"));
        return Some(draft.kind(FindingKind::Caution).case("interrupted"));
    };
    draft = draft.value("package", &first.name).value("state", &first.state);
    draft = match packages.len() - 1 {
        0 => draft.value("others", ""),
        1 => draft.value("others", " and another package"),
        more => draft.value("others", format!(" and {more} other packages")),
    };
    if let Some(broken) = packages.iter().find(|package| package.reinstall) {
        draft = draft.value("package", &broken.name).value("state", &broken.state).case("reinstall");
    }
    let Some(backend) = first.backend.filter(|_| blocks(case, first)) else {
        return Some(draft.kind(FindingKind::Caution));
    };
    Some(draft.backend(backend).affects(Affects::Run).affects(Affects::Build))
}

/// Whether the package belongs to a backend that does not work here for another reason than a module that failed to compile, which
/// would fail again.
fn blocks(case: &DiagnosisCase<'_>, package: &UnfinishedPackage) -> bool {
    let Some(backend) = package.backend else { return false };
    let kernels = &case.signs.nvidia.kernels;
    if package.is_nvidia_driver() && kernels.running.has_headers && !kernels.failures.is_empty() {
        return false;
    }
    let verdict = case.matrix.verdict(backend);
    let works = |readiness: Readiness| matches!(readiness, Readiness::Ready | Readiness::Limited);
    !verdict.devices.is_empty() && !works(verdict.run)
        || matches!(backend, Backend::Cpu) && !works(verdict.build)
        || case.asked.is_some_and(|asked| asked.contains(&backend)) && !works(verdict.build)
}

/// Packages of NVIDIA's driver are on hold, and the driver needs another version.
fn held(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    held_draft(case).into_iter().collect()
}

fn held_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let held: Vec<&UnfinishedPackage> =
        case.signs.unfinished.held.iter().filter(|package| package.is_nvidia_driver()).collect();
    let first = held.first()?;
    let view = NvidiaView::new(case)?;
    let needs_another = [
        id!("nv.driver.too-old"),
        id!("nv.driver.card-too-new"),
        id!("nv.driver.branch-dropped"),
        id!("nv.driver.open-required"),
        id!("nv.driver.open-unsupported"),
        id!("nv.driver.lib-mismatch"),
        id!("nv.driver.library-missing"),
    ]
    .into_iter()
    .find(|id| view.reason(*id).is_some())?;
    let names: Vec<&str> = held.iter().map(|package| package.name.as_str()).collect();
    let mut draft = view
        .draft(id!("pkg.held"))
        .value("package", &first.name)
        .value("version", &first.version)
        .value("packages", names.join(" "));
    for package in held.iter().take(SHOWN) {
        draft = draft
            .evidence(Evidence::file(STATUS, format!("{} {} is on hold", package.name, package.version)));
    }
    // A reboot loads the module that is on disk. If it is the loaded one, only an update of the held packages helps.
    let kernel = view.kernel_version();
    let stays = kernel.is_some() && view.signs.kernels.running.version.as_ref() == kernel;
    let is_cause = needs_another == "nv.driver.lib-mismatch" && stays;
    Some(if is_cause { draft.affects(Affects::Run) } else { draft.kind(FindingKind::Caution) })
}
