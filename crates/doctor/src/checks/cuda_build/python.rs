//! PyTorch, conda and uv, each of which detects CUDA in its own way.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::Presence;
use gpubuild_detect::toolkit::Installation;
use gpubuild_host::Os;

use crate::DiagnosisCase;
use crate::checks::cuda_toolkit::{chosen, evidence, has_driver_library, release};
use crate::driver::known_to_driver;

/// PyTorch compiles extensions with the toolkit that it finds, which must have the major release that PyTorch was built with.
pub(super) fn torch_mismatch(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(torch) = &case.signs.cuda_build.torch else { return Vec::new() };
    let Some((cuda, copy)) = torch.cuda.as_ref().zip(copy_for_torch(case)) else { return Vec::new() };
    let Some(version) = copy.version().filter(|version| version.major() != cuda.major()) else {
        return Vec::new();
    };
    let draft = FindingDraft::new(id!("cuda.torch-mismatch"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", version.release())
        .value("cuda", cuda.release())
        .value("torch", torch.version.as_ref().map(ToString::to_string).unwrap_or_default())
        .evidence(Evidence::file(torch.file.as_str(), format!("cuda = {cuda}")))
        .evidence(evidence(copy));
    vec![match index_of_toolkit(version) {
        Some(index) => draft.value("index", index),
        None => draft.case("old"),
    }]
}

/// The copy that PyTorch's `cpp_extension` uses: `CUDA_HOME`, `CUDA_PATH`, nvcc on PATH, `/usr/local/cuda`.
fn copy_for_torch<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Installation> {
    let copies = case.inventory.of("cuda");
    let named = |name: &str| {
        copies.iter().find(|copy| copy.found_via.iter().any(|via| via.strip_prefix("env:") == Some(name)))
    };
    let signs = &case.signs.cuda_toolkit;
    let at = |root: &gpubuild_host::HostPath| copies.iter().find(|copy| copy.root.key() == root.key());
    named("CUDA_HOME")
        .or_else(|| named("CUDA_PATH"))
        .or_else(|| at(&signs.nvcc.as_ref()?.root))
        .or_else(|| at(signs.link.as_ref()?.root.as_ref()?))
        .or_else(|| chosen(case))
}

/// conda selects packages without CUDA if it does not detect a driver.
pub(super) fn conda_build_no_gpu(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(conda) = &case.signs.cuda_build.conda else { return Vec::new() };
    if case.facts.platform.os == Os::Macos
        || has_driver_library(case)
        || case.env.get("CONDA_OVERRIDE_CUDA").is_some()
    {
        return Vec::new();
    }
    let Some(copy) = chosen(case) else { return Vec::new() };
    let is_build = case.facts.container.is_some() || case.env.get("CI").is_some();
    let absent = case.matrix.verdict(Backend::Cuda).hardware != Presence::Present;
    let version = copy.version().map_or_else(|| "12".to_owned(), Version::release);
    let draft = FindingDraft::new(id!("conda.build-no-gpu"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", version)
        .evidence(Evidence::file(conda.as_str(), "present"))
        .evidence(Evidence::file("libcuda.so.1", "absent"))
        .evidence(Evidence::env("CONDA_OVERRIDE_CUDA", "unset"));
    // An image or CI job with a toolkit builds for CUDA, which conda cannot detect.
    vec![if is_build && absent { draft.severity(Severity::Warning) } else { draft }]
}

/// `uv --torch-backend=auto` selects PyTorch for the processor if it cannot read the driver's version.
pub(super) fn uv_auto_wrong(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let signs = &case.signs.cuda_build;
    let Some(uv) = case.inventory.chosen("uv") else { return Vec::new() };
    let is_auto = case.env.get("UV_TORCH_BACKEND").is_none_or(|value| value == "auto");
    let is_set = case.env.get("UV_CUDA_DRIVER_VERSION").is_some() || !is_auto;
    let verdict = case.matrix.verdict(Backend::Cuda);
    if case.facts.platform.os != Os::Linux
        || is_set
        || signs.driver_files
        || verdict.hardware != Presence::Present
    {
        return Vec::new();
    }
    let several = signs.nvidia_smi_lines.is_some_and(|lines| lines > 1) && !reads_several_lines(uv);
    if signs.nvidia_smi.is_some() && !several {
        return Vec::new();
    }
    let mut draft = FindingDraft::new(id!("uv.auto-wrong"))
        .backend(Backend::Cuda)
        .affects(Affects::Run)
        .evidence(Evidence::file(uv.part("program").unwrap_or(&uv.root).as_str(), release(uv)))
        .evidence(Evidence::file("/sys/module/nvidia/version", "absent"))
        .evidence(Evidence::file("/proc/driver/nvidia/version", "absent"));
    if let Some(driver) = &verdict.driver {
        draft = draft.value("driver", driver.to_string());
    }
    if let Some(index) = known_to_driver(case).and_then(|newest| index(&newest)) {
        draft = draft.value("index", index);
    }
    if several {
        let smi = signs.nvidia_smi.as_ref().map(ToString::to_string).unwrap_or_default();
        return vec![draft.case("lines").evidence(Evidence::file(smi, "one line per GPU"))];
    }
    if let Some(smi) = &signs.nvidia_smi_elsewhere {
        let folder = smi.parent().map(|folder| folder.to_string()).unwrap_or_default();
        draft = draft.value("folder", folder).evidence(Evidence::file(smi.as_str(), "present, not on PATH"));
    }
    vec![draft.evidence(Evidence::env("PATH", "no nvidia-smi"))]
}

/// Whether this uv accepts several lines of `nvidia-smi`: since 0.8.14 (astral-sh/uv#15460).
fn reads_several_lines(uv: &Installation) -> bool {
    let fixed_in: Option<Version> = "0.8.14".parse().ok();
    uv.version().zip(fixed_in).is_none_or(|(version, fixed_in)| *version >= fixed_in)
}

/// The CUDA releases that PyTorch has an index for, newest first.
const INDEXES: [&str; 8] = ["13.2", "13.0", "12.9", "12.8", "12.6", "12.4", "12.1", "11.8"];

/// PyTorch's newest index up to a release.
fn index(newest: &Version) -> Option<String> {
    let best = INDEXES.iter().find(|text| text.parse::<Version>().is_ok_and(|version| version <= *newest))?;
    Some(format!("cu{}", best.replace('.', "")))
}

/// PyTorch's index for a toolkit: of the same major release, which PyTorch requires.
fn index_of_toolkit(release: &Version) -> Option<String> {
    let of_major =
        |text: &&&str| text.parse::<Version>().is_ok_and(|version| version.major() == release.major());
    let up_to = |text: &&&str| text.parse::<Version>().is_ok_and(|version| version <= *release);
    let mut list = INDEXES.iter().filter(of_major);
    let best = list.clone().find(up_to).or_else(|| list.next_back())?;
    Some(format!("cu{}", best.replace('.', "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::finding::{FindingKind, Findings};

    #[test]
    fn only_existing_indexes_are_suggested() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        for (release, driver, toolkit) in [
            ("12.2", "cu121", Some("cu121")),
            ("11.4", "", Some("cu118")),
            ("13.4", "cu132", Some("cu132")),
            ("10.2", "", None),
        ] {
            assert_eq!(index(&version(release)).unwrap_or_default(), driver, "{release}");
            assert_eq!(index_of_toolkit(&version(release)).as_deref(), toolkit, "{release}");
        }
    }

    #[test]
    fn mismatches_that_affect_only_some_builds_are_cautions() {
        let findings = Findings::embedded();
        for id in ["cuda.torch-mismatch", "conda.build-no-gpu", "uv.auto-wrong"] {
            assert_eq!(findings.get(id).unwrap().kind, FindingKind::Caution, "{id}");
        }
    }
}
