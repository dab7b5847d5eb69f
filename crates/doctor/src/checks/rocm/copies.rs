//! Several copies of ROCm, the distribution's layout, and missing CMake package files.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_host::{HostPath, Os};

use super::wanted_kind;
use crate::DiagnosisCase;
use crate::signs::rocm::CopyOrigin;

/// Variables, PATH and `/opt/rocm` lead to different copies.
pub(super) fn two_installs(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let copies = &case.signs.rocm.copies;
    let found = disagree(&copies.origins).or_else(|| stale(case)).or_else(|| both_packages(case));
    let found = found.map(|origins| (origins, wanted_kind(case)));
    let found = found.or_else(|| Some((differs_from_link(&copies.origins)?, FindingKind::Caution)));
    let Some(((one, other), kind)) = found else { return Vec::new() };
    let mut draft = FindingDraft::new(id!("rocm.two-installs"))
        .backend(Backend::Rocm)
        .affects(Affects::Build)
        .kind(kind)
        .value("one", describe(&one))
        .value("other", describe(&other));
    for origin in &copies.origins {
        let value = match &origin.root {
            Some(root) if root.as_str() == origin.place => origin.place.clone(),
            Some(root) => format!("{} -> {root}", origin.place),
            None => format!("{} (contains no ROCm)", origin.place),
        };
        draft = draft.evidence(if origin.is_variable {
            Evidence::env(&origin.name, value)
        } else {
            Evidence::file(&origin.name, value)
        });
    }
    for path in [&copies.in_usr, &copies.in_opt].into_iter().flatten() {
        draft = draft.evidence(Evidence::file(path.as_str(), "present"));
    }
    let stale: Vec<&str> = copies
        .origins
        .iter()
        .filter(|origin| origin.root.is_none() && origin.is_variable)
        .map(|origin| origin.name.as_str())
        .collect();
    if let Some(name) = stale.first() {
        draft = draft.value("stale", *name).case("stale");
    } else if copies.origins.iter().any(|origin| is_system(origin) && origin.root.is_none()) {
        draft = draft.case("dangling");
    } else if copies.in_usr.is_some() && copies.in_opt.is_some() {
        draft = draft.case("both-packages");
    }
    if let Some(root) = best(case) {
        draft = draft.value("root", root.to_string()).value("bin", root.join("bin").to_string());
    }
    vec![draft]
}

/// The copy that all origins should lead to: the one that builds use, but `/opt/rocm` rather than a distribution's copy.
fn best(case: &DiagnosisCase<'_>) -> Option<HostPath> {
    let chosen = case.inventory.chosen("rocm").map(|copy| copy.root.clone());
    let in_opt = case.signs.rocm.copies.origins.iter().find(|origin| origin.name == "/opt/rocm");
    let is_usr = chosen.as_ref().is_some_and(|root| root.as_str() == "/usr");
    let in_opt = in_opt.and_then(|origin| origin.root.clone());
    if is_usr { in_opt.or(chosen) } else { chosen.or(in_opt) }
}

/// Whether an origin is the link that AMD's packages place for the default release.
fn is_system(origin: &CopyOrigin) -> bool {
    origin.name == "/opt/rocm"
}

fn describe(origin: &CopyOrigin) -> String {
    match &origin.root {
        Some(root) => format!("`{}` leads to `{root}`", origin.name),
        None => format!("`{}` names `{}`, which contains no ROCm", origin.name, origin.place),
    }
}

/// Two origins that lead to different copies.
fn disagree(origins: &[CopyOrigin]) -> Option<(CopyOrigin, CopyOrigin)> {
    let differs = |left: &CopyOrigin, right: &CopyOrigin| match (&left.root, &right.root) {
        (Some(left), Some(right)) => left.key() != right.key(),
        (None, Some(_)) | (Some(_), None) => true,
        (None, None) => false,
    };
    // A variable and the program on PATH that agree are a deliberate choice, whatever `/opt/rocm` is. So is a variable alone.
    let others: Vec<&CopyOrigin> = origins.iter().filter(|origin| !is_system(origin)).collect();
    for (index, left) in others.iter().enumerate() {
        if let Some(right) = others[index + 1..].iter().find(|right| differs(left, right)) {
            return Some(((*left).clone(), (*right).clone()));
        }
    }
    let system = origins.iter().find(|origin| is_system(origin))?;
    let pinned = others.iter().any(|origin| origin.is_variable && origin.root.is_some());
    let other = others.into_iter().find(|origin| differs(origin, system))?;
    (!pinned).then(|| (other.clone(), system.clone()))
}

/// Only a variable names another copy than `/opt/rocm`. Scripts that contain `/opt/rocm` use the other one.
fn differs_from_link(origins: &[CopyOrigin]) -> Option<(CopyOrigin, CopyOrigin)> {
    let system = origins.iter().find(|origin| origin.name == "/opt/rocm")?;
    let has_program = origins.iter().any(|origin| !origin.is_variable && origin.name != "/opt/rocm");
    let differs =
        |origin: &&CopyOrigin| origin.is_variable && origin.root.is_some() && origin.root != system.root;
    let pin = origins.iter().find(differs).filter(|_| !has_program)?;
    Some((pin.clone(), system.clone()))
}

/// A variable, or the link `/opt/rocm`, that leads to no copy, with a copy that gpubuild found elsewhere.
fn stale(case: &DiagnosisCase<'_>) -> Option<(CopyOrigin, CopyOrigin)> {
    let origins = &case.signs.rocm.copies.origins;
    let leads_nowhere = |origin: &&CopyOrigin| origin.root.is_none();
    let variable = origins.iter().filter(leads_nowhere).find(|origin| origin.is_variable);
    let origin =
        variable.or_else(|| origins.iter().filter(leads_nowhere).find(|origin| is_system(origin)))?;
    let copy = case.inventory.of("rocm").first()?;
    let other = CopyOrigin {
        name: copy.root.to_string(),
        place: copy.root.to_string(),
        root: Some(copy.root.clone()),
        is_variable: false,
    };
    Some((origin.clone(), other))
}

/// The distribution's packages and AMD's are both installed; compilers search `/usr/include` in any case.
fn both_packages(case: &DiagnosisCase<'_>) -> Option<(CopyOrigin, CopyOrigin)> {
    let copies = &case.signs.rocm.copies;
    let origin = |name: &str, path: &HostPath, root: &str| CopyOrigin {
        name: name.to_owned(),
        place: path.to_string(),
        root: HostPath::new(case.facts.platform.path_rules(), root).into(),
        is_variable: false,
    };
    let (usr, opt) = (copies.in_usr.as_ref()?, copies.in_opt.as_ref()?);
    Some((origin(usr.as_str(), usr, "/usr"), origin("/opt/rocm", opt, opt.as_str())))
}

/// Only the distribution's packages are installed: in `/usr`, where some compilers and build scripts do not search.
pub(super) fn distro_layout(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let copies = &case.signs.rocm.copies;
    let Some(found) =
        copies.in_usr.as_ref().filter(|_| copies.in_opt.is_none() && copies.pinned_by.is_none())
    else {
        return Vec::new();
    };
    // Without a compiler, paths do not matter yet.
    if case.inventory.of("rocm").iter().all(|copy| copy.part("compiler").is_none()) {
        return Vec::new();
    }
    // `hipcc` of these packages finds the device libraries; clang alone and CMake's HIP language do not.
    let kind = match (&copies.device_libraries, copies.finds_device_libraries) {
        (None, _) => FindingKind::Fault,
        (Some(_), true) if !copies.is_multiarch => FindingKind::Note,
        (Some(_), _) => FindingKind::Caution,
    };
    let mut draft = FindingDraft::new(id!("rocm.distro-layout"))
        .backend(Backend::Rocm)
        .affects(Affects::Build)
        .kind(kind)
        .value("place", found.to_string())
        .evidence(Evidence::file(found.as_str(), "present"))
        .evidence(Evidence::file("/opt/rocm", "absent"));
    match &copies.device_libraries {
        Some(folder) => {
            draft = draft.evidence(Evidence::file(folder.as_str(), "device libraries"));
            draft = draft.value("bitcode", folder.to_string());
        }
        None => draft = draft.case("no-device-libraries"),
    }
    vec![draft]
}

/// First major release that keeps its device libraries in `amdgcn/bitcode`.
const BITCODE_FOLDER: u64 = 4;

/// AMD's packages are installed with the compiler and without the device libraries.
pub(super) fn device_libraries(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = case.inventory.chosen("rocm") else { return Vec::new() };
    let lacks = |part: &str| copy.part(part).is_none();
    let is_old = copy.version().is_some_and(|version| version.major() < BITCODE_FOLDER);
    let is_named = case.env.get("HIP_DEVICE_LIB_PATH").is_some();
    // The distribution's packages in `/usr` have their own finding.
    let is_own = case.facts.platform.os == Os::Linux && copy.root.as_str() != "/usr";
    if !is_own || lacks("compiler") || !lacks("device-libraries") || is_old || is_named {
        return Vec::new();
    }
    let folder = copy.root.join("amdgcn/bitcode");
    let draft = FindingDraft::new(id!("rocm.device-libs-missing")).backend(Backend::Rocm);
    let draft = draft.affects(Affects::Build).case("absent").value("root", copy.root.to_string());
    vec![draft.evidence(Evidence::file(folder.as_str(), "absent"))]
}

/// The compiler and its headers are installed, but CMake's package files are not.
pub(super) fn cmake_config(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = case.inventory.chosen("rocm").or_else(|| case.inventory.of("rocm").first()) else {
        return Vec::new();
    };
    let lacks = |part: &str| copy.part(part).is_none();
    // The first Windows SDKs did not support CMake's HIP language.
    let needs_language =
        case.facts.platform.os == Os::Linux && copy.version().is_none_or(|version| version.major() >= 5);
    let file = if lacks("cmake-config") {
        "hip-config.cmake"
    } else if needs_language && lacks("hip-language") {
        "hip-lang-config.cmake"
    } else {
        return Vec::new();
    };
    if named_elsewhere(case) {
        return Vec::new();
    }
    let part = if file == "hip-config.cmake" { "cmake-config" } else { "hip-language" };
    let searched = copy.parts.get(part).map(|part| part.looked_for.clone()).unwrap_or_default();
    let mut draft = FindingDraft::new(id!("rocm.cmake-config"))
        .backend(Backend::Rocm)
        .affects(Affects::Build)
        .value("root", copy.root.to_string())
        .value("file", file);
    for place in searched {
        draft = draft.evidence(Evidence::file(copy.root.join(&place).as_str(), "absent"));
    }
    if copy.root.as_str() == "/usr" {
        draft = draft.case("distribution");
    }
    // The compiler alone is not a development installation.
    if copy.part("headers").is_none() && !case.signs.rocm.copies.has_cmake {
        draft = draft.kind(FindingKind::Absence);
    }
    vec![draft]
}

/// Whether a CMake variable names the package's folder.
fn named_elsewhere(case: &DiagnosisCase<'_>) -> bool {
    ["hip_DIR", "hip_ROOT", "HIP_DIR", "hip-lang_DIR"].iter().any(|name| case.env.get(name).is_some())
}
