//! The planner: computes a plan from verdicts, project and request, or a refusal with all reasons.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Readiness, Reason};
use gpubuild_detect::toolkit::Installation;
use gpubuild_detect::toolkit::range::CudaRange;
use gpubuild_detect::toolkit::rules::VersionWindow;
use gpubuild_host::{Environment, HostPath};

use super::jobs::jobs;
use super::provision::{PackagedToolkit, Provision};
use super::request::{BackendRequest, BackendSelection};
use super::tree;
use super::{Dropped, Fetch, Plan, PlannedBinary, PlannedEnvironment};
use crate::artifacts::ModuleLoader;
use crate::project::profile::{BackendRow, Conflict};
use crate::project::{Linkage, Project};

/// The inputs of the planner.
#[derive(Debug, Clone, Copy)]
pub struct PlanInputs<'a> {
    /// Facts about the host.
    pub facts: &'a Facts,
    /// Environment variables: `CC`, `CXX`, the variables that select architectures.
    pub env: &'a Environment,
    /// The verdicts about the host.
    pub matrix: &'a Matrix,
    /// The project to build.
    pub project: &'a Project,
    /// The requested backends.
    pub request: &'a BackendRequest,
    /// How a program links the project's libraries.
    pub linkage: Linkage,
    /// How to handle a requested backend that is blocked.
    pub missing: MissingBackend,
    /// The number of compilers that run in parallel; `None` uses the project's limit or the number of processor threads.
    pub jobs: Option<u32>,
    /// Usable toolkits by backend, the selected copy first.
    pub kits: &'a BTreeMap<Backend, Vec<BuildKit>>,
    /// Why a toolkit that the project's profile requires is missing.
    pub lacking: &'a BTreeMap<Backend, Reason>,
    /// Toolkits that packages of the distribution have and that `gpubuild toolkit install` unpacks.
    pub packaged: &'a BTreeMap<Backend, PackagedToolkit>,
    /// C and C++ compilers, the selected one first.
    pub compilers: &'a [HostCompiler],
    /// CMake and Ninja, installed or to be fetched.
    pub tools: &'a BuildTools,
    /// Toolkits that the build installs first. `kits` already contains them.
    pub provision: &'a [Provision],
    /// Rust's name of the platform to build for, if that is another one.
    pub target: Option<&'a str>,
    /// `--cuda-archs`.
    pub cuda_archs: Option<&'a str>,
    /// Whether to compile for the processor of this machine only.
    pub native: bool,
}

/// How to handle a requested backend that is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingBackend {
    /// Refuse the plan.
    Refuse,
    /// Drop it, with a warning.
    Allow,
}

/// A copy of a toolkit with the data from its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildKit {
    /// The copy.
    pub installation: Installation,
    /// Cache entries that make CMake use this copy.
    pub settings: BTreeMap<String, String>,
    /// The CUDA architectures that it supports.
    pub archs: CudaRange,
    /// CUDA architectures for distribution.
    pub default_cuda: Vec<CudaArch>,
    /// ROCm architectures for distribution.
    pub default_gfx: Vec<String>,
    /// Versions of host compilers that it supports, by family.
    pub host_compilers: BTreeMap<String, VersionWindow>,
}

/// A C and C++ compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCompiler {
    /// Compiler family: `gcc`, `clang`, `msvc`.
    pub family: String,
    /// Its version, if known.
    pub version: Option<Version>,
    /// The C compiler.
    pub c: Option<HostPath>,
    /// The C++ compiler.
    pub cxx: Option<HostPath>,
}

/// CMake and Ninja: installed, or to be fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildTools {
    /// Path of a CMake of a supported version.
    pub cmake: Option<HostPath>,
    /// Path of Ninja.
    pub ninja: Option<HostPath>,
    /// The tools to fetch.
    pub fetch: Vec<Fetch>,
}

/// Notes and warnings about a plan, one line each.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// Decisions of the planner that the user may want to know.
    pub(super) notes: Vec<String>,
    /// Possible problems.
    pub(super) warnings: Vec<String>,
}

/// A refused plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRefusal {
    /// Origin of the request: a flag, a variable or a file.
    pub origin: String,
    /// Reasons per backend, the root cause first.
    pub blocked: Vec<(Backend, Vec<Reason>)>,
    /// Reasons that concern the project as a whole.
    pub project: Vec<Reason>,
}

/// Computes the plan.
///
/// # Errors
/// A backend that was requested by name cannot be built and must not be dropped.
pub fn make(inputs: &PlanInputs<'_>) -> Result<Plan, PlanRefusal> {
    let mut option_notes = Vec::new();
    let refuse_project =
        |project| PlanRefusal { origin: inputs.request.origin.clone(), blocked: Vec::new(), project };
    let project = super::options::normalized(inputs.project, &mut option_notes).map_err(refuse_project)?;
    let inputs = &PlanInputs { project: &project, ..*inputs };
    refuse_native(inputs).map_err(refuse_project)?;
    let BackendChoice { mut backends, mut blocked, named } = choose(inputs);
    let refuse =
        |blocked| PlanRefusal { origin: inputs.request.origin.clone(), blocked, project: Vec::new() };
    // Report requested backends before those that belong to every build.
    blocked.sort_indirect_by_key(|(backend, _)| (!named.contains(backend), *backend));
    if !blocked.is_empty() && !named.is_empty() && inputs.missing == MissingBackend::Refuse {
        return Err(refuse(blocked));
    }
    let mut dropped = blocked;
    backends.sort_indirect();
    let mut remarks = Remarks::default();
    let jobs = jobs(inputs);
    let extra = super::extra::planned(inputs, &backends).map_err(refuse_project)?;
    let ids: Vec<String> = extra.iter().map(|extra| extra.id.clone()).collect();
    let trees = loop {
        match tree::group(inputs, &backends, &ids, &named, &jobs, &mut remarks) {
            Ok(trees) => break trees,
            // Architecture lists and version requirements are checked only after a toolkit is selected.
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
    super::folders::refuse(inputs, &trees).map_err(refuse_project)?;
    dropped.sort_indirect_by_key(|(backend, _)| *backend);
    remarks.notes.extend(option_notes);
    let needed = |one: &&Provision| backends.contains(&one.backend);
    let provision: Vec<Provision> = inputs.provision.iter().filter(needed).cloned().collect();
    Ok(Plan {
        origin: inputs.request.origin.clone(),
        binary: binary(inputs, &backends),
        backends,
        linkage: inputs.linkage,
        loader: loader(inputs),
        target: None,
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
        environment: environment(inputs.project),
        notes: remarks.notes,
        warnings: remarks.warnings,
    })
}

/// The environment of `[python]`.
fn environment(project: &Project) -> Option<PlannedEnvironment> {
    let venv = project.file.python.as_ref()?.venv.as_ref()?;
    Some(PlannedEnvironment { path: project.root.join(venv).normalized().to_string() })
}

fn binary(inputs: &PlanInputs<'_>, backends: &[Backend]) -> Option<PlannedBinary> {
    let table = inputs.project.file.binary.as_ref()?;
    Some(PlannedBinary {
        package: inputs.project.root.join(&table.package),
        profile: table.profile.clone().unwrap_or_else(|| "release".to_owned()),
        // With `auto`, the program's default features apply.
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

/// Selects the backends to build, and collects the reasons why others are blocked.
fn choose(inputs: &PlanInputs<'_>) -> BackendChoice {
    let profile = &inputs.project.profile;
    let (mut candidates, named) = match &inputs.request.selection {
        BackendSelection::Named(list) => (list.clone(), list.iter().copied().collect()),
        BackendSelection::Auto => (auto_candidates(inputs), BTreeSet::new()),
    };
    candidates.extend(
        profile.always.iter().copied().filter(|backend| !candidates.contains(backend)).collect::<Vec<_>>(),
    );
    candidates.sort_indirect();
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

/// Candidates for `auto`: `cpu`, backends that are ready, and backends with hardware, so that the plan reports why they are
/// not built. Backends that need no toolkit are candidates only if the hardware can run them.
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
                format!("gpubuild.toml does not say how to enable {backend} in this project"),
            )
            .hint(format!("add `[backends.{backend}]` with its `options`")),
        ];
    }
    let reason = missing_in_version(inputs, backend)
        .or_else(|| too_old(inputs, backend))
        .or_else(|| component_missing(inputs, backend));
    if let Some(reason) = reason {
        return vec![reason];
    }
    let verdict = inputs.matrix.verdict(backend);
    // The plan has its own request for architectures, of which a variable is only one source.
    let own = |reason: &&Reason| !gpubuild_detect::matrix::is_of_architectures(reason);
    if row(inputs, backend).is_some_and(|row| row.toolkit.is_some()) {
        return verdict
            .reasons_beside_toolkit()
            .filter(own)
            .chain(inputs.lacking.get(&backend))
            .cloned()
            .collect();
    }
    match verdict.build {
        Readiness::Blocked if is_self_contained(inputs, backend) => {
            verdict.reasons_beside_toolkit().filter(own).cloned().collect()
        }
        Readiness::Blocked => {
            let reasons = verdict.build_reasons.iter().filter(own).cloned();
            reasons.map(|reason| for_project(inputs, backend, reason)).collect()
        }
        _ => Vec::new(),
    }
}

/// Completes the command that installs a missing toolkit: with the release and the components that the project needs.
fn for_project(inputs: &PlanInputs<'_>, backend: Backend, mut reason: Reason) -> Reason {
    let package = inputs.project.built_with.iter().find(|package| package.backend == backend);
    // The distribution has another release.
    if let Some(package) = package.filter(|_| reason.id == "rocm.toolkit.missing") {
        reason.hint = Some(package.hint());
        return reason;
    }
    let install = format!("gpubuild toolkit install {backend}");
    let Some(rest) = reason.hint.as_deref().and_then(|hint| hint.strip_prefix(&install)) else {
        return reason;
    };
    if !rest.is_empty() && !rest.starts_with(" (") {
        return reason;
    }
    if let Some(hint) = old_packages(inputs, backend) {
        reason.hint = Some(hint);
        return reason;
    }
    let release = package.map(|package| format!("@{}", package.requirement())).unwrap_or_default();
    let offered = inputs.packaged.get(&backend).map(|packaged| &packaged.components);
    let is_offered = |id: &&str| offered.is_none_or(|offered| offered.iter().any(|one| one == id));
    let components = row(inputs, backend).map(|row| row.components.as_slice()).unwrap_or_default();
    let components = components.iter().map(String::as_str).filter(is_offered).collect::<Vec<_>>().join(",");
    let with = if components.is_empty() { components } else { format!(" --with {components}") };
    reason.hint = Some(format!("{install}{release}{with}{rest}"));
    reason
}

/// What to do if the packages of the distribution have an older release than the project requires.
fn old_packages(inputs: &PlanInputs<'_>, backend: Backend) -> Option<String> {
    let minimum = row(inputs, backend)?.minimum.as_ref()?;
    let release = inputs.packaged.get(&backend)?.release.as_ref().filter(|release| *release < minimum)?;
    let name = &inputs.project.profile.name;
    Some(format!(
        "install {backend} {minimum} or newer from its vendor: {name} requires it, and the packages of this distribution have {release}"
    ))
}

/// The reason if the project's CMake scripts do not declare the backend's option.
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
        .hint(format!("use a version that supports {backend}, or remove {backend} from the request")),
    )
}

/// The reason if every copy of the toolkit is older than the project requires.
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

/// The reason if every copy of the toolkit lacks a part that the project links.
fn component_missing(inputs: &PlanInputs<'_>, backend: Backend) -> Option<Reason> {
    let new_enough =
        inputs.kits.get(&backend)?.iter().filter(|kit| tree::is_new_enough(inputs, backend, kit));
    let reasons: Option<Vec<Reason>> =
        new_enough.map(|kit| tree::lacking_components(inputs, backend, kit)).collect();
    reasons?.into_iter().next()
}

/// Refuses `native` if the profile has no option for it.
fn refuse_native(inputs: &PlanInputs<'_>) -> Result<(), Vec<Reason>> {
    let profile = &inputs.project.profile;
    if !inputs.native || profile.native.is_some() {
        return Ok(());
    }
    Err(vec![
        Reason::new(
            id!("project.native-unknown"),
            format!("the profile `{}` has no option to compile for this processor only", profile.id),
        )
        .hint("set the project's own option, or `CMAKE_C_FLAGS` and `CMAKE_CXX_FLAGS`, under `options`"),
    ])
}

/// Whether the project builds a backend without its toolkit. If gpubuild.toml requires a toolkit version, the toolkit is
/// needed.
pub(super) fn is_self_contained(inputs: &PlanInputs<'_>, backend: Backend) -> bool {
    let asks = inputs.project.file.backends.get(&backend).is_some_and(|table| table.toolkit.is_some());
    !asks && row(inputs, backend).is_some_and(|row| row.self_contained)
}

/// The reason if a backend cannot be linked into one program with the selected ones. Modules are never linked together.
fn conflict(inputs: &PlanInputs<'_>, backend: Backend, selected: &[Backend]) -> Option<Reason> {
    if inputs.linkage == Linkage::Dynamic {
        return None;
    }
    let separately = format!("build them separately: `--backends {backend}`");
    let hint = match inputs.project.profile.modules {
        Some(_) => format!("build them as modules, `--linkage dynamic`, or {separately}"),
        None => separately,
    };
    if let Some(several) = several_toolkits(inputs, backend) {
        return Some(Reason::new(id!("plan.toolkits-conflict"), format!(
                "{backend} is built with the toolkits {several}: a program that links both has duplicate symbols"
            )).hint(match inputs.project.profile.modules {
                Some(_) => "build them as modules: `--linkage dynamic`".to_owned(),
                None => "set `toolkit` to one of them".to_owned(),
            }));
    }
    let (rule, other) = conflict_rule(inputs, backend, selected)?;
    Some(
        Reason::new(
            id!("plan.backends-conflict"),
            format!("{backend} and {other} cannot be linked into one program: {}", rule.reason),
        )
        .hint(hint),
    )
}

/// The toolkits of a backend as text, `12 and 13`, if the project builds it with several.
fn several_toolkits(inputs: &PlanInputs<'_>, backend: Backend) -> Option<String> {
    let table = inputs.project.file.backends.get(&backend)?;
    (table.toolkits.len() > 1).then(|| table.toolkits.join(" and "))
}

/// The rule that forbids linking a backend with one of the others.
pub(super) fn conflict_rule<'a>(
    inputs: &PlanInputs<'a>,
    backend: Backend,
    others: &[Backend],
) -> Option<(&'a Conflict, Backend)> {
    let os = inputs.facts.platform.os;
    inputs.project.profile.conflict.iter().find_map(|rule| {
        others.iter().find(|other| rule.holds(backend, **other, os)).map(|other| (rule, *other))
    })
}

/// The profile's entry for a backend.
fn row<'a>(inputs: &PlanInputs<'a>, backend: Backend) -> Option<&'a BackendRow> {
    inputs.project.profile.backends.get(&backend)
}
