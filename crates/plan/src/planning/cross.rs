//! Plans for other platforms: reduces a request to the backends that can be built for a target, and sets its compilers in a plan.

use gpubuild_core::Os;
use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Readiness, Reason};

use crate::plan::make::{MissingBackend, PlanRefusal};
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::plan::{Dropped, Fetch, Plan, PlannedTree, kits};
use crate::project::profile::Profile;
use crate::target::{self, CrossBuild, Target, TargetCompilers};

/// The pinned wheel of Zig, as a tool to fetch.
#[must_use]
pub fn zig_wheel() -> Fetch {
    Fetch { file: target::zig_in_wheels().clone(), ..kits::of_wheel(target::ZIG, target::zig_wheel()) }
}

/// Why a backend cannot be built for another target: the toolkits that were found are for the build machine. Only their compilers for
/// device code can be used.
fn reason_against(target: &Target, profile: &Profile, backend: Backend) -> Option<Reason> {
    let links_nothing = profile.backends.get(&backend).is_some_and(|row| row.opened_at_run_time);
    if links_nothing && matches!(target.os, Some(Os::Linux | Os::Windows)) {
        return None;
    }
    let why = match backend {
        Backend::Cuda => "only CUDA libraries for this machine were found",
        Backend::Rocm => "only ROCm libraries for this machine were found",
        Backend::Metal => "Metal needs Apple's compilers and SDK",
        Backend::Vulkan => "only a Vulkan loader for this machine was found",
        Backend::Sycl => "only SYCL libraries for this machine were found",
        Backend::Opencl => "only an OpenCL loader for this machine was found",
        Backend::Cpu => return None,
    };
    Some(
        Reason::new(
            id!("cross.backend-unsupported"),
            format!("{backend} can only be built for this machine, not for {}: {why}", target.triple),
        )
        .hint(match backend {
            Backend::Metal if target.os != Some(Os::Macos) => format!("leave {backend} out"),
            _ => format!("build on {}, or leave {backend} out", target.triple),
        }),
    )
}

/// The backends that a build for another platform leaves out, with the reasons: those that cannot be built for it and, unless backends are
/// named, all but the CPU backend, because the devices of that platform are unknown.
#[must_use]
pub fn left_out(target: &Target, profile: &Profile, selection: &BackendSelection) -> Vec<(Backend, Reason)> {
    let is_auto = matches!(selection, BackendSelection::Auto);
    let not_named = |backend: Backend| {
        let text = format!(
            "`auto` selects only cpu for {}; name {backend} in the backends to build it",
            target.triple
        );
        (is_auto && backend != Backend::Cpu).then(|| Reason::new(id!("cross.backend-unsupported"), text))
    };
    Backend::ALL
        .into_iter()
        .filter_map(|one| Some((one, reason_against(target, profile, one).or_else(|| not_named(one))?)))
        .collect()
}

/// Reduces a request to the backends that can be built for the target. Returns the named backends that are dropped.
///
/// # Errors
/// A backend was requested by name, and must not be dropped.
pub fn restrict(
    request: &mut BackendRequest,
    target: &Target,
    profile: &Profile,
    missing: MissingBackend,
) -> Result<Vec<Dropped>, PlanRefusal> {
    let against = left_out(target, profile, &request.selection);
    request.without.extend(against.iter().map(|(backend, reason)| (*backend, reason.line())));
    let BackendSelection::Named(list) = &mut request.selection else { return Ok(Vec::new()) };
    let blocked: Vec<(Backend, Vec<Reason>)> = against
        .into_iter()
        .filter(|(backend, _)| list.contains(backend))
        .map(|(backend, reason)| (backend, vec![reason]))
        .collect();
    list.retain(|backend| blocked.iter().all(|(blocked, _)| blocked != backend));
    if !blocked.is_empty() && (missing == MissingBackend::Refuse || list.is_empty()) {
        return Err(PlanRefusal { origin: request.origin.clone(), blocked, project: Vec::new() });
    }
    let dropped = |(id, reasons): (Backend, Vec<Reason>)| Dropped {
        id,
        reasons: reasons.iter().map(Reason::line).collect(),
    };
    Ok(blocked.into_iter().map(dropped).collect())
}

/// Adapts the matrix to another platform. The CPU backend is ready to build: the compilers of this machine, which may be missing, are not
/// used. Devices of this machine do not select architectures.
pub fn adapt(matrix: &mut Matrix) {
    matrix.verdicts.iter_mut().for_each(|verdict| verdict.devices.clear());
    for verdict in matrix.verdicts.iter_mut().filter(|verdict| verdict.backend == Backend::Cpu) {
        verdict.build = Readiness::Ready;
        verdict.build_reasons.clear();
    }
    if !matrix.recommended_build.contains(&Backend::Cpu) {
        matrix.recommended_build.insert(0, Backend::Cpu);
    }
}

/// Replaces the compilers of this machine in a plan with those of the target.
pub fn apply(cross: &CrossBuild, plan: &mut Plan) {
    plan.target = cross.planned();
    if cross.compilers == TargetCompilers::Zig {
        plan.fetch.push(zig_wheel());
    }
    plan.trees.iter_mut().for_each(|tree| apply_to(cross, tree));
}

fn apply_to(cross: &CrossBuild, tree: &mut PlannedTree) {
    tree.target = cross.planned();
    tree.cache.remove("CMAKE_C_COMPILER");
    tree.cache.remove("CMAKE_CXX_COMPILER");
    // Entries of gpubuild.toml have precedence over those of the target.
    for (name, value) in &cross.entries {
        tree.cache.entry(name.clone()).or_insert_with(|| value.clone());
    }
}
