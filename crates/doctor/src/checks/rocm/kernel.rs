//! The kernel: `kfd`, the version of the module, and tools that report its state incorrectly.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::{DriverFacts, Vendor};
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};

use super::{is_wanted, reason, wanted_kind};
use crate::DiagnosisCase;

/// `/dev/kfd` does not exist, with the driver or because the driver is missing.
pub(super) fn missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("rocm.kfd-missing");
    let no_node = reason(case, Backend::Rocm, id);
    let no_driver = reason(case, Backend::Rocm, id!("rocm.driver.missing")).filter(|_| is_wanted(case));
    if no_node.is_none() && no_driver.is_none() {
        return Vec::new();
    }
    let kernel = &case.signs.rocm.kernel;
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Rocm)
        .affects(Affects::Run)
        .kind(wanted_kind(case))
        .evidence(Evidence::file("/dev/kfd", "absent"))
        .value("node", "/dev/kfd");
    if let Some((place, word)) = &kernel.blocked_by {
        draft = draft.evidence(Evidence::file(place, word)).value("place", place).value("word", word);
        draft = draft.case(if place == "/proc/cmdline" { "command-line" } else { "blacklist" });
    } else if no_driver.is_some() {
        draft = draft.case("no-driver");
    } else if kernel.has_amdgpu {
        draft = draft.evidence(Evidence::file("/sys/module/amdgpu", "present")).case("no-compute");
    }
    vec![draft]
}

/// A GPU without a driver is a fault if no other GPU works.
pub(super) fn driver_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("rocm.driver.missing");
    if reason(case, Backend::Rocm, id).is_none() {
        return Vec::new();
    }
    let other_works = case.matrix.verdicts.iter().any(|verdict| {
        verdict.run == Readiness::Ready
            && verdict.hardware == Presence::Present
            && verdict.devices.iter().any(|gpu| gpu.vendor != Vendor::Amd)
    });
    let kind = if is_wanted(case) || !other_works { FindingKind::Fault } else { FindingKind::Note };
    vec![FindingDraft::new(id).backend(Backend::Rocm).kind(kind)]
}

/// ROCm is newer than the kernel driver supports.
pub(super) fn mismatch(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(draft) = compare(case) else { return Vec::new() };
    vec![draft]
}

fn compare(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let driver: &DriverFacts = case.facts.drivers.iter().find(|driver| driver.module == "amdgpu")?;
    let module = driver.version.as_ref().filter(|fact| fact.found_via == "sysfs")?;
    let description = case.catalogue.for_backend(Backend::Rocm)?;
    let copy = case.inventory.chosen("rocm").or_else(|| case.inventory.of("rocm").first());
    let release = copy.and_then(|copy| copy.version.as_ref()).or(case.signs.rocm.release.as_ref())?;
    let row = description.kernel(&module.value)?;
    let too_new = row.newest.as_ref().is_some_and(|newest| is_newer(&release.value, newest));
    // AMD supports some of these combinations, but programs have been seen to hang with them.
    let other_major = release.value.major() > row.with.major();
    if !too_new && !other_major {
        return None;
    }
    let mut draft = FindingDraft::new(id!("rocm.kernel-mismatch"))
        .backend(Backend::Rocm)
        .affects(Affects::Run)
        .kind(if too_new { FindingKind::Fault } else { FindingKind::Caution })
        .value("version", release.value.release())
        .value("driver", module.value.to_string())
        .value("driver_release", &row.name);
    for evidence in module.evidence.iter().chain(&release.evidence) {
        draft = draft.evidence(evidence.clone());
    }
    Some(draft)
}

/// Whether a release belongs to a newer line than another: 7.0.2 is not newer than 7.0.
fn is_newer(release: &Version, than: &Version) -> bool {
    (release.major(), release.minor()) > (than.major(), than.minor())
}

/// The GPU works, and `rocminfo` reports that it does not.
pub(super) fn tools(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("rocm.tools-false-negative");
    let signs = &case.signs.rocm;
    let (Some(program), true) = (&signs.rocminfo, signs.kernel.kfd_opens) else { return Vec::new() };
    let draft = FindingDraft::new(id)
        .backend(Backend::Rocm)
        .value("program", program.to_string())
        .evidence(Evidence::file(program.as_str(), "present"))
        .evidence(Evidence::file("/dev/kfd", "opens"));
    if let Some(place) = &signs.kernel.built_in {
        return vec![
            draft.evidence(Evidence::file(place, "amdgpu is built into the kernel")).case("built-in"),
        ];
    }
    if signs.kernel.rocminfo_reports_not_loaded {
        return vec![draft.evidence(Evidence::new(EvidenceKind::Exec, "rocminfo", "module NOT loaded"))];
    }
    if signs.kernel.lsmod.is_some() {
        return Vec::new();
    }
    // Only a note: newer releases of `rocminfo` read sysfs.
    vec![draft.kind(FindingKind::Note).evidence(Evidence::file("/usr/sbin/lsmod", "absent")).case("no-lsmod")]
}
