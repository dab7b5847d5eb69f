//! Architectures: compares what GPUs and variables request with what the toolkit supports.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::arch::torch::parse_torch_entry;
use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Gpu;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, FindingKind, Severity};
use gpubuild_detect::id;
use gpubuild_detect::matrix::Presence;
use gpubuild_detect::toolkit::Installation;
use gpubuild_detect::toolkit::range::{ArchSupport, CudaRange};
use gpubuild_plan::project::Archs;
use gpubuild_plan::project::profile::Profile;

use crate::DiagnosisCase;
use crate::advice::AdviceQuery;
use crate::checks::cuda_toolkit::{chosen, evidence, release, with_toolkit};

/// Variables with a list of architectures.
const VARIABLES: [&str; 3] = ["CUDAARCHS", "CUDA_COMPUTE_CAP", TORCH];
const TORCH: &str = "TORCH_CUDA_ARCH_LIST";
/// Variables with options for CMake.
const CMAKE_OPTIONS: [&str; 3] = ["CMAKE_ARGS", "CMAKE_FLAGS", "SKBUILD_CMAKE_ARGS"];

/// Name of the project file.
const PROJECT: &str = "gpubuild.toml";

/// The chosen copy with the architectures that it supports, which the planner uses too.
struct ArchRange<'a> {
    copy: &'a Installation,
    archs: CudaRange,
}

fn range<'a>(case: &DiagnosisCase<'a>) -> Option<ArchRange<'a>> {
    let copy = chosen(case)?;
    Some(ArchRange { copy, archs: case.catalogue.get("cuda")?.cuda_range(copy) })
}

fn number(arch: &str) -> Option<u16> {
    arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// A requested architecture: of a GPU in this machine, or from a list in a variable or the project file.
struct WantedArch {
    number: u16,
    /// The source, for messages: the name of the GPU, or `CUDAARCHS=120`.
    by: String,
    evidence: Vec<Evidence>,
    is_gpu: bool,
}

fn wanted(case: &DiagnosisCase<'_>) -> Vec<WantedArch> {
    let devices = &case.matrix.verdict(Backend::Cuda).devices;
    let drivers = case.catalogue.get("cuda").map(|description| &description.hardware);
    let on_vendors_driver = |gpu: &&Gpu| {
        let bound = gpu.kernel_driver.as_ref();
        bound.is_some_and(|bound| drivers.is_some_and(|rules| rules.kernel_drivers.contains(bound)))
    };
    // If another GPU uses NVIDIA's driver, a GPU with a different driver is not meant for CUDA.
    let some_compute = devices.iter().any(|gpu| on_vendors_driver(&gpu));
    let is_relevant = |gpu: &&Gpu| !some_compute || gpu.kernel_driver.is_none() || on_vendors_driver(gpu);
    let gpus = devices.iter().filter(is_relevant).filter_map(|gpu| {
        let number = number(gpu.arch.as_deref()?)?;
        Some(WantedArch {
            number,
            by: gpu.name.clone(),
            evidence: gpu.evidence.iter().take(1).cloned().collect(),
            is_gpu: true,
        })
    });
    let named = VARIABLES.iter().filter_map(|name| Some((*name, case.env.get(name)?.to_owned())));
    let options = CMAKE_OPTIONS.iter().filter_map(|name| Some((*name, option(case.env.get(name)?)?)));
    let named = named.chain(options).flat_map(|(name, list)| {
        let entries = list.split([';', ',', ' ']).filter(|entry| !entry.is_empty()).map(str::to_owned);
        entries
            .flat_map(|entry| {
                let archs = if name == TORCH {
                    parse_torch_entry(&entry)
                } else {
                    entry.parse().ok().map(|arch| vec![arch])
                };
                archs.unwrap_or_default().into_iter().map(move |arch: CudaArch| WantedArch {
                    number: arch.number,
                    by: format!("{name}={entry}"),
                    evidence: vec![Evidence::env(name, &entry)],
                    is_gpu: false,
                })
            })
            .collect::<Vec<_>>()
    });
    let own = project_archs(case).into_iter().flat_map(|text| {
        let archs: Vec<CudaArch> = text.split(';').filter_map(|entry| entry.parse().ok()).collect();
        archs.into_iter().map(|arch| WantedArch {
            number: arch.number,
            by: format!("archs = {arch}"),
            evidence: vec![Evidence::file("gpubuild.toml", arch.to_string())],
            is_gpu: false,
        })
    });
    gpus.chain(named).chain(own).collect()
}

/// The architectures that the project file selects, as one list.
fn project_archs(case: &DiagnosisCase<'_>) -> Option<String> {
    Some(match case.project?.backends.get(&Backend::Cuda)?.archs.as_ref()? {
        Archs::Keyword(keyword) => keyword.clone(),
        Archs::List(list) => list.join(";"),
    })
}

/// The value of `CMAKE_CUDA_ARCHITECTURES` in options for CMake.
fn option(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("CMAKE_CUDA_ARCHITECTURES")?;
    let (_, value) = rest.split_once('=')?;
    let value = value.trim_start_matches(['"', '\'']);
    Some(value.split([' ', '"', '\'']).next().unwrap_or_default().to_owned())
}

/// GPUs or lists that are newer than the toolkit.
pub(super) fn too_new(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(range) = range(case) else { return Vec::new() };
    let Some(highest) = range.archs.numbers.last().copied() else { return Vec::new() };
    let wanted = wanted(case);
    let all = range.with_state(&wanted, ArchSupport::TooNew);
    let (renamed, outside): (Vec<&WantedArch>, Vec<&WantedArch>) =
        all.into_iter().partition(|one| range.other_name(one).is_some());
    if let (true, Some(first)) = (outside.is_empty(), renamed.first()) {
        let draft = unsupported_draft(id!("cuda.arch.too-new-for-toolkit"), &range, &wanted, &renamed);
        let other = range.other_name(first).unwrap_or_default();
        return draft.map(|draft| draft.case("renamed").value("other", other)).into_iter().collect();
    }
    let newest = outside.iter().map(|one| one.number).max();
    let draft = unsupported_draft(id!("cuda.arch.too-new-for-toolkit"), &range, &wanted, &outside);
    let query = AdviceQuery { archs: newest.into_iter().collect(), ..AdviceQuery::default() };
    draft
        .map(|draft| with_toolkit(case, draft.value("highest", highest.to_string()), &query))
        .into_iter()
        .collect()
}

impl ArchRange<'_> {
    /// The architectures with this state. GPUs that the toolkit supports under another number are left out.
    fn with_state<'w>(&self, wanted: &'w [WantedArch], support: ArchSupport) -> Vec<&'w WantedArch> {
        let is_one = |one: &&WantedArch| {
            self.archs.support(one.number) == support && !(one.is_gpu && self.other_name(one).is_some())
        };
        wanted.iter().filter(is_one).collect()
    }

    /// The number that the toolkit has for this architecture, if it is another one.
    fn other_name(&self, wanted: &WantedArch) -> Option<String> {
        self.archs.other_name(&CudaArch::new(wanted.number)).map(|other| other.number.to_string())
    }
}

/// GPUs or lists that are beyond the table, so that it is unknown whether the toolkit supports them.
pub(super) fn not_in_table(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(range) = range(case) else { return Vec::new() };
    let wanted = wanted(case);
    let outside = range.with_state(&wanted, ArchSupport::Unknown);
    let draft = arch_draft(id!("cuda.arch.not-in-table"), &range, &outside);
    let draft = draft.map(|draft| match outside.iter().find(|one| !one.is_gpu) {
        Some(named) => draft.severity(Severity::Warning).case("named").value("list", named.by.clone()),
        // A GPU gets PTX of the newest known architecture, which is not a fault.
        None => draft.severity(Severity::Info),
    });
    draft.into_iter().collect()
}

/// GPUs or lists that the toolkit no longer supports.
pub(super) fn dropped(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let Some(range) = range(case) else { return Vec::new() };
    let Some(lowest) = range.archs.numbers.first().copied() else { return Vec::new() };
    let wanted = wanted(case);
    let outside = range.with_state(&wanted, ArchSupport::Dropped);
    let draft = unsupported_draft(id!("cuda.arch.dropped-by-toolkit"), &range, &wanted, &outside);
    let below = case.catalogue.get("cuda").and_then(|description| {
        let oldest = outside.iter().map(|one| one.number).min()?.to_string();
        let rows = &description.compatibility.arch;
        let last = rows.iter().rposition(|row| row.archs.contains(&oldest))?;
        rows.get(last + 1).map(|row| row.since.clone())
    });
    let query = AdviceQuery {
        below: below.clone(),
        archs: outside.iter().map(|one| one.number).collect(),
        ..AdviceQuery::default()
    };
    draft
        .map(|draft| {
            let draft = draft.value("oldest", format!("sm_{lowest}"));
            let draft = match below {
                Some(below) => draft.value("below", below.to_string()),
                None => draft,
            };
            with_toolkit(case, draft, &query)
        })
        .into_iter()
        .collect()
}

/// The draft that all findings about architectures have in common.
fn arch_draft(id: DiagnosticId, range: &ArchRange<'_>, outside: &[&WantedArch]) -> Option<FindingDraft> {
    let first = outside.first()?;
    let archs: Vec<String> = outside.iter().map(|one| format!("sm_{}", one.number)).collect();
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .value("version", release(range.copy))
        .value("arch", archs.join(", "))
        .value("card", first.by.clone())
        .evidence(evidence(range.copy));
    for evidence in outside.iter().flat_map(|one| &one.evidence) {
        draft = draft.evidence(evidence.clone());
    }
    if !range.copy.compiler_archs.is_empty() {
        let compiler = range.copy.part("compiler").unwrap_or(&range.copy.root);
        let list = range.copy.compiler_archs.join(" ");
        draft =
            draft.evidence(Evidence::new(EvidenceKind::Exec, format!("{compiler} --list-gpu-arch"), list));
    }
    Some(draft)
}

/// The draft for architectures that the toolkit does not support.
fn unsupported_draft(
    id: DiagnosticId,
    range: &ArchRange<'_>,
    wanted: &[WantedArch],
    outside: &[&WantedArch],
) -> Option<FindingDraft> {
    let draft = arch_draft(id, range, outside)?;
    if let Some(named) = outside.iter().find(|one| !one.is_gpu) {
        // An architecture in a list is built whatever GPU is present.
        return Some(draft.severity(Severity::Error).case("named").value("list", named.by.clone()));
    }
    let others = wanted.iter().filter(|one| one.is_gpu).count() > outside.len();
    Some(if others { draft.kind(FindingKind::Caution).case("some") } else { draft })
}

/// `native` is selected, but no GPU is available.
pub(super) fn native_no_gpu(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let verdict = case.matrix.verdict(Backend::Cuda);
    let profile = case.project.and_then(|project| Profile::builtin(&project.project.profile));
    let of_profile = profile.as_ref().and_then(|profile| profile.cuda_arch_list.as_deref());
    let named = of_profile.into_iter().chain(["CUDAARCHS", "CUDA_COMPUTE_CAP"]);
    let named = named.filter_map(|name| Some((name, case.env.get(name)?.to_owned())));
    let options = CMAKE_OPTIONS.iter().filter_map(|name| Some((*name, option(case.env.get(name)?)?)));
    let own = project_archs(case).map(|value| (PROJECT, value));
    let native =
        named.chain(options).chain(own).find(|(_, value)| value.trim().eq_ignore_ascii_case("native"));
    let Some((name, value)) = native else { return Vec::new() };
    if verdict.hardware == Presence::Present && verdict.run == gpubuild_detect::matrix::Readiness::Ready {
        return Vec::new();
    }
    let list = chosen(case).and_then(|copy| distribution(case, copy.version()));
    let mut draft = FindingDraft::new(id!("cuda.arch.native-no-gpu"))
        .backend(Backend::Cuda)
        .affects(Affects::Build)
        .severity(Severity::Error)
        .value("variable", name)
        .evidence(if name == PROJECT { Evidence::file(name, value) } else { Evidence::env(name, value) })
        .evidence(Evidence::file("/dev/nvidia0", "absent"));
    if let Some(list) = list {
        draft = draft.value("list", list);
    }
    vec![if name == PROJECT { draft.case("project") } else { draft }]
}

/// The default list for distribution of a release.
fn distribution(case: &DiagnosisCase<'_>, release: Option<&Version>) -> Option<String> {
    let rows = &case.catalogue.get("cuda")?.compatibility.distribution;
    let row = match release {
        Some(release) => rows.iter().rfind(|row| row.since <= *release)?,
        None => rows.last()?,
    };
    Some(row.archs.join(";"))
}

#[cfg(test)]
mod tests {
    use super::option;

    #[test]
    fn architectures_are_parsed_from_cmake_options() {
        for (text, expected) in [
            ("-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native", Some("native")),
            ("-DCMAKE_CUDA_ARCHITECTURES:STRING=\"80;90\" -G Ninja", Some("80;90")),
            ("-DGGML_CUDA=ON", None),
        ] {
            assert_eq!(option(text).as_deref(), expected, "{text}");
        }
    }
}
