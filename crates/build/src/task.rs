//! Builds a project from another program, such as a task runner (`cargo xtask`) or a release script. This is equivalent to
//! `gpubuild build --no-binary`, in the version that the program's Cargo.lock pins.

use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec::{
    self, BuildBinary, BuildEvent, BuildJob, BuildOutcome, InstalledTools, Printed, known,
};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::{Host, ReadFiles, RealHost};
use gpubuild_plan::machine::{self, MachineState};
use gpubuild_plan::plan::make::MissingBackend as MissingBackends;
use gpubuild_plan::plan::request::{self, BackendRequest};
use gpubuild_plan::plan::{Plan, linkage};
use gpubuild_plan::planning::{self, PlanRequest};
use gpubuild_plan::project::{self, Project};

use super::missing::MissingRequirement;
use super::{ScriptError, output};

/// Builds a project's native libraries; `gpubuild_link::link()` in the build scripts of its crates links them.
///
/// ```no_run
/// let built = gpubuild_build::Task::new(".").backends("cpu,vulkan").build().map_err(|error| error.full_message());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    folder: String,
    backends: Option<String>,
    missing: MissingBackends,
}

impl Task {
    /// The project with a gpubuild.toml in this folder or the nearest one above it.
    #[must_use]
    pub fn new(folder: impl Into<String>) -> Self {
        Self { folder: folder.into(), backends: None, missing: MissingBackends::Refuse }
    }

    /// Ids separated by commas, `auto` or `all`. Overrides the environment and gpubuild.toml.
    #[must_use]
    pub fn backends(mut self, list: impl Into<String>) -> Self {
        self.backends = Some(list.into());
        self
    }

    /// Leaves out requested backends that cannot be built here.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.missing = MissingBackends::Allow;
        self
    }

    /// Builds, and reports progress on standard error.
    ///
    /// # Errors
    /// The build failed, or a toolkit is missing. [`ScriptError::full_message`] returns the complete message.
    pub fn build(&self) -> Result<BuildOutcome, ScriptError> {
        // Compiler output goes to the log; the output of a failed command is part of the error.
        let steps = |event: &BuildEvent| {
            if !matches!(event, BuildEvent::Line { .. }) {
                output::report(event);
            }
        };
        self.build_on(&RealHost::new(), &steps)
    }

    /// Like [`build`](Self::build), on any host and with any receiver of events.
    ///
    /// # Errors
    /// The same as those of [`build`](Self::build).
    pub(crate) fn build_on(
        &self,
        host: &dyn Host,
        sink: &(dyn Fn(&BuildEvent) + Sync),
    ) -> Result<BuildOutcome, ScriptError> {
        if let Some(bad) = machine::bad_override(host) {
            return Err(ScriptError::Override(bad));
        }
        let project = self.project(host)?;
        let request = request::resolve(self.backends.as_deref(), host.env(), Some(&project.file.project))
            .map_err(|(origin, error)| ScriptError::Backend { origin, message: error.to_string() })?;
        let linkage = project.file.project.linkage.unwrap_or_default();
        if let Some(reason) = linkage::refusal(&project, linkage) {
            return Err(ScriptError::Refused(reason));
        }
        let machine = machine::inspect(host, Catalogue::embedded());
        let store =
            Store::open(host, &project.file.cache, Some(&project.root)).map_err(ScriptError::Store)?;
        let context = TaskContext { host, project: &project, machine: &machine, request: &request };
        let plan = self.plan(&context, &[])?;
        let replan =
            |without: &[(Backend, String)]| self.plan(&context, without).map_err(|error| error.to_string());
        let explain =
            |printed: Printed<'_>| known::explain(host, &machine.facts, &machine.catalogue, printed);
        let job = BuildJob {
            host,
            project: project.file.project.name.clone(),
            root: project.build_root.clone(),
            lock: exec::folder::lock_path(&project.build_root),
            tools: InstalledTools::of(&machine.inventory),
            network: Network::from_env(host.env()),
            direct: None,
            store,
            remote: None,
            binary: BuildBinary::No,
            replan: Some(&replan),
            explain: Some(&explain),
            runtime: None,
            sink,
        };
        exec::build(&job, &plan).map_err(ScriptError::Build)
    }

    fn project(&self, host: &dyn ReadFiles) -> Result<Project, ScriptError> {
        let mut start = host.path(&self.folder);
        if !start.is_absolute() {
            let here = host.current_dir().map_err(|error| ScriptError::io(&self.folder, &error))?;
            start = here.join(&self.folder).normalized();
        }
        let file = project::find(host, &start, &[])?;
        Ok(project::load(host, &file)?)
    }

    /// The plan without some backends that were not requested by name.
    fn plan(&self, context: &TaskContext<'_>, without: &[(Backend, String)]) -> Result<Plan, ScriptError> {
        let mut request = context.request.clone();
        request.without.extend_from_slice(without);
        let table = &context.project.file;
        let plan_request = PlanRequest {
            host: context.host,
            machine: context.machine,
            project: context.project,
            request: &request,
            linkage: table.project.linkage.unwrap_or_default(),
            missing: self.missing,
            jobs: table.limits.jobs,
            cross: None,
            cuda_archs: None,
            native: table.project.native,
            provision: None,
        };
        let mut plan = planning::plan(&plan_request).map_err(|refusal| match refusal.project.first() {
            Some(reason) => ScriptError::Refused(reason.clone()),
            None => ScriptError::Missing(MissingRequirement::backends(
                context.host,
                context.machine,
                &refusal.origin,
                &refusal.blocked,
            )),
        })?;
        // Without a compiler launcher the build is only slower, so a missing one is left out.
        if let Err(error) = planning::add_launchers(&mut plan, &plan_request, None) {
            plan.notes.push(error.to_string());
        }
        Ok(plan)
    }
}

/// The inputs of a plan.
#[derive(Clone, Copy)]
struct TaskContext<'a> {
    host: &'a dyn Host,
    project: &'a Project,
    machine: &'a MachineState,
    request: &'a BackendRequest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn message(task: &Task, file: &str) -> String {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/w/gpubuild.toml", file)
            .file("/w/native/CMakeLists.txt", "project(x CXX)\n")
            .build();
        task.build_on(&host, &|_| {}).unwrap_err().full_message()
    }

    const GOOD: &str = "schema = 1\n[project]\nname = \"x\"\nsource = \"native\"\n";

    #[test]
    fn errors_and_missing_toolkits_are_reported_with_ids() {
        let task = Task::new("/w/crates/x");
        assert!(message(&task, "schema = 1\n[project\n").contains("[project.invalid]"));
        let unknown = message(&task.clone().backends("cpu,vulcan"), GOOD);
        assert!(unknown.contains("[backend.unknown]") && unknown.contains("--backends"), "{unknown}");
        let source = "source = { crate = \"x-sys\", version = \"=0.1.0\" }";
        let fetched = message(&task, &GOOD.replace("source = \"native\"", source));
        assert!(fetched.contains("[source.not-fetched]"), "{fetched}");
        assert!(fetched.contains("run `gpubuild fetch --project /w`"), "{fetched}");
        let file = format!("{GOOD}[backends.cuda]\noptions = {{ X_CUDA = \"ON\" }}\n");
        let missing = message(&task.backends("cuda"), &file);
        assert!(missing.contains("cannot build cuda, which --backends requests"), "{missing}");
        assert!(missing.contains("[cuda.toolkit.missing]"), "{missing}");
    }
}
