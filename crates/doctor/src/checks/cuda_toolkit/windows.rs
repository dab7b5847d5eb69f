//! Windows only: the installer's `CUDA_PATH`, and integrations into Visual Studio.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;

use super::{chosen, evidence, is_of_environment, is_windows, release, variables};
use crate::DiagnosisCase;
use crate::signs::cuda_toolkit::Integration;

/// The chosen toolkit on Windows, unless it belongs to an environment.
fn installed<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Installation> {
    chosen(case).filter(|copy| is_windows(case) && !is_of_environment(case, copy))
}

/// `CUDA_PATH` is not set, names a missing folder, or names another release than the one that Visual Studio uses.
pub(super) fn cuda_path(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft =
        FindingDraft::new(id!("cuda.toolkit.win-cuda-path")).backend(Backend::Cuda).affects(Affects::Build);
    let gone = case.inventory.dead_ends.iter().find(|dead| {
        dead.toolkit == "cuda" && dead.found_via == "env:CUDA_PATH" && dead.why.contains("not exist")
    });
    let copy = installed(case);
    let draft = match copy {
        Some(copy) => {
            draft.value("root", copy.root.as_str()).value("version", release(copy)).evidence(evidence(copy))
        }
        None => draft,
    };
    if let Some(dead) = gone.filter(|_| is_windows(case)) {
        let draft = draft
            .value("place", dead.place.as_str())
            .evidence(Evidence::env("CUDA_PATH", dead.place.as_str()));
        return vec![if copy.is_some() {
            draft.case("gone")
        } else {
            super::missing::with_toolkit(case, draft.case("none"), &crate::advice::AdviceQuery::default())
        }];
    }
    let Some(copy) = copy else { return Vec::new() };
    if case.env.get("CUDA_PATH").is_none() {
        return vec![draft.case("lost").evidence(Evidence::env("CUDA_PATH", "unset"))];
    }
    let Some(newest) = newest_integration(case) else { return Vec::new() };
    let own = copy.version().map(Version::release);
    let is_named = variables(copy).any(|name| name == "CUDA_PATH");
    let taken = own.as_ref().is_some_and(|own| *own != newest.0.release() && newest.1.releases.contains(own));
    if !taken || !is_named {
        return Vec::new();
    }
    let place = newest.1.folder.join(&format!("CUDA {}.props", newest.0));
    vec![
        draft
            .kind(FindingKind::Caution)
            .case("newer")
            .value("newest", newest.0.release())
            .evidence(Evidence::env("CUDA_PATH", copy.root.as_str()))
            .evidence(Evidence::file(place.as_str(), "present")),
    ]
}

/// The newest CUDA release that is integrated into the newest Visual Studio.
fn newest_integration<'a>(case: &DiagnosisCase<'a>) -> Option<(Version, &'a Integration)> {
    let newest = case.signs.cuda_toolkit.integrations.last()?;
    let release = newest.releases.iter().filter_map(|text| text.parse::<Version>().ok()).max()?;
    Some((release, newest))
}

/// The toolkit is not integrated into the newest Visual Studio, so its CMake generator has no CUDA.
pub(super) fn integration(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(copy) = installed(case) else { return Vec::new() };
    let integrations = &case.signs.cuda_toolkit.integrations;
    let Some(newest) = integrations.last() else { return Vec::new() };
    let own = copy.version().map(Version::release);
    let knows =
        |one: &Integration| own.as_ref().map_or(!one.releases.is_empty(), |own| one.releases.contains(own));
    // If the newest Visual Studio is installed several times, one integration is enough.
    let is_known = integrations.iter().any(|one| one.number == newest.number && knows(one));
    // Other generators need no integration.
    let other = case.env.get("CMAKE_GENERATOR").is_some_and(|name| !name.starts_with("Visual Studio"));
    if is_known || other {
        return Vec::new();
    }
    let props = format!("CUDA {}.props", own.unwrap_or_else(|| "*".to_owned()));
    let there = if newest.releases.is_empty() {
        "no CUDA integration".to_owned()
    } else {
        format!("only CUDA {}", newest.releases.join(", "))
    };
    vec![
        FindingDraft::new(id!("cuda.toolkit.vs-integration"))
            .backend(Backend::Cuda)
            .affects(Affects::Build)
            .value("version", release(copy))
            .value("folder", newest.folder.as_str())
            .value("there", there.clone())
            .value(
                "extensions",
                copy.root.join(r"extras\visual_studio_integration\MSBuildExtensions\*").as_str(),
            )
            .evidence(Evidence::file(newest.folder.join(&props).as_str(), "absent"))
            .evidence(Evidence::file(newest.folder.as_str(), there))
            .evidence(evidence(copy)),
    ]
}
