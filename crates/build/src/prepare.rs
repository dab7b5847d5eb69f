//! What is decided before anything is built: the machine, the project, the plan.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::store::settings::Store;
use gpubuild_exec::store::sha256;
use gpubuild_host::Host;
use gpubuild_plan::look::{self, Sight};
use gpubuild_plan::plan::make::Missing as MissingBackends;
use gpubuild_plan::plan::request::{self, Request};
use gpubuild_plan::plan::{Plan, linkage};
use gpubuild_plan::planning::share::{self as packages, Shared};
use gpubuild_plan::planning::{self, Wish};
use gpubuild_plan::project::{Project, ProjectError};

use super::assemble::Source;
use super::cargo::Crate;
use super::cross::{self, Cross};
use super::missing::Missing;
use super::script::Script;
use super::share;
use super::{Build, ScriptError};

/// A plan together with what it was made from.
pub struct Planned {
    /// The crate that is being compiled.
    pub(crate) krate: Crate,
    /// What is built.
    pub(crate) project: Project,
    /// What was seen of the machine.
    pub(crate) sight: Sight,
    /// What was asked for.
    pub(crate) request: Request,
    /// Everything that will be done.
    pub plan: Plan,
    pub(super) cross: Option<Cross>,
    pub(super) store: Option<Store>,
    pub(super) shared: Vec<Shared>,
}

/// Why there is no plan.
pub(super) enum Stop {
    /// It is wrong: told at once.
    Wrong(ScriptError),
    /// Something is missing: told when a program is linked. The backends are those that were asked for.
    Missing(Missing, Vec<Backend>),
}

impl From<ScriptError> for Stop {
    fn from(error: ScriptError) -> Self {
        Self::Wrong(error)
    }
}

impl Build {
    /// Looks at the machine and makes the plan.
    pub(super) fn prepare(
        &self,
        host: &dyn Host,
        krate: Crate,
        script: &mut Script,
        source: Source,
    ) -> Result<Planned, Stop> {
        if let Some(bad) = look::bad_override(host) {
            return Err(ScriptError::Override(bad).into());
        }
        let mut project = match self.assemble(host, &krate, script, source) {
            Err(ScriptError::Project(error @ ProjectError::NoSource { .. })) => {
                let backends = krate.backends().unwrap_or_default();
                let missing = Missing::one(
                    "has no sources to build",
                    error.id(),
                    error.to_string(),
                    Some(error.hint()),
                );
                return Err(Stop::Missing(missing, backends));
            }
            other => other?,
        };
        let mut request = self.request(host, &krate, &mut project)?;
        let linkage = project.file.project.linkage.unwrap_or_default();
        if let Some(reason) = linkage::refusal(&project, linkage) {
            return Err(ScriptError::Refused(reason).into());
        }
        let sight = look::look(host, Catalogue::embedded());
        let cross = match cross::cross(&krate, host.env(), &project.file.project.options) {
            Ok(cross) => cross,
            Err(reason) => {
                let what = format!("cannot be built for {}", krate.target);
                return Err(Stop::Missing(
                    Missing::one(what, &reason.id, reason.text, reason.hint),
                    named(&request),
                ));
            }
        };
        if cross.is_some() {
            only_cpu(&krate, &mut request)?;
        }
        let shared = match share::find(host, &self.shared) {
            Err(ScriptError::Missing(missing)) => return Err(Stop::Missing(missing, named(&request))),
            other => other?,
        };
        if !shared.is_empty() {
            packages::apply(&shared, &mut project, &mut request);
            "the crate whose libraries are shared".clone_into(&mut request.origin);
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
        let mut planned = Planned { krate, project, sight, request, plan, cross, store, shared };
        planned.plan = self.make(host, &planned, &[])?;
        Ok(planned)
    }

    /// The plan without some backends that nobody named.
    pub(super) fn make(
        &self,
        host: &dyn Host,
        planned: &Planned,
        without: &[(Backend, String)],
    ) -> Result<Plan, Stop> {
        let mut request = planned.request.clone();
        request.without.extend_from_slice(without);
        let limit = planned.project.file.limits.jobs;
        let wish = Wish {
            host,
            sight: &planned.sight,
            project: &planned.project,
            request: &request,
            linkage: planned.project.file.project.linkage.unwrap_or_default(),
            missing: if self.allow_missing { MissingBackends::Allow } else { MissingBackends::Refuse },
            jobs: planned.krate.jobs.map(|jobs| limit.map_or(jobs, |limit| limit.min(jobs))),
            cuda_archs: None,
            native: planned.project.file.project.native,
            provision: None,
        };
        let mut plan = planning::plan(&wish).map_err(|refusal| {
            let of_project = |id: &str| id.starts_with("project.") || id.starts_with("plan.");
            let of_backends = refusal.blocked.iter().flat_map(|(_, reasons)| reasons);
            let mut reasons = refusal.project.iter().chain(of_backends);
            match reasons.find(|reason| of_project(&reason.id)) {
                Some(reason) => Stop::Wrong(ScriptError::Refused(reason.clone())),
                None => Stop::Missing(
                    Missing::backends(host, &planned.sight, &refusal.origin, &refusal.blocked),
                    named(&request),
                ),
            }
        })?;
        // A launcher makes builds faster, not possible: one that is not here is left out.
        if let Err(error) = planning::put_launchers(&mut plan, &wish, None) {
            plan.notes.push(error.to_string());
        }
        if let Some(cross) = &planned.cross {
            cross.apply(&mut plan);
        }
        for shared in &planned.shared {
            shared.strip(&planned.project, &mut plan);
            plan.packages.push(shared.package(host, &planned.project.build_root));
        }
        Ok(plan)
    }
}

/// A folder for what is built in the same way, so that two ways do not undo each other's work.
fn folder_name(krate: &Crate, project: &Project, request: &Request, shared: &[Shared]) -> String {
    let shared: Vec<&str> = shared.iter().map(|one| one.path.as_str()).collect();
    let file = &project.file;
    let backends: BTreeMap<_, _> =
        file.backends.iter().map(|(backend, table)| (backend, &table.options)).collect();
    let parts = (
        (project.source.as_str(), &krate.target, krate.static_crt),
        (format!("{:?}", request.selection), format!("{:?}", request.without)),
        (&file.project.options, &file.project.targets, &project.profile.id, backends, shared),
    );
    let hash = sha256(&serde_json::to_vec(&parts).unwrap_or_default());
    format!("{}-{}", file.project.name, &hash[..10])
}

/// For another machine only the processor's own backend is built.
fn only_cpu(krate: &Crate, request: &mut Request) -> Result<(), Stop> {
    for backend in Backend::ALL {
        let Some(reason) = cross::reason_against(krate, backend) else { continue };
        let is_named =
            matches!(&request.selection, request::Selection::Named(list) if list.contains(&backend));
        if is_named {
            let what = format!("cannot build {backend}, which {} asks for", request.origin);
            return Err(Stop::Missing(
                Missing::one(what, &reason.id, reason.text, reason.hint),
                named(request),
            ));
        }
        request.without.push((backend, reason.text));
    }
    Ok(())
}

fn named(request: &Request) -> Vec<Backend> {
    match &request.selection {
        request::Selection::Named(list) => list.clone(),
        request::Selection::Auto => Vec::new(),
    }
}
