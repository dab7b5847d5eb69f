//! Vulkan: the SDK, the loader and its drivers.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, FindingKind, Severity};
use gpubuild_detect::id;
use gpubuild_detect::json;
use gpubuild_detect::matrix::{Presence, Readiness};
use gpubuild_detect::toolkit::RuntimeDriver;
use gpubuild_host::{HostPath, Os};

use super::{compute_only, gpus, has_loader, is_asked, of_nvidia, reason, with_runtime};
use crate::DiagnosisCase;
use crate::signs::graphics::vulkan::Headers;

/// Whether Vulkan is used for development: it is requested, or its headers, tools or variable exist. Loaders and drivers are
/// installed with other software and prove nothing.
pub(in crate::checks) fn wants(case: &DiagnosisCase<'_>) -> bool {
    let signs = &case.signs.graphics.vulkan;
    is_asked(case, Backend::Vulkan)
        || signs.sdk.is_some()
        || signs.vulkaninfo.is_some()
        || has_headers(case)
        || !case.inventory.of("glslc").is_empty()
}

fn has_headers(case: &DiagnosisCase<'_>) -> bool {
    !case.inventory.of("vulkan").is_empty()
}

/// `VULKAN_SDK` names a folder that is missing or has no headers. CMake then silently uses another copy.
pub(super) fn sdk_path_wrong(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(sdk) = case.signs.graphics.vulkan.sdk.as_ref().filter(|sdk| !sdk.has_headers) else {
        return Vec::new();
    };
    let state = if sdk.exists { "has no include/vulkan/vulkan.h" } else { "absent" };
    let mut draft = FindingDraft::new(id!("vk.sdk-path-wrong"))
        .backend(Backend::Vulkan)
        .affects(Affects::Build)
        .value("value", &sdk.value)
        .evidence(Evidence::env("VULKAN_SDK", &sdk.value))
        .evidence(Evidence::file(&sdk.value, state))
        .case(if sdk.exists { "no-headers" } else { "absent" });
    if let Some(suggested) = &sdk.suggested {
        let name = if sdk.exists { "no-headers-and-better" } else { "absent-and-better" };
        draft = draft
            .value("better", suggested.to_string())
            .evidence(Evidence::file(suggested.as_str(), "has include/vulkan/vulkan.h"))
            .case(name);
    }
    // A machine without a GPU on which the variable is set is for building.
    let hardware = case.matrix.verdict(Backend::Vulkan).hardware;
    if hardware != Presence::Present && case.asked.is_none() {
        draft = draft.severity(Severity::Warning);
    }
    vec![draft]
}

/// Versions that do not fit together: of the C++ and C headers, or of the headers and the loader.
pub(super) fn header_mismatch(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.graphics.vulkan;
    let draft =
        || FindingDraft::new(id!("vk.header-mismatch")).backend(Backend::Vulkan).affects(Affects::Build);
    if let Some((cpp, made_for, core, version)) = cpp_mismatch(&signs.headers) {
        return vec![
            draft()
                .case("cpp")
                .value("cpp", cpp.folder.to_string())
                .value("made_for", made_for.to_string())
                .value("core", core.folder.to_string())
                .value("version", version.to_string())
                .evidence(Evidence::file(
                    cpp.folder.join("vulkan/vulkan.hpp").as_str(),
                    format!("VK_HEADER_VERSION == {made_for}"),
                ))
                .evidence(Evidence::file(
                    core.folder.join("vulkan/vulkan_core.h").as_str(),
                    version.as_str(),
                )),
        ];
    }
    let chosen = signs.headers.iter().find_map(|one| Some((one, one.core.as_ref()?)));
    let loader = signs.loader.clone().or_else(|| probed_version(case));
    let (Some((headers, version)), Some((library, loader))) = (chosen, &loader) else {
        return Vec::new();
    };
    let Some(kind) = distance(version, loader) else { return Vec::new() };
    vec![
        draft()
            .kind(kind)
            .value("core", headers.folder.to_string())
            .value("version", version.to_string())
            .value("loader", loader.to_string())
            .evidence(Evidence::file(headers.folder.join("vulkan/vulkan_core.h").as_str(), version.as_str()))
            .evidence(Evidence::file(library.as_str(), loader.as_str())),
    ]
}

/// The headers without `vulkan_core.h`, which all others include.
pub(super) fn headers_incomplete(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(absent) = &case.signs.graphics.vulkan.core_header_missing else { return Vec::new() };
    let draft = FindingDraft::new(id!("vk.headers-missing")).backend(Backend::Vulkan);
    let draft = draft.affects(Affects::Build).case("core").value("place", absent.to_string());
    vec![draft.evidence(Evidence::file(absent.as_str(), "absent"))]
}

/// The headers without the library that linkers use. gpubuild's kernels open the loader when they run and do not need it.
pub(super) fn library_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.graphics.vulkan;
    let Some(copy) = case.inventory.chosen("vulkan").filter(|copy| copy.is_complete()) else {
        return Vec::new();
    };
    if signs.is_linkable || signs.core_header_missing.is_some() {
        return Vec::new();
    }
    let place = signs.loader_folder.clone().unwrap_or_else(|| copy.root.join("lib"));
    let draft = FindingDraft::new(id!("vk.library-missing")).backend(Backend::Vulkan);
    vec![
        draft.affects(Affects::Build).evidence(Evidence::file(place.join("libvulkan.so").as_str(), "absent")),
    ]
}

/// The version that the loader reports, for a file name without one.
fn probed_version(case: &DiagnosisCase<'_>) -> Option<(HostPath, Version)> {
    let answer = case.probes.get(&Backend::Vulkan)?;
    let document = json::parse(&answer.answer)?;
    let version = document.get("api_version")?.as_str()?.parse().ok()?;
    let runtime = case.inventory.runtimes.get(&Backend::Vulkan)?;
    Some((runtime.loader.as_ref()?.value.clone(), version))
}

/// The kind of problem if headers of one version are used with a loader of another. Distributions build both from one source, so
/// older headers are a leftover. Newer headers are normal with an SDK.
fn distance(headers: &Version, loader: &Version) -> Option<FindingKind> {
    const STEPS: u64 = 20;
    let line = |version: &Version| (version.major(), version.minor());
    if line(headers) < line(loader) {
        return Some(FindingKind::Fault);
    }
    let is_older = line(headers) == line(loader) && headers.part(2) + STEPS < loader.part(2);
    is_older.then_some(FindingKind::Caution)
}

/// A C++ header that was generated for another version of the C header than the one it includes.
fn cpp_mismatch(headers: &[Headers]) -> Option<(&Headers, u64, &Headers, &Version)> {
    headers.iter().find_map(|one| {
        let made_for = one.cpp?;
        let core =
            if one.core.is_some() { one } else { headers.iter().find(|other| other.core.is_some())? };
        let version = core.core.as_ref()?;
        (version.part(2) != made_for).then_some((one, made_for, core, version))
    })
}

/// The shader compiler is missing; a fault only if the rest of Vulkan's development files is installed.
pub(super) fn glslc_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("vk.glslc-missing");
    if reason(case, Backend::Vulkan, id).is_none() {
        return Vec::new();
    }
    let is_there = has_headers(case) && has_loader(case, Backend::Vulkan);
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Vulkan)
        .affects(Affects::Build)
        .about("glslc")
        .kind(if is_there { FindingKind::Fault } else { FindingKind::Absence })
        .evidence(Evidence::env("PATH", "no glslc"));
    if let Some(copy) = case.inventory.of("vulkan").first() {
        draft = draft.evidence(Evidence::file(copy.root.as_str(), "Vulkan headers"));
    }
    vec![draft]
}

/// The loader is missing; a fault only if Vulkan is wanted, or if no other backend can use the GPU.
pub(super) fn loader_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("vk.loader-missing");
    let Some(known) = reason(case, Backend::Vulkan, id) else { return Vec::new() };
    let is_fault = wants(case) || has_driver(case) || is_last_resort(case);
    let library = known.values.get("library").cloned().unwrap_or_default();
    vec![
        FindingDraft::new(id)
            .backend(Backend::Vulkan)
            .affects(Affects::Run)
            .kind(if is_fault { FindingKind::Fault } else { FindingKind::Absence })
            .evidence(Evidence::file(library, "absent")),
    ]
}

/// Whether a Vulkan driver for one of the GPUs was installed deliberately. On Linux NVIDIA's Vulkan driver is part of every driver
/// and does not count. On Windows a driver installs the loader too, so a driver without the loader is broken.
fn has_driver(case: &DiagnosisCase<'_>) -> bool {
    let drivers = case.inventory.runtimes.get(&Backend::Vulkan).map_or(&[][..], |runtime| &runtime.drivers);
    let counts = |driver: &RuntimeDriver| {
        let own = |vendor: &Vendor| gpus(case, Backend::Vulkan).iter().any(|gpu| gpu.vendor == *vendor);
        let is_bundled = driver.vendors == [Vendor::Nvidia] && case.facts.platform.os == Os::Linux;
        driver.found && driver.software.is_none() && !is_bundled && driver.vendors.iter().any(own)
    };
    case.facts.container.is_none() && case.facts.wsl.is_none() && drivers.iter().any(counts)
}

/// Whether ROCm no longer supports the AMD GPU and no other backend runs on it.
pub(in crate::checks) fn is_last_resort(case: &DiagnosisCase<'_>) -> bool {
    let runs = case.matrix.verdicts.iter().any(|verdict| {
        verdict.backend != Backend::Cpu
            && verdict.run == Readiness::Ready
            && verdict.devices.iter().any(|gpu| gpu.vendor == Vendor::Amd)
    });
    reason(case, Backend::Rocm, id!("rocm.gfx803")).is_some() && !runs && case.facts.container.is_none()
}

/// The loader has no driver for the GPU.
pub(super) fn icd_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    no_driver(case, id!("vk.icd-missing"))
}

/// The loader has only software drivers.
pub(super) fn software_only(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    no_driver(case, id!("vk.software-only"))
}

/// In WSL only Mesa's driver dzn runs Vulkan on the GPU of Windows.
fn without_dzn(case: &DiagnosisCase<'_>, id: DiagnosticId) -> Option<FindingDraft> {
    let device = case.signs.container.wsl.device.clone()?;
    let is_usable = case.facts.wsl.is_some() && case.facts.container.is_none();
    let runtime = case.inventory.runtimes.get(&Backend::Vulkan)?;
    let chosen = case.signs.graphics.vulkan.chosen.is_some();
    let is_own = |gpu: &&Gpu| gpu.kernel_driver.as_deref() != Some("dxgkrnl");
    let has_own_gpu = gpus(case, Backend::Vulkan).iter().any(is_own);
    if !is_usable || chosen || runtime.loader.is_none() || has_own_gpu {
        return None;
    }
    let found = |driver: &&RuntimeDriver| driver.found;
    if runtime.drivers.iter().filter(found).any(|driver| driver.software.is_none()) {
        return None;
    }
    let is_emulated = runtime.drivers.iter().any(|driver| driver.found);
    if is_emulated != (id == "vk.software-only") {
        return None;
    }
    // Loader and llvmpipe are part of many images: without a sign of use they say nothing if CUDA has the GPU.
    let is_wanted = wants(case) || case.signs.container.wsl.cuda.is_none();
    let draft = FindingDraft::new(id).backend(Backend::Vulkan).affects(Affects::Run).case("wsl");
    let draft = draft.evidence(device).evidence(Evidence::file("dzn_icd.*.json", "absent"));
    Some(match case.asked {
        Some(_) => draft.kind(FindingKind::Fault),
        // Not by its kind: Vulkan's verdict knows only NVIDIA's GPUs here, so others would not seem to matter.
        None if is_wanted => draft.severity(Severity::Warning),
        None => draft.kind(FindingKind::Note),
    })
}

fn no_driver(case: &DiagnosisCase<'_>, id: DiagnosticId) -> Vec<FindingDraft> {
    if let Some(draft) = without_dzn(case, id) {
        return vec![draft];
    }
    let Some(known) = reason(case, Backend::Vulkan, id) else { return Vec::new() };
    // Without a GPU, no driver can be installed: the text of the verdict applies.
    if gpus(case, Backend::Vulkan).is_empty() {
        return vec![FindingDraft::new(id).backend(Backend::Vulkan).case("no-card").kind(FindingKind::Note)];
    }
    let mut draft = FindingDraft::new(id).backend(Backend::Vulkan).affects(Affects::Run);
    let is_incidental = case.facts.wsl.is_some() || (compute_only(case, Backend::Vulkan) && !wants(case));
    if is_incidental && !is_asked(case, Backend::Vulkan) {
        draft = draft.kind(FindingKind::Note);
    }
    draft = with_runtime(case, Backend::Vulkan, draft);
    let emulator = known.values.get("drivers").filter(|_| id == "vk.software-only");
    if let Some(emulator) = emulator.filter(|_| case.probes.contains_key(&Backend::Vulkan)) {
        draft = draft.evidence(Evidence::new(EvidenceKind::Dlopen, "probe:vulkan", emulator));
    }
    if let Some(library) = known.values.get("library").filter(|library| !library.is_empty()) {
        draft = draft.value("library", library);
    }
    if let Some(chosen) = &case.signs.graphics.vulkan.chosen {
        draft = draft.value("variable", &chosen.name).value("value", &chosen.value);
        draft = draft.evidence(Evidence::env(&chosen.name, &chosen.value));
        return vec![match chosen.absent.first() {
            Some(entry) => draft.value("entry", entry).case("variable-absent"),
            None => draft.case("variable"),
        }];
    }
    if case.facts.platform.os == Os::Macos && id == "vk.icd-missing" {
        // A Mac without the loader does not use Vulkan.
        if !has_loader(case, Backend::Vulkan) && !wants(case) {
            draft = draft.kind(FindingKind::Absence);
        }
        return vec![match &case.signs.graphics.vulkan.moltenvk {
            Some(manifest) => draft
                .value("icd", manifest.as_str())
                .evidence(Evidence::file(manifest.as_str(), "not in a folder that the loader searches"))
                .case("moltenvk-elsewhere"),
            None => draft.evidence(Evidence::file("MoltenVK_icd.json", "absent")).case("moltenvk"),
        }];
    }
    let nvidia = case.facts.gpus.iter().find(|gpu| gpu.vendor == Vendor::Nvidia);
    if nvidia.is_some_and(|gpu| gpu.kernel_driver.as_deref() == Some("nvidia")) {
        draft = of_nvidia(case, draft);
    } else if case.facts.gpus.iter().any(|gpu| gpu.kernel_driver.as_deref() == Some("radeon")) {
        draft = draft.case("radeon");
    }
    vec![draft]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_headers_are_reported_and_newer_ones_are_not() {
        for (headers, loader, kind) in [
            ("1.3.275", "1.3.275", None),
            ("1.3.296", "1.3.275", None),
            ("1.4.313", "1.3.204", None),
            ("1.3.268", "1.3.275", None),
            ("1.3.204", "1.3.275", Some(FindingKind::Caution)),
            ("1.2.131", "1.3.204", Some(FindingKind::Fault)),
            ("1.3.296", "1.4.313", Some(FindingKind::Fault)),
        ] {
            assert_eq!(
                distance(&headers.parse().unwrap(), &loader.parse().unwrap()),
                kind,
                "{headers} {loader}"
            );
        }
    }
}
