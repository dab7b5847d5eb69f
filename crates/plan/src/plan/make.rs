//! The planner: verdicts x project x request -> plan, or a refusal with every reason.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Readiness, Reason};
use gpubuild_detect::toolkit::Installation;
use gpubuild_detect::toolkit::range::CudaRange;
use gpubuild_detect::toolkit::rules::VersionWindow;
use gpubuild_host::{Environment, HostPath};

use super::provision::Provision;
use super::request::{BackendRequest, BackendSelection};
use super::tree;
use super::{Dropped, Fetch, Jobs, Plan, PlannedBinary};
use crate::artifacts::ModuleLoader;
use crate::project::Linkage;
use crate::project::Project;
use crate::project::profile::{BackendRow, Conflict};

/// Everything that a plan follows from.
#[derive(Debug, Clone, Copy)]
pub struct PlanInputs<'a> {
    /// The host.
    pub facts: &'a Facts,
    /// Its environment: architecture variables, `CC`, `CXX`.
    pub env: &'a Environment,
    /// The verdicts on it.
    pub matrix: &'a Matrix,
    /// What is built.
    pub project: &'a Project,
    /// For which backends.
    pub request: &'a BackendRequest,
    /// How its libraries come into a program.
    pub linkage: Linkage,
    /// What to do with a named backend that is blocked.
    pub missing: MissingBackend,
    /// Compilers at once; the project's limit or the processor's threads without it.
    pub jobs: Option<u32>,
    /// The toolkits that can be built with, by backend, the chosen copy first.
    pub kits: &'a BTreeMap<Backend, Vec<BuildKit>>,
    /// Why a toolkit that the project's profile names is not there.
    pub lacking: &'a BTreeMap<Backend, Reason>,
    /// C and C++ compilers, the chosen one first.
    pub compilers: &'a [HostCompiler],
    /// CMake and Ninja.
    pub tools: &'a BuildTools,
    /// Toolkits that are installed first, and that `kits` has already.
    pub provision: &'a [Provision],
    /// `--cuda-archs`.
    pub cuda_archs: Option<&'a str>,
    /// Whether code may be built that only runs on processors like this machine's.
    pub native: bool,
}

/// What to do with a named backend that is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingBackend {
    /// Refuse the plan.
    Refuse,
    /// Drop it, with a warning.
    Allow,
}

/// A copy of a toolkit with what its description says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildKit {
    /// The copy.
    pub installation: Installation,
    /// Cache entries that it sets.
    pub settings: BTreeMap<String, String>,
    /// What it compiles for.
    pub archs: CudaRange,
    /// The list for distribution, CUDA.
    pub default_cuda: Vec<CudaArch>,
    /// The list for distribution, ROCm.
    pub default_gfx: Vec<String>,
    /// Host compilers that it takes, by family.
    pub host_compilers: BTreeMap<String, VersionWindow>,
}

/// A C and C++ compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCompiler {
    /// `gcc`, `clang`, `msvc`.
    pub family: String,
    /// Its version, where known.
    pub version: Option<Version>,
    /// The C compiler.
    pub c: Option<HostPath>,
    /// The C++ compiler.
    pub cxx: Option<HostPath>,
}

/// CMake and Ninja: here, or to be fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildTools {
    /// Path of a CMake that is new enough.
    pub cmake: Option<HostPath>,
    /// Path of a Ninja.
    pub ninja: Option<HostPath>,
    /// What is to be fetched.
    pub fetch: Vec<Fetch>,
}

/// What there is to tell of a plan, each one line.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// What was decided for people.
    pub(super) notes: Vec<String>,
    /// What may go wrong.
    pub(super) warnings: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRefusal {
    /// Where the request came from.
    pub origin: String,
    /// Per backend, the root cause first.
    pub blocked: Vec<(Backend, Vec<Reason>)>,
    /// What stands in gpubuild.toml and concerns no one backend.
    pub project: Vec<Reason>,
}

/// Makes the plan.
///
/// # Errors
/// A backend that was asked for by name cannot be built, and may not be dropped.
pub fn make(inputs: &PlanInputs<'_>) -> Result<Plan, PlanRefusal> {
    let mut told = Vec::new();
    let refuse_project =
        |project| PlanRefusal { origin: inputs.request.origin.clone(), blocked: Vec::new(), project };
    let project = super::options::settled(inputs.project, &mut told).map_err(refuse_project)?;
    let inputs = &PlanInputs { project: &project, ..*inputs };
    refuse_native(inputs).map_err(refuse_project)?;
    let BackendChoice { mut backends, mut blocked, named } = choose(inputs);
    let refuse =
        |blocked| PlanRefusal { origin: inputs.request.origin.clone(), blocked, project: Vec::new() };
    // What was named is told before what belongs to every build.
    blocked.sort_by_key(|(backend, _)| (!named.contains(backend), *backend));
    if !blocked.is_empty() && !named.is_empty() && inputs.missing == MissingBackend::Refuse {
        return Err(refuse(blocked));
    }
    let mut dropped = blocked;
    backends.sort();
    let mut remarks = Remarks::default();
    let jobs = jobs(inputs);
    let extra = super::extra::planned(inputs, &backends).map_err(refuse_project)?;
    let ids: Vec<String> = extra.iter().map(|extra| extra.id.clone()).collect();
    let trees = loop {
        match tree::group(inputs, &backends, &ids, &named, &jobs, &mut remarks) {
            Ok(trees) => break trees,
            // An architecture list or a version requirement stops a backend only once its toolkit is settled.
            Err((backend, reasons)) => {
                if named.contains(&backend) && inputs.missing == MissingBackend::Refuse {
                    return Err(refuse(vec![(backend, reasons)]));
                }
                backends.retain(|kept| *kept != backend);
                dropped.push((backend, reasons));
                remarks = Remarks::default();
            }
        }
    };
    if backends.is_empty() {
        return Err(refuse(dropped));
    }
    dropped.sort_by_key(|(backend, _)| *backend);
    remarks.notes.extend(told);
    let needed = |one: &&Provision| backends.contains(&one.backend);
    let provision: Vec<Provision> = inputs.provision.iter().filter(needed).cloned().collect();
    Ok(Plan {
        origin: inputs.request.origin.clone(),
        binary: binary(inputs, &backends),
        backends,
        linkage: inputs.linkage,
        loader: loader(inputs),
        dropped: dropped
            .into_iter()
            .map(|(id, reasons)| Dropped { id, reasons: reasons.iter().map(Reason::line).collect() })
            .collect(),
        provision,
        fetch: inputs.tools.fetch.clone(),
        extra,
        copy: inputs.project.copy(),
        packages: Vec::new(),
        trees,
        with: inputs.project.with.clone(),
        notes: remarks.notes,
        warnings: remarks.warnings,
    })
}

fn binary(inputs: &PlanInputs<'_>, backends: &[Backend]) -> Option<PlannedBinary> {
    let table = inputs.project.file.binary.as_ref()?;
    Some(PlannedBinary {
        package: inputs.project.root.join(&table.package),
        profile: table.profile.clone().unwrap_or_else(|| "release".to_owned()),
        // What is built because it is there is nobody's wish: there the program's own features are one.
        features: match inputs.request.selection {
            BackendSelection::Named(_) => inputs.project.features.arguments(backends),
            BackendSelection::Auto => Vec::new(),
        },
    })
}

fn loader(inputs: &PlanInputs<'_>) -> Option<ModuleLoader> {
    let modules = inputs.project.profile.modules.as_ref().filter(|_| inputs.linkage == Linkage::Dynamic)?;
    Some(modules.loader.clone())
}

struct BackendChoice {
    backends: Vec<Backend>,
    blocked: Vec<(Backend, Vec<Reason>)>,
    named: BTreeSet<Backend>,
}

/// Which backends are built, which are not and why, and which of them were asked for by name.
fn choose(inputs: &PlanInputs<'_>) -> BackendChoice {
    let profile = &inputs.project.profile;
    let (mut candidates, named) = match &inputs.request.selection {
        BackendSelection::Named(list) => (list.clone(), list.iter().copied().collect()),
        BackendSelection::Auto => (auto_candidates(inputs), BTreeSet::new()),
    };
    candidates.extend(
        profile.always.iter().copied().filter(|backend| !candidates.contains(backend)).collect::<Vec<_>>(),
    );
    candidates.sort();
    let mut choice = BackendChoice { backends: Vec::new(), blocked: Vec::new(), named };
    for backend in candidates {
        let mut reasons = blocked_by(inputs, backend);
        if reasons.is_empty() {
            reasons.extend(conflict(inputs, backend, &choice.backends));
        }
        if reasons.is_empty() {
            choice.backends.push(backend);
        } else {
            choice.blocked.push((backend, reasons));
        }
    }
    choice
}

/// `cpu`, whatever is ready, and whatever has hardware here, so that the plan says why that one is not built. What needs no
/// toolkit could be built anywhere: it is where a card can run it.
fn auto_candidates(inputs: &PlanInputs<'_>) -> Vec<Backend> {
    use gpubuild_detect::matrix::Presence;
    inputs
        .matrix
        .verdicts
        .iter()
        .filter(|verdict| {
            let ready = inputs.matrix.recommended_build.contains(&verdict.backend);
            let own_hardware = verdict.hardware == Presence::Present
                && matches!(
                    verdict.backend,
                    Backend::Cuda | Backend::Rocm | Backend::Metal | Backend::Vulkan
                );
            let runs_as_it_is = is_self_contained(inputs, verdict.backend)
                && verdict.hardware == Presence::Present
                && verdict.run == Readiness::Ready;
            let unwanted = inputs.request.without.iter().any(|(backend, _)| *backend == verdict.backend);
            (ready || own_hardware || runs_as_it_is) && !unwanted
        })
        .map(|verdict| verdict.backend)
        .collect()
}

fn blocked_by(inputs: &PlanInputs<'_>, backend: Backend) -> Vec<Reason> {
    let project = inputs.project;
    if project.without_kernels.contains(&backend) {
        return vec![Reason::new(
            id!("project.backend-missing"),
            format!("{} has no {backend} kernels yet", project.profile.name),
        )];
    }
    if row(inputs, backend).is_none()
        && backend != Backend::Cpu
        && !project.file.backends.contains_key(&backend)
    {
        return vec![
            Reason::new(
                id!("project.backend-unknown"),
                format!("gpubuild.toml does not say how this project switches {backend} on"),
            )
            .hint(format!("add `[backends.{backend}]` with its `options`")),
        ];
    }
    if let Some(reason) = missing_in_version(inputs, backend).or_else(|| too_old(inputs, backend)) {
        return vec![reason];
    }
    let verdict = inputs.matrix.verdict(backend);
    if row(inputs, backend).is_some_and(|row| row.toolkit.is_some()) {
        return verdict.reasons_beside_toolkit().chain(inputs.lacking.get(&backend)).cloned().collect();
    }
    match verdict.build {
        Readiness::Blocked if is_self_contained(inputs, backend) => {
            verdict.reasons_beside_toolkit().cloned().collect()
        }
        Readiness::Blocked => verdict.build_reasons.clone(),
        _ => Vec::new(),
    }
}

/// Why this version of the project has no such backend, where its scripts show that.
fn missing_in_version(inputs: &PlanInputs<'_>, backend: Backend) -> Option<Reason> {
    let profile = &inputs.project.profile;
    let row = row(inputs, backend).filter(|_| backend != Backend::Cpu)?;
    if super::options::declares(profile, inputs.project, &row.option)? {
        return None;
    }
    Some(
        Reason::new(
            id!("project.backend-missing"),
            format!("this version of {} has no option `{}`", profile.name, row.option),
        )
        .hint(format!("take a version that can be built for {backend}, or leave it out")),
    )
}

/// Why no copy of the toolkit is new enough for the project.
fn too_old(inputs: &PlanInputs<'_>, backend: Backend) -> Option<Reason> {
    let minimum = row(inputs, backend)?.minimum.as_ref()?;
    let kits = inputs.kits.get(&backend).filter(|kits| !kits.is_empty())?;
    if kits.iter().any(|kit| tree::is_new_enough(inputs, backend, kit)) {
        return None;
    }
    let found = kits
        .iter()
        .filter_map(|kit| Some(format!("{} at {}", kit.installation.version()?, kit.installation.root)));
    Some(
        Reason::new(
            id!("toolkit.too-old-for-project"),
            format!(
                "{} needs {backend} toolkit {minimum} or newer, found {}",
                inputs.project.profile.name,
                found.collect::<Vec<_>>().join(", ")
            ),
        )
        .hint(format!("install {minimum} or newer; distributions often have older ones")),
    )
}

/// Refuses `native` where nothing would come of it.
fn refuse_native(inputs: &PlanInputs<'_>) -> Result<(), Vec<Reason>> {
    let profile = &inputs.project.profile;
    if !inputs.native || profile.native.is_some() {
        return Ok(());
    }
    Err(vec![
        Reason::new(
            id!("project.native-unknown"),
            format!("the profile `{}` has no option for code of this processor only", profile.id),
        )
        .hint("set the project's own option, or `CMAKE_C_FLAGS` and `CMAKE_CXX_FLAGS`, under `options`"),
    ])
}

/// Whether the project builds a backend without its toolkit. A version that it asks for in gpubuild.toml is one it needs.
pub(super) fn is_self_contained(inputs: &PlanInputs<'_>, backend: Backend) -> bool {
    let asks = inputs.project.file.backends.get(&backend).is_some_and(|table| table.toolkit.is_some());
    !asks && row(inputs, backend).is_some_and(|row| row.self_contained)
}

/// Why a backend does not go into one program with those that are taken. Modules never meet in a linker.
fn conflict(inputs: &PlanInputs<'_>, backend: Backend, taken: &[Backend]) -> Option<Reason> {
    if inputs.linkage == Linkage::Dynamic {
        return None;
    }
    let apart = format!("build them one after the other: `--backends {backend}`");
    let hint = match inputs.project.profile.modules {
        Some(_) => format!("both go into one program as modules: `--linkage dynamic`; or {apart}"),
        None => apart,
    };
    if let Some(several) = several_toolkits(inputs, backend) {
        return Some(Reason::new(id!("plan.toolkits-conflict"), format!(
                "{backend} with the toolkits {several}: a program that links both holds every symbol twice"
            )).hint(match inputs.project.profile.modules {
                Some(_) => "as modules they go together: `--linkage dynamic`".to_owned(),
                None => "name one of them as `toolkit`".to_owned(),
            }));
    }
    let (rule, other) = rule_against(inputs, backend, taken)?;
    Some(
        Reason::new(
            id!("plan.backends-conflict"),
            format!("{backend} and {other} do not go into one program: {}", rule.reason),
        )
        .hint(hint),
    )
}

/// `12 and 13`, where a project asks for several toolkits of one backend.
fn several_toolkits(inputs: &PlanInputs<'_>, backend: Backend) -> Option<String> {
    let table = inputs.project.file.backends.get(&backend)?;
    (table.toolkits.len() > 1).then(|| table.toolkits.join(" and "))
}

/// The rule that keeps a backend from being linked with one of the others.
pub(super) fn rule_against<'a>(
    inputs: &PlanInputs<'a>,
    backend: Backend,
    others: &[Backend],
) -> Option<(&'a Conflict, Backend)> {
    let os = inputs.facts.platform.os;
    inputs.project.profile.conflict.iter().find_map(|rule| {
        others.iter().find(|other| rule.holds(backend, **other, os)).map(|other| (rule, *other))
    })
}

/// The row of a backend in the project's profile.
fn row<'a>(inputs: &PlanInputs<'a>, backend: Backend) -> Option<&'a BackendRow> {
    inputs.project.profile.backends.get(&backend)
}

const DEFAULT_MEMORY_PER_DEVICE_JOB: u64 = 2 << 30;

/// How much runs at once: processor threads, and for device compilers what memory allows.
fn jobs(inputs: &PlanInputs<'_>) -> Jobs {
    let limits = &inputs.project.file.limits;
    let threads = inputs.facts.cpu.threads.unwrap_or(1).max(1);
    let total = inputs.jobs.or(limits.jobs).unwrap_or(threads).max(1);
    let each = limits
        .memory_per_cuda_job
        .as_deref()
        .or(inputs.project.profile.memory_per_device_job.as_deref())
        .and_then(super::bytes::parse)
        .unwrap_or(DEFAULT_MEMORY_PER_DEVICE_JOB)
        .max(1);
    let Some(available) = inputs.facts.memory.available_bytes else {
        return Jobs { total, device: total, reason: format!("{threads} processor threads; memory unknown") };
    };
    let fit = u32::try_from(available / each).unwrap_or(u32::MAX).max(1);
    let reason = format!(
        "{threads} processor threads; {} of memory available, {} per device compiler",
        super::bytes::show(available),
        super::bytes::show(each)
    );
    Jobs { total, device: total.min(fit), reason }
}
