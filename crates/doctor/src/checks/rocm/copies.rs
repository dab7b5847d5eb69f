//! Several copies of ROCm, the distribution's layout, and CMake's files.

use gpubuild_core::backend::Backend;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_host::{HostPath, Os};

use super::wanted_kind;
use crate::DiagnosisCase;
use crate::signs::rocm::CopyOrigin;

/// Those who ask are not given the same copy.
pub(super) fn two_installs(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let copies = &case.signs.rocm.copies;
    let found = disagree(&copies.ways).or_else(|| stale(case)).or_else(|| both_packages(case));
    let found = found.map(|ways| (ways, wanted_kind(case)));
    let found = found.or_else(|| Some((beside_the_link(&copies.ways)?, FindingKind::Caution)));
    let Some(((one, other), kind)) = found else { return Vec::new() };
    let mut draft = FindingDraft::new(id!("rocm.two-installs"))
        .backend(Backend::Rocm)
        .affects(Affects::Build)
        .kind(kind)
        .value("one", told(&one))
        .value("other", told(&other));
    for way in &copies.ways {
        let value = match &way.root {
            Some(root) if root.as_str() == way.place => way.place.clone(),
            Some(root) => format!("{} -> {root}", way.place),
            None => format!("{} (no ROCm there)", way.place),
        };
        draft = draft.evidence(if way.is_variable {
            Evidence::env(&way.name, value)
        } else {
            Evidence::file(&way.name, value)
        });
    }
    for path in [&copies.in_usr, &copies.in_opt].into_iter().flatten() {
        draft = draft.evidence(Evidence::file(path.as_str(), "present"));
    }
    let stale: Vec<&str> = copies
        .ways
        .iter()
        .filter(|way| way.root.is_none() && way.is_variable)
        .map(|way| way.name.as_str())
        .collect();
    if let Some(name) = stale.first() {
        draft = draft.value("stale", *name).case("stale");
    } else if copies.in_usr.is_some() && copies.in_opt.is_some() {
        draft = draft.case("both-packages");
    }
    if let Some(root) = best(case) {
        draft = draft.value("root", root.to_string()).value("bin", root.join("bin").to_string());
    }
    vec![draft]
}

/// The copy that all should be given: the one that a build takes, but not a distribution's beside AMD's.
fn best(case: &DiagnosisCase<'_>) -> Option<HostPath> {
    let chosen = case.inventory.chosen("rocm").map(|copy| copy.root.clone());
    let in_opt = case.signs.rocm.copies.ways.iter().find(|way| way.name == "/opt/rocm");
    let is_usr = chosen.as_ref().is_some_and(|root| root.as_str() == "/usr");
    let in_opt = in_opt.and_then(|way| way.root.clone());
    if is_usr { in_opt.or(chosen) } else { chosen.or(in_opt) }
}

fn told(way: &CopyOrigin) -> String {
    match &way.root {
        Some(root) => format!("`{}` leads to `{root}`", way.name),
        None => format!("`{}` names `{}`, where no ROCm is", way.name, way.place),
    }
}

/// Two ways that lead to different places.
fn disagree(ways: &[CopyOrigin]) -> Option<(CopyOrigin, CopyOrigin)> {
    let differs = |left: &CopyOrigin, right: &CopyOrigin| match (&left.root, &right.root) {
        (Some(left), Some(right)) => left.key() != right.key(),
        (None, Some(_)) | (Some(_), None) => true,
        (None, None) => false,
    };
    let is_system = |way: &CopyOrigin| way.name == "/opt/rocm";
    // A variable and the program on PATH that agree are a choice, whatever `/opt/rocm` is. A variable alone is one too.
    let asked: Vec<&CopyOrigin> = ways.iter().filter(|way| !is_system(way)).collect();
    for (index, left) in asked.iter().enumerate() {
        if let Some(right) = asked[index + 1..].iter().find(|right| differs(left, right)) {
            return Some(((*left).clone(), (*right).clone()));
        }
    }
    let system = ways.iter().find(|way| is_system(way))?;
    let pinned = asked.iter().any(|way| way.is_variable && way.root.is_some());
    let other = asked.into_iter().find(|way| differs(way, system))?;
    (!pinned).then(|| (other.clone(), system.clone()))
}

/// A variable alone that names another copy than the link: scripts with `/opt/rocm` written in them take the other one.
fn beside_the_link(ways: &[CopyOrigin]) -> Option<(CopyOrigin, CopyOrigin)> {
    let system = ways.iter().find(|way| way.name == "/opt/rocm")?;
    let has_program = ways.iter().any(|way| !way.is_variable && way.name != "/opt/rocm");
    let differs = |way: &&CopyOrigin| way.is_variable && way.root.is_some() && way.root != system.root;
    let pin = ways.iter().find(differs).filter(|_| !has_program)?;
    Some((pin.clone(), system.clone()))
}

/// A variable that leads nowhere beside a copy that only its usual folder leads to.
fn stale(case: &DiagnosisCase<'_>) -> Option<(CopyOrigin, CopyOrigin)> {
    let ways = &case.signs.rocm.copies.ways;
    let way = ways.iter().find(|way| way.is_variable && way.root.is_none())?;
    let copy = case.inventory.of("rocm").first()?;
    let other = CopyOrigin {
        name: copy.root.to_string(),
        place: copy.root.to_string(),
        root: Some(copy.root.clone()),
        is_variable: false,
    };
    Some((way.clone(), other))
}

/// The distribution's packages beside AMD's: compilers look in `/usr/include` anyway.
fn both_packages(case: &DiagnosisCase<'_>) -> Option<(CopyOrigin, CopyOrigin)> {
    let copies = &case.signs.rocm.copies;
    let way = |name: &str, path: &HostPath, root: &str| CopyOrigin {
        name: name.to_owned(),
        place: path.to_string(),
        root: HostPath::new(case.facts.platform.path_rules(), root).into(),
        is_variable: false,
    };
    let (usr, opt) = (copies.in_usr.as_ref()?, copies.in_opt.as_ref()?);
    Some((way(usr.as_str(), usr, "/usr"), way("/opt/rocm", opt, opt.as_str())))
}

/// The distribution's packages alone: in `/usr`, where some compilers and build scripts do not look.
pub(super) fn distro_layout(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let copies = &case.signs.rocm.copies;
    let Some(found) =
        copies.in_usr.as_ref().filter(|_| copies.in_opt.is_none() && copies.pinned_by.is_none())
    else {
        return Vec::new();
    };
    // `hipcc` of the same packages knows where they are; clang by itself and CMake's HIP language do not.
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

/// The compiler and its headers are there, and what CMake asks for is not.
pub(super) fn cmake_config(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = case.inventory.chosen("rocm").or_else(|| case.inventory.of("rocm").first()) else {
        return Vec::new();
    };
    let lacks = |part: &str| copy.part(part).is_none();
    // Windows' SDK had no support for CMake's language at first.
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
    let looked = copy.parts.get(part).map(|part| part.looked_for.clone()).unwrap_or_default();
    let mut draft = FindingDraft::new(id!("rocm.cmake-config"))
        .backend(Backend::Rocm)
        .affects(Affects::Build)
        .value("root", copy.root.to_string())
        .value("file", file);
    for place in looked {
        draft = draft.evidence(Evidence::file(copy.root.join(&place).as_str(), "absent"));
    }
    if copy.root.as_str() == "/usr" {
        draft = draft.case("distribution");
    }
    // The compiler alone is no development: nothing of it was ever installed.
    if copy.part("headers").is_none() && !case.signs.rocm.copies.has_cmake {
        draft = draft.kind(FindingKind::Absence);
    }
    vec![draft]
}

/// A variable of CMake's leads to the file.
fn named_elsewhere(case: &DiagnosisCase<'_>) -> bool {
    ["hip_DIR", "hip_ROOT", "HIP_DIR", "hip-lang_DIR"].iter().any(|name| case.env.get(name).is_some())
}
