//! Plans for other platforms: reduces a request to the backends that can be built for a target, and sets its compilers in a plan.

use gpubuild_core::Os;
use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Readiness, Reason};
use gpubuild_detect::toolkit::{self, Catalogue, Description, Inventory};
use gpubuild_host::InspectHost;

use crate::machine::MachineState;
use crate::offer::for_target;
use crate::plan::make::{MissingBackend, PlanRefusal};
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::plan::{Dropped, Fetch, Plan, PlannedTree, kits};
use crate::project::profile::Profile;
use crate::target::{self, CrossBuild, NamedHostCompiler, Target, TargetCompilers};

/// The entry with nvcc's host compiler.
const CUDA_HOST_COMPILER: &str = "CMAKE_CUDA_HOST_COMPILER";
/// The entries with the folders below which CMake searches, and with those of packages.
const ROOTS: &str = "CMAKE_FIND_ROOT_PATH";
const PREFIXES: &str = "CMAKE_PREFIX_PATH";

/// The pinned wheel of Zig, as a tool to fetch.
#[must_use]
pub fn zig_wheel() -> Fetch {
    Fetch { file: target::zig_in_wheels().clone(), ..kits::of_wheel(target::ZIG, target::zig_wheel()) }
}

/// Whether a request names a backend whose toolkit needs GCC for the target. GCC builds for the C library that it came with, so it is not used
/// for a target with an older one.
#[must_use]
pub fn needs_gcc(
    catalogue: &Catalogue,
    profile: &Profile,
    target: &Target,
    selection: &BackendSelection,
) -> bool {
    let BackendSelection::Named(list) = selection else { return false };
    let needs = |backend: &Backend| {
        for_target::toolkit(catalogue, profile, target, *backend).is_some_and(for_target::needs_gcc)
    };
    target.glibc.is_none() && list.iter().any(needs)
}

/// Why a backend cannot be built for another target: the toolkits that were found are for the build machine. Only their compilers for
/// device code can be used.
fn reason_against(
    cross: &CrossBuild,
    profile: &Profile,
    machine: &MachineState,
    backend: Backend,
) -> Option<Reason> {
    let (target, catalogue) = (&cross.target, &machine.catalogue);
    let links_nothing = profile.backends.get(&backend).is_some_and(|row| row.opened_at_run_time);
    if links_nothing && matches!(target.os, Some(Os::Linux | Os::Windows)) {
        return None;
    }
    if let Some(description) = for_target::toolkit(catalogue, profile, target, backend) {
        if !for_target::needs_gcc(description) {
            return None;
        }
        if cross.compilers == TargetCompilers::Zig {
            return Some(reason_against_zig(target, description));
        }
        let other = machine.host_compiler.as_ref().filter(|named| !named.is_for(target));
        return other.map(|named| reason_against_host_compiler(target, named));
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

fn reason_against_zig(target: &Target, description: &Description) -> Reason {
    let under = target.under();
    let needs = format!("the {} needs GCC for {}", description.name, target.triple);
    if target.glibc.is_some() {
        let text = format!("{needs}, which builds for the C library that it came with");
        return Reason::new(id!("cross.gcc-missing"), text).hint(format!(
            "leave out the version in `{}`, or set `CC_{under}` and `CXX_{under}` to a GCC with that C library",
            target.name()
        ));
    }
    let package = target.gcc_package().map(|name| format!(" (Debian, Ubuntu: `{name}`)")).unwrap_or_default();
    Reason::new(id!("cross.gcc-missing"), format!("{needs}, which was not found"))
        .hint(format!("install it{package}, or set `CC_{under}` and `CXX_{under}` to its compilers"))
}

fn reason_against_host_compiler(target: &Target, named: &NamedHostCompiler) -> Reason {
    let NamedHostCompiler { variable, value, platform } = named;
    let what = platform.as_ref().map_or_else(
        || "does not print its platform (`-dumpmachine`)".to_owned(),
        |platform| format!("compiles for {platform}"),
    );
    let text = format!("nvcc's host compiler `{value}` ({variable}) {what}, not for {}", target.triple);
    Reason::new(id!("cross.host-compiler"), text).hint(format!(
        "unset `{variable}`, or set it to a compiler for the target, such as `{}`",
        target.gcc_program("g++")
    ))
}

/// The backends that a build for another platform leaves out, with the reasons: those that cannot be built for it and, unless backends are
/// named, all but the CPU backend, because the devices of that platform are unknown.
#[must_use]
pub fn left_out(
    cross: &CrossBuild,
    profile: &Profile,
    machine: &MachineState,
    selection: &BackendSelection,
) -> Vec<(Backend, Reason)> {
    let is_auto = matches!(selection, BackendSelection::Auto);
    let not_named = |backend: Backend| {
        let text = format!(
            "`auto` selects only cpu for {}; name {backend} in the backends to build it",
            cross.target.triple
        );
        (is_auto && backend != Backend::Cpu).then(|| Reason::new(id!("cross.backend-unsupported"), text))
    };
    Backend::ALL
        .into_iter()
        .filter_map(|one| {
            Some((one, reason_against(cross, profile, machine, one).or_else(|| not_named(one))?))
        })
        .collect()
}

/// Reduces a request to the backends that can be built for the target. Returns the named backends that are dropped.
///
/// # Errors
/// A backend was requested by name, and must not be dropped.
pub fn restrict(
    request: &mut BackendRequest,
    cross: &CrossBuild,
    profile: &Profile,
    machine: &MachineState,
    missing: MissingBackend,
) -> Result<Vec<Dropped>, PlanRefusal> {
    let against = left_out(cross, profile, machine, &request.selection);
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

/// Adapts the state of a machine to another platform. The CPU backend is ready to build: the compilers of this machine, which may be missing,
/// are not used. Devices of this machine do not select architectures. Toolkits for the target are added, and the host compiler of nvcc that a
/// variable names.
pub fn adapt(host: &dyn InspectHost, machine: &mut MachineState, target: &Target) {
    let platform = target.platform().unwrap_or_else(|| host.platform());
    machine.for_target = toolkit::probe_for_target(host, &machine.catalogue, &target.triple, platform);
    machine.host_compiler = NamedHostCompiler::query(host);
    let matrix = &mut machine.matrix;
    matrix.verdicts.iter_mut().for_each(|verdict| verdict.devices.clear());
    for verdict in matrix.verdicts.iter_mut().filter(|verdict| verdict.backend == Backend::Cpu) {
        verdict.build = Readiness::Ready;
        verdict.build_reasons.clear();
    }
    if !matrix.recommended_build.contains(&Backend::Cpu) {
        matrix.recommended_build.insert(0, Backend::Cpu);
    }
}

/// The inventory and the verdicts of a machine with the toolkits of a target in the place of those that the project would link here.
pub(super) fn with_toolkits(
    machine: &MachineState,
    target: &Target,
    profile: &Profile,
) -> (Inventory, Matrix) {
    let (mut inventory, mut matrix) = (machine.inventory.clone(), machine.matrix.clone());
    for backend in Backend::ALL {
        let Some(description) = for_target::toolkit(&machine.catalogue, profile, target, backend) else {
            continue;
        };
        let copies = machine.for_target.get(&description.id).cloned().unwrap_or_default();
        inventory.installations.insert(description.id.clone(), copies);
        for_target::judge(&mut matrix, &inventory, description, backend, target);
    }
    (inventory, matrix)
}

/// Replaces the compilers of this machine in a plan with those of the target. `named` is the host compiler of nvcc that a variable names.
pub fn apply(cross: &CrossBuild, named: Option<&NamedHostCompiler>, plan: &mut Plan) {
    plan.target = cross.planned();
    if cross.compilers == TargetCompilers::Zig {
        plan.fetch.push(zig_wheel());
    }
    plan.trees.iter_mut().for_each(|tree| apply_to(cross, named, tree));
}

fn apply_to(cross: &CrossBuild, named: Option<&NamedHostCompiler>, tree: &mut PlannedTree) {
    tree.target = cross.planned();
    tree.cache.remove("CMAKE_C_COMPILER");
    tree.cache.remove("CMAKE_CXX_COMPILER");
    // nvcc does not accept Zig's headers. With it, only device code is compiled, for which the compiler of this machine does.
    if cross.compilers != TargetCompilers::Zig && tree.cache.remove(CUDA_HOST_COMPILER).is_some() {
        let named = named.filter(|named| named.is_for(&cross.target)).map(|named| &named.value);
        // A toolchain file sets it by itself.
        let compiler = named.or_else(|| cross.entries.get("CMAKE_CXX_COMPILER")).cloned();
        tree.cache.extend(compiler.map(|compiler| (CUDA_HOST_COMPILER.to_owned(), compiler)));
    }
    // With a root, CMake finds packages below its roots only.
    if let (Some(roots), Some(prefixes)) = (cross.entries.get(ROOTS), tree.cache.get(PREFIXES)) {
        let roots = format!("{roots};{prefixes}");
        tree.cache.entry(ROOTS.to_owned()).or_insert(roots);
    }
    // Entries of gpubuild.toml have precedence over those of the target.
    for (name, value) in &cross.entries {
        tree.cache.entry(name.clone()).or_insert_with(|| value.clone());
    }
}
