//! Compares the releases and architectures of builds on this machine with what the driver can run.

use gpubuild_core::arch::torch::parse_torch_entry;
use gpubuild_core::arch::{CudaArch, CudaCode};
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Evidence, FindingDraft, Severity};
use gpubuild_detect::id;

use super::view::NvidiaView;
use crate::DiagnosisCase;

/// Variables that select the architectures of builds.
const LISTS: [&str; 3] = ["CUDAARCHS", "TORCH_CUDA_ARCH_LIST", "CUDA_COMPUTE_CAP"];

/// The driver supports only an older major release of CUDA than the toolkit's.
pub(super) fn too_old(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| too_old_draft(&view)).into_iter().collect()
}

fn too_old_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let cuda_error = view.cuda_error().filter(|cuda_error| matches!(cuda_error.code, Some(35 | 36)));
    let toolkit = view.toolkit().and_then(|copy| Some((copy.version()?, copy)));
    let cuda = view.driver_cuda();
    let by_files = view.reason(id!("nv.driver.too-old")).is_some();
    let compatible = view
        .signs
        .libraries
        .driver
        .as_ref()
        .is_some_and(|copy| gpubuild_detect::matrix::is_compatibility(&copy.path));
    let older = match (&toolkit, &cuda) {
        (Some((release, _)), Some((cuda, _))) => !runs_code_of(cuda, release),
        _ => false,
    };
    if cuda_error.is_none() && !by_files && (!older || compatible) {
        return None;
    }
    let mut draft = view.draft(id!("nv.driver.too-old"));
    let floor = toolkit.and_then(|(release, _)| {
        let floor = view.description()?.driver_floor(release, view.case.facts.platform.os)?;
        Some((release.release(), floor.to_string()))
    });
    let driver = view.driver_version().map(|version| version.to_string());
    let driver = driver.or_else(|| Some(format!("for CUDA {}", cuda.as_ref()?.0.release())));
    let driver = driver.unwrap_or_else(|| "on this machine".to_owned());
    draft = draft.value("driver", &driver);
    if let Some((release, floor)) = floor {
        draft = draft
            .value("version", &release)
            .value("floor", &floor)
            .summary(format!("driver {driver} is older than CUDA {release} needs ({floor})"));
    } else {
        draft = draft.summary("the driver is older than the CUDA release that programs were built with");
    }
    if let Some((release, copy)) = toolkit {
        draft = draft.evidence(Evidence::file(copy.root.as_str(), release.to_string()));
    }
    draft = view.kernel_version().into_iter().fold(draft, |draft, version| {
        draft.evidence(Evidence::file("/proc/driver/nvidia/version", version.to_string()))
    });
    draft = with_branch(view, draft, cuda.as_ref().map(|(cuda, _)| cuda));
    draft = cuda.into_iter().fold(draft, |draft, (_, evidence)| draft.evidence(evidence));
    Some(cuda_error.into_iter().fold(draft, |draft, cuda_error| draft.evidence(cuda_error.evidence)))
}

/// Whether a driver runs machine code that was built with a release: since CUDA 11 a driver of the same major release suffices
/// (docs.nvidia.com/deploy/cuda-compatibility).
fn runs_code_of(driver: &Version, release: &Version) -> bool {
    let is_newer = (driver.major(), driver.minor()) >= (release.major(), release.minor());
    is_newer || (driver.major() == release.major() && release.major() >= 11)
}

/// The newest long-lived branch of the driver, which supports Maxwell to Blackwell.
const LONG_LIVED: u64 = 580;

/// Adds the driver branch that the toolkit needs, the newest release for this driver, and an installed copy that it runs.
fn with_branch(view: &NvidiaView<'_>, mut draft: FindingDraft, cuda: Option<&Version>) -> FindingDraft {
    let toolkit = view.toolkit().and_then(|copy| copy.version());
    let floor =
        toolkit.and_then(|release| view.description()?.driver_floor(release, view.case.facts.platform.os));
    let number = |arch: &str| arch.trim_start_matches("sm_").parse::<u64>().ok();
    let archs: Vec<u64> = view.gpus.iter().filter_map(|gpu| number(gpu.arch.as_deref()?)).collect();
    let branch = floor.map_or(LONG_LIVED, |floor| floor.major().max(LONG_LIVED));
    // The 580 branch is the last one for cards before Turing.
    let is_legacy = archs.iter().any(|arch| (50..75).contains(arch));
    let can_update = archs.iter().all(|arch| *arch >= 50) && (!is_legacy || branch <= LONG_LIVED);
    if let Some(cuda) = cuda {
        draft = draft.value("driver_cuda", cuda.release());
    }
    let open = archs.iter().any(|arch| *arch >= 100);
    if can_update {
        draft = draft
            .value("need", branch.to_string())
            .value("package", format!("nvidia-driver-{branch}{}", if open { "-open" } else { "" }));
    }
    let own = view.toolkit().map(|copy| copy.root.key());
    let other =
        crate::checks::cuda_toolkit::recommended(view.case).filter(|copy| Some(copy.root.key()) != own);
    if let Some(other) = other {
        return draft
            .value("root", other.root.as_str())
            .value("bin", other.root.join("bin").as_str())
            .value("other", other.version().map(Version::release).unwrap_or_default())
            .evidence(Evidence::file(other.root.as_str(), "fits the driver"))
            .case("other-toolkit");
    }
    match (can_update, cuda) {
        (true, Some(_)) => draft,
        (true, None) => draft.case("branch"),
        (false, _) => draft.case("no-driver"),
    }
}

/// The toolkit's PTX is newer than the driver's compiler supports.
pub(super) fn ptx(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| ptx_draft(&view)).into_iter().collect()
}

fn ptx_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let cuda_error = view.cuda_error().filter(|cuda_error| cuda_error.code == Some(222));
    let cuda = view.driver_cuda();
    let toolkit = view.toolkit().and_then(|copy| Some((copy.version()?.clone(), copy.root.to_string())));
    let newer = match (&toolkit, &cuda) {
        (Some((release, _)), Some((cuda, _))) => {
            runs_code_of(cuda, release) && (release.major(), release.minor()) > (cuda.major(), cuda.minor())
        }
        _ => false,
    };
    if cuda_error.is_none() && !newer {
        return None;
    }
    let mut draft = view.draft(id!("nv.ptx.too-new"));
    let archs = view.archs().map(|archs| archs.join(", "));
    if let Some(archs) = archs {
        draft = draft.value("number", archs.trim_start_matches("sm_")).value("arch", archs);
    }
    if let Some((cuda, evidence)) = cuda {
        draft = draft.value("driver_cuda", cuda.release()).evidence(evidence);
    }
    if let Some((release, root)) = toolkit {
        draft = draft.value("version", release.release()).evidence(Evidence::file(root, release.to_string()));
    }
    if let Some(cuda_error) = cuda_error {
        return Some(draft.evidence(cuda_error.evidence));
    }
    // Machine code runs on every driver of the same major release, so this matters only if a build has only PTX.
    let list = list(view).filter(|list| list.covers(view) == TargetCover::Ptx);
    Some(match list {
        Some(list) => draft.value("variable", list.variable).evidence(list.evidence).case("list"),
        None => draft.severity(Severity::Info).case("possible"),
    })
}

/// A program contains nothing that the GPU can run.
pub(super) fn no_image(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| no_image_draft(&view)).into_iter().collect()
}

fn no_image_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let cuda_error = view.cuda_error().filter(|cuda_error| cuda_error.code == Some(209));
    let list = list(view).filter(|list| list.covers(view) == TargetCover::Nothing);
    let archs = view.archs().map(|archs| archs.join(", "));
    let mut draft = view.draft(id!("nv.no-kernel-image"));
    if let Some(archs) = archs {
        draft = draft.value("number", archs.trim_start_matches("sm_")).value("arch", archs);
    }
    match (cuda_error, list) {
        (Some(cuda_error), _) => Some(draft.evidence(cuda_error.evidence)),
        // CI jobs build for other machines.
        (None, Some(list)) if view.case.signs.container.ci.is_none() => Some(
            draft
                .value("variable", list.variable)
                .value("list", list.evidence.value.clone())
                .evidence(list.evidence)
                .severity(Severity::Warning)
                .case("list"),
        ),
        _ => None,
    }
}

/// Architectures that a variable selects.
struct TargetList {
    variable: &'static str,
    evidence: Evidence,
    wanted: Vec<CudaArch>,
}

/// What a list contains for a GPU.
#[derive(Debug, PartialEq, Eq)]
enum TargetCover {
    MachineCode,
    Ptx,
    Nothing,
}

fn list(view: &NvidiaView<'_>) -> Option<TargetList> {
    LISTS.iter().find_map(|variable| {
        let text = view.case.env.get(variable)?;
        Some(TargetList {
            variable,
            evidence: Evidence::env(*variable, text),
            wanted: parse(variable, text)?,
        })
    })
}

/// Parses a list; `None` if it contains a word whose meaning depends on something else: `native`, `all`.
fn parse(variable: &str, text: &str) -> Option<Vec<CudaArch>> {
    let entries = text.split([';', ' ', ',']).filter(|entry| !entry.is_empty());
    let lists: Option<Vec<Vec<CudaArch>>> = entries.map(|entry| one(variable, entry)).collect();
    lists.map(|lists| lists.concat()).filter(|list| !list.is_empty())
}

fn one(variable: &str, entry: &str) -> Option<Vec<CudaArch>> {
    match variable {
        "TORCH_CUDA_ARCH_LIST" => parse_torch_entry(entry),
        // `bindgen_cuda` compiles PTX for this architecture.
        "CUDA_COMPUTE_CAP" => Some(vec![entry.parse::<CudaArch>().ok()?.with_code(CudaCode::Virtual)]),
        _ => Some(vec![entry.parse().ok()?]),
    }
}

impl TargetList {
    /// What the list contains for the GPU that it covers best.
    fn covers(&self, view: &NvidiaView<'_>) -> TargetCover {
        let Some(archs) = view.archs() else { return TargetCover::MachineCode };
        let gpus: Vec<CudaArch> = archs.iter().filter_map(|arch| arch.parse().ok()).collect();
        let any = |test: &dyn Fn(&CudaArch, &CudaArch) -> bool| {
            gpus.iter().any(|gpu| self.wanted.iter().any(|wanted| test(wanted, gpu)))
        };
        if any(&|wanted, gpu| wanted.code != CudaCode::Virtual && wanted.runs_on(gpu)) {
            TargetCover::MachineCode
        } else if any(&|wanted, gpu| wanted.code != CudaCode::Real && wanted.translates_for(gpu)) {
            TargetCover::Ptx
        } else {
            TargetCover::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(variable: &str, text: &str) -> Option<String> {
        let archs = parse(variable, text)?.into_iter().map(|arch| format!("{arch}"));
        Some(archs.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn architecture_lists_are_parsed() {
        for (variable, text, expected) in [
            ("CUDAARCHS", "80;90-real", Some("80 90-real")),
            ("CUDAARCHS", "75-virtual", Some("75-virtual")),
            ("CUDAARCHS", "native", None),
            ("CUDAARCHS", "all-major", None),
            ("TORCH_CUDA_ARCH_LIST", "8.0 8.6+PTX", Some("80-real 86")),
            ("TORCH_CUDA_ARCH_LIST", "Ampere", Some("80-real 86")),
            ("TORCH_CUDA_ARCH_LIST", "native", None),
            ("CUDA_COMPUTE_CAP", "89", Some("89-virtual")),
            ("CUDAARCHS", "", None),
        ] {
            assert_eq!(shown(variable, text).as_deref(), expected, "{variable}={text}");
        }
    }

    #[test]
    fn machine_code_runs_within_a_major_version() {
        let runs = |code: &str, gpu: &str| code.parse::<CudaArch>().unwrap().runs_on(&gpu.parse().unwrap());
        assert!(runs("80", "86") && runs("86", "86") && !runs("86", "80") && !runs("80", "90"));
        assert!(runs("120", "121") && !runs("100", "120") && !runs("90a", "91"));
        let ptx =
            |code: &str, gpu: &str| code.parse::<CudaArch>().unwrap().translates_for(&gpu.parse().unwrap());
        assert!(ptx("80", "120") && !ptx("90", "86") && !ptx("90a", "120"));
    }
}
