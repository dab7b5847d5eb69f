//! Computes a plan from the state of a machine, a project and a request. Used by the command line and by build scripts.

pub mod cross;
pub mod lacking;
pub mod share;

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_host::ReadFiles;

use crate::machine::MachineState;
use crate::offer::simulate::{self, simulate};
use crate::packages::{self, PackageSet};
use crate::plan::launchers::{self, LauncherContext, LauncherError};
use crate::plan::make::{self, MissingBackend, PlanInputs, PlanRefusal};
use crate::plan::provision::PackagedToolkit;
use crate::plan::request::BackendRequest;
use crate::plan::{Plan, kits};
use crate::project::Linkage;
use crate::project::Project;
use crate::target::CrossBuild;
use crate::wheels::WheelLock;

/// The inputs of a plan.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The machine.
    pub host: &'a dyn ReadFiles,
    /// Its collected state.
    pub machine: &'a MachineState,
    /// The project to build.
    pub project: &'a Project,
    /// The requested backends.
    pub request: &'a BackendRequest,
    /// How a program links the project's libraries.
    pub linkage: Linkage,
    /// How to handle a requested backend that is blocked.
    pub missing: MissingBackend,
    /// The number of compilers that run in parallel; `None` derives it from the project and the processor.
    pub jobs: Option<u32>,
    /// CUDA architectures as given with `--cuda-archs`.
    pub cuda_archs: Option<&'a str>,
    /// Whether to compile for the processor of this machine only.
    pub native: bool,
    /// How to build for another platform; `None` builds for this one.
    pub cross: Option<&'a CrossBuild>,
    /// Locks of the toolkits that the build may install; `None` disables provisioning.
    pub provision: Option<&'a [WheelLock]>,
}

/// Computes the plan.
///
/// # Errors
/// A backend that was requested by name cannot be built and must not be dropped.
pub fn plan(request: &PlanRequest<'_>) -> Result<Plan, PlanRefusal> {
    let shared = share::wanted(request.host, request.project, request.request)?;
    if shared.is_empty() {
        return plan_alone(request);
    }
    let (mut project, mut backends) = (request.project.clone(), request.request.clone());
    share::apply(&shared, &mut project, &mut backends);
    for one in &shared {
        one.point(&mut project);
    }
    let mut plan = plan_alone(&PlanRequest { project: &project, request: &backends, ..*request })?;
    for one in &shared {
        one.strip(&project, &mut plan);
        plan.packages.push(one.package(request.host, &project.build_root));
        plan.notes
            .push(format!("`{}` comes from `{}`, with its backends", one.library, one.manifest.project));
    }
    Ok(plan)
}

fn plan_alone(request: &PlanRequest<'_>) -> Result<Plan, PlanRefusal> {
    let (host, machine) = (request.host, request.machine);
    let target = request.cross.map(|cross| &cross.target);
    let of_target = target.map(|target| cross::with_toolkits(machine, target, &request.project.profile));
    let (inventory, matrix) = match &of_target {
        Some((inventory, matrix)) => (inventory, matrix),
        None => (&machine.inventory, &machine.matrix),
    };
    let simulated = request.provision.map(|locks| {
        simulate(&simulate::OfferContext {
            host,
            facts: &machine.facts,
            catalogue: &machine.catalogue,
            inventory,
            matrix,
            project: request.project,
            request: request.request,
            target,
            cuda_archs: request.cuda_archs,
            locks,
        })
    });
    let (inventory, matrix, provision) = match &simulated {
        Some(simulated) => (&simulated.inventory, &simulated.matrix, simulated.provision.as_slice()),
        None => (inventory, matrix, [].as_slice()),
    };
    let (kits, lacking) =
        kits::kits_of_project(inventory, &machine.catalogue, &machine.facts, &request.project.profile);
    let compilers = kits::compilers(&machine.inventory, &machine.catalogue);
    let cmake = request.project.built_with.iter().filter_map(|one| one.cmake.as_ref()).max();
    let tools = kits::tools(&machine.inventory, &machine.catalogue, cmake);
    make::make(&PlanInputs {
        facts: &machine.facts,
        env: host.env(),
        matrix,
        project: request.project,
        request: request.request,
        linkage: request.linkage,
        missing: request.missing,
        jobs: request.jobs,
        kits: &kits,
        lacking: &lacking,
        packaged: &packaged(machine),
        compilers: &compilers,
        tools: &tools,
        provision,
        target: target.map(|target| target.triple.as_str()),
        cuda_archs: request.cuda_archs,
        native: request.native,
    })
}

/// The toolkits that packages of the machine's distribution have.
fn packaged(machine: &MachineState) -> BTreeMap<Backend, PackagedToolkit> {
    let of_set = |set: &PackageSet| {
        let offer = packages::offer(&machine.facts, &set.toolkit).ok()?;
        let backend = *machine.catalogue.get(&set.toolkit)?.backends.first()?;
        let components = offer.row.optional.keys().cloned().collect();
        Some((backend, PackagedToolkit { release: offer.row.release.clone(), components }))
    };
    packages::all().iter().filter_map(of_set).collect()
}

/// Adds the compiler launchers that `flag`, the environment or gpubuild.toml selects to a plan.
///
/// # Errors
/// The launcher is unknown, or it was selected by the flag or a variable and is not installed.
pub fn add_launchers(
    plan: &mut Plan,
    request: &PlanRequest<'_>,
    flag: Option<&str>,
) -> Result<(), LauncherError> {
    let (host, machine) = (request.host, request.machine);
    let home = host.env().get("HOME").unwrap_or_default();
    let exists = |file: &str| host.is_file(&host.path(&file.replace("{home}", home)));
    let read = |file: &str| host.read_text(&host.path(file)).ok();
    let known = launchers::launchers(&machine.inventory, &machine.catalogue, &machine.facts, &exists, &read);
    let (env, table, root) = (host.env(), &request.project.file.cache, &request.project.root);
    launchers::apply(plan, &LauncherContext { launchers: &known, flag, env, table, root })
}
