//! Everything that is determined before a build: the machine, the project, the plan.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::store::settings::Store;
use gpubuild_exec::store::sha256;
use gpubuild_host::{Host, ReadFiles};
use gpubuild_plan::machine::{self, MachineState};
use gpubuild_plan::plan::make::MissingBackend as MissingBackends;
use gpubuild_plan::plan::request::{self, BackendRequest};
use gpubuild_plan::plan::{Plan, linkage};
use gpubuild_plan::planning::cross::needs_gcc;
use gpubuild_plan::planning::share::{self as packages, Shared};
use gpubuild_plan::planning::{self, PlanRequest};
use gpubuild_plan::project::profile::Profile;
use gpubuild_plan::project::{Project, ProjectError};
use gpubuild_plan::target::{CrossBuild, Target};

use super::assemble::HeaderSource;
use super::cargo::BuildingCrate;
use super::cross;
use super::missing::MissingRequirement;
use super::script::ScriptEnvironment;
use super::share;
use super::{Build, ScriptError};

/// A plan and its inputs.
pub struct Planned {
    /// The crate that is being compiled.
    pub(crate) krate: BuildingCrate,
    /// The project to build.
    pub(crate) project: Project,
    /// What was detected on the machine.
    pub(crate) machine: MachineState,
    /// The requested backends.
    pub(crate) request: BackendRequest,
    /// Everything that the build will do.
    pub plan: Plan,
    pub(super) cross: Option<CrossBuild>,
    pub(super) store: Option<Store>,
    pub(super) shared: Vec<Shared>,
}

/// Why the plan could not be made.
pub(super) enum PrepareStop {
    /// An error, which is reported immediately.
    Wrong(ScriptError),
    /// A missing toolkit or tool, which is reported when a program is linked, with the requested backends.
    Missing(MissingRequirement, Vec<Backend>),
}

impl From<ScriptError> for PrepareStop {
    fn from(error: ScriptError) -> Self {
        Self::Wrong(error)
    }
}

impl Build {
    /// Examines the machine and makes the plan.
    pub(super) fn prepare(
        &self,
        host: &dyn Host,
        krate: BuildingCrate,
        script: &mut ScriptEnvironment,
        source: HeaderSource,
    ) -> Result<Planned, PrepareStop> {
        if let Some(bad) = machine::bad_override(host) {
            return Err(ScriptError::Override(bad).into());
        }
        let mut project = match self.assemble(host, &krate, script, source) {
            Err(ScriptError::Project(
                error @ (ProjectError::NoSource { .. } | ProjectError::SourceNotFetched { .. }),
            )) => {
                let (backends, fix) = (krate.backends().unwrap_or_default(), error.hint());
                let mut text = error.to_string();
                // The warning of a crate that only generates bindings has to contain the command as well.
                if let (ProjectError::SourceNotFetched { .. }, Some(fix)) = (&error, &fix) {
                    text = format!("{text}; {fix}");
                }
                let missing = MissingRequirement::one("has no sources to build", error.id(), text, fix);
                return Err(PrepareStop::Missing(missing, backends));
            }
            other => other?,
        };
        let mut request = self.request(host, &krate, &mut project)?;
        let linkage = project.file.project.linkage.unwrap_or_default();
        if let Some(reason) = linkage::refusal(&project, linkage) {
            return Err(ScriptError::Refused(reason).into());
        }
        let mut machine = machine::inspect(host, Catalogue::embedded());
        let target = Target::of_triple(&krate.target);
        let gcc = needs_gcc(&machine.catalogue, &project.profile, &target, &request.selection);
        let cross = match cross::cross(&krate, host, &project.file.project.options, gcc) {
            Ok(cross) => cross,
            Err(reason) => {
                let what = format!("cannot be built for {}", krate.target);
                return Err(PrepareStop::Missing(
                    MissingRequirement::one(what, reason.id, reason.text, reason.hint),
                    named(&request),
                ));
            }
        };
        if let Some(cross) = &cross {
            planning::cross::adapt(host, &mut machine, &cross.target);
            if let Some(warning) = cross::linker_warning(cross, host) {
                script.warning(&warning);
            }
            restrict(cross, &project.profile, &machine, &mut request)?;
        }
        let shared = match share::find(host, &self.shared) {
            Err(ScriptError::Missing(missing)) => return Err(PrepareStop::Missing(missing, named(&request))),
            other => other?,
        };
        if !shared.is_empty() {
            packages::apply(&shared, &mut project, &mut request);
            "the crate that shares its libraries".clone_into(&mut request.origin);
        }
        for (feature, option) in &project.profile.instructions {
            if krate.instructions.contains(feature) {
                project.file.project.options.entry(option.clone()).or_insert_with(|| "ON".to_owned());
            }
        }
        project.build_root = krate.shared_folder().join(&folder_name(&krate, &project, &request, &shared));
        for one in &shared {
            one.point(&mut project);
        }
        let store =
            Store::open(host, &project.file.cache, Some(&project.root)).map_err(ScriptError::Store)?;
        let plan = Plan::default();
        let mut planned = Planned { krate, project, machine, request, plan, cross, store, shared };
        planned.plan = self.make(host, &planned, &[])?;
        Ok(planned)
    }

    /// The plan without some backends that were not requested by name.
    pub(super) fn make(
        &self,
        host: &dyn ReadFiles,
        planned: &Planned,
        without: &[(Backend, String)],
    ) -> Result<Plan, PrepareStop> {
        let mut request = planned.request.clone();
        request.without.extend_from_slice(without);
        let limit = planned.project.file.limits.jobs;
        let plan_request = PlanRequest {
            host,
            machine: &planned.machine,
            project: &planned.project,
            request: &request,
            linkage: planned.project.file.project.linkage.unwrap_or_default(),
            missing: if self.allow_missing { MissingBackends::Allow } else { MissingBackends::Refuse },
            jobs: planned.krate.jobs.map(|jobs| limit.map_or(jobs, |limit| limit.min(jobs))),
            cuda_archs: None,
            cross: planned.cross.as_ref(),
            native: planned.project.file.project.native,
            provision: None,
        };
        let mut plan = planning::plan(&plan_request).map_err(|refusal| {
            let of_project = |id: &str| id.starts_with("project.") || id.starts_with("plan.");
            let of_backends = refusal.blocked.iter().flat_map(|(_, reasons)| reasons);
            let mut reasons = refusal.project.iter().chain(of_backends);
            match reasons.find(|reason| of_project(&reason.id)) {
                Some(reason) => PrepareStop::Wrong(ScriptError::Refused(reason.clone())),
                None => PrepareStop::Missing(
                    MissingRequirement::backends(host, &planned.machine, &refusal.origin, &refusal.blocked),
                    named(&request),
                ),
            }
        })?;
        // Without a compiler launcher the build is only slower, so a missing one is left out.
        if let Err(error) = planning::add_launchers(&mut plan, &plan_request, None) {
            plan.notes.push(error.to_string());
        }
        if let Some(cross) = &planned.cross {
            planning::cross::apply(cross, planned.machine.host_compiler.as_ref(), &mut plan);
        }
        for shared in &planned.shared {
            shared.strip(&planned.project, &mut plan);
            plan.packages.push(shared.package(host, &planned.project.build_root));
        }
        Ok(plan)
    }
}

/// The build folder's name. It differs between configurations, so that they do not overwrite each other's results.
fn folder_name(
    krate: &BuildingCrate,
    project: &Project,
    request: &BackendRequest,
    shared: &[Shared],
) -> String {
    let shared: Vec<&str> = shared.iter().map(|one| one.path.as_str()).collect();
    let file = &project.file;
    let backends: BTreeMap<_, _> =
        file.backends.iter().map(|(backend, table)| (backend, &table.options)).collect_map();
    let parts = (
        (project.source.as_str(), &krate.target, krate.static_crt),
        (format!("{:?}", request.selection), format!("{:?}", request.without)),
        (&file.project.options, &file.project.targets, &project.profile.id, backends, shared),
    );
    let hash = sha256(&serde_json::to_vec(&parts).unwrap_or_default());
    format!("{}-{}", file.project.name, &hash[..10])
}

/// Reduces the request to the backends that can be built for the target.
fn restrict(
    cross: &CrossBuild,
    profile: &Profile,
    machine: &MachineState,
    request: &mut BackendRequest,
) -> Result<(), PrepareStop> {
    for (backend, reason) in planning::cross::left_out(cross, profile, machine, &request.selection) {
        let is_named =
            matches!(&request.selection, request::BackendSelection::Named(list) if list.contains(&backend));
        if is_named {
            let what = format!("cannot build {backend}, which {} requests", request.origin);
            return Err(PrepareStop::Missing(
                MissingRequirement::one(what, reason.id, reason.text, reason.hint),
                named(request),
            ));
        }
        request.without.push((backend, reason.text));
    }
    Ok(())
}

fn named(request: &BackendRequest) -> Vec<Backend> {
    match &request.selection {
        request::BackendSelection::Named(list) => list.clone(),
        request::BackendSelection::Auto => Vec::new(),
    }
}
