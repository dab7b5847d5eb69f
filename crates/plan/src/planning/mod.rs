//! The whole way from a machine that was looked at to a plan, for the command line and for build scripts.

pub mod share;

use gpubuild_host::ReadFiles;

use crate::look::MachineState;
use crate::offer::foresee::{self, foresee};
use crate::plan::launchers::{self, LauncherContext, LauncherError};
use crate::plan::make::{self, MissingBackend, PlanInputs, PlanRefusal};
use crate::plan::request::BackendRequest;
use crate::plan::{Plan, kits};
use crate::project::Linkage;
use crate::project::Project;
use crate::wheels::WheelLock;

/// What a plan is made for.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The machine.
    pub host: &'a dyn ReadFiles,
    /// What was seen of it.
    pub sight: &'a MachineState,
    /// What is built.
    pub project: &'a Project,
    /// For which backends.
    pub request: &'a BackendRequest,
    /// How its libraries come into a program.
    pub linkage: Linkage,
    /// What to do with a named backend that is blocked.
    pub missing: MissingBackend,
    /// Compilers at once.
    pub jobs: Option<u32>,
    /// Architectures for CUDA as somebody named them.
    pub cuda_archs: Option<&'a str>,
    /// Whether code may be built that only runs on processors like this machine's.
    pub native: bool,
    /// What may be installed first; `None`: nothing.
    pub provision: Option<&'a [WheelLock]>,
}

/// Makes the plan.
///
/// # Errors
/// A backend that was asked for by name cannot be built, and may not be dropped.
pub fn plan(wish: &PlanRequest<'_>) -> Result<Plan, PlanRefusal> {
    let shared = share::wanted(wish.host, wish.project, wish.request)?;
    if shared.is_empty() {
        return plan_alone(wish);
    }
    let (mut project, mut request) = (wish.project.clone(), wish.request.clone());
    share::apply(&shared, &mut project, &mut request);
    for one in &shared {
        one.point(&mut project);
    }
    let mut plan = plan_alone(&PlanRequest { project: &project, request: &request, ..*wish })?;
    for one in &shared {
        one.strip(&project, &mut plan);
        plan.packages.push(one.package(wish.host, &project.build_root));
        plan.notes
            .push(format!("`{}` comes from `{}`, with its backends", one.library, one.manifest.project));
    }
    Ok(plan)
}

fn plan_alone(wish: &PlanRequest<'_>) -> Result<Plan, PlanRefusal> {
    let (host, sight) = (wish.host, wish.sight);
    let foreseen = wish.provision.map(|locks| {
        foresee(&foresee::OfferContext {
            host,
            facts: &sight.facts,
            catalogue: &sight.catalogue,
            inventory: &sight.inventory,
            matrix: &sight.matrix,
            project: wish.project,
            request: wish.request,
            cuda_archs: wish.cuda_archs,
            locks,
        })
    });
    let (inventory, matrix, provision) = match &foreseen {
        Some(foreseen) => (&foreseen.inventory, &foreseen.matrix, foreseen.provision.as_slice()),
        None => (&sight.inventory, &sight.matrix, [].as_slice()),
    };
    let (kits, lacking) =
        kits::kits_of_project(inventory, &sight.catalogue, &sight.facts, &wish.project.profile);
    let compilers = kits::compilers(&sight.inventory, &sight.catalogue);
    let tools = kits::tools(&sight.inventory, &sight.catalogue);
    make::make(&PlanInputs {
        facts: &sight.facts,
        env: host.env(),
        matrix,
        project: wish.project,
        request: wish.request,
        linkage: wish.linkage,
        missing: wish.missing,
        jobs: wish.jobs,
        kits: &kits,
        lacking: &lacking,
        compilers: &compilers,
        tools: &tools,
        provision,
        cuda_archs: wish.cuda_archs,
        native: wish.native,
    })
}

/// Puts compiler launchers in front of the compilers of a plan: what `flag`, the environment or gpubuild.toml asks for.
///
/// # Errors
/// A launcher that is not known, or one that was asked for just now and is not here.
pub fn put_launchers(
    plan: &mut Plan,
    wish: &PlanRequest<'_>,
    flag: Option<&str>,
) -> Result<(), LauncherError> {
    let (host, sight) = (wish.host, wish.sight);
    let home = host.env().get("HOME").unwrap_or_default();
    let exists = |file: &str| host.is_file(&host.path(&file.replace("{home}", home)));
    let known = launchers::launchers(&sight.inventory, &sight.catalogue, &sight.facts, &exists);
    let (env, table, root) = (host.env(), &wish.project.file.cache, &wish.project.root);
    launchers::apply(plan, &LauncherContext { launchers: &known, flag, env, table, root })
}
