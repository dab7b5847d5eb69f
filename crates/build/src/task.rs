//! A project that is built from a program of one's own: the task runner of a workspace (`cargo xtask`), a release script.
//! The same as `gpubuild build --no-binary`, in the version that the program's Cargo.lock has.

use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec::{self, BuildBinary, Event, Job, Outcome, Printed, Tools, known};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::{Host, RealHost};
use gpubuild_plan::look::{self, Sight};
use gpubuild_plan::plan::make::Missing as MissingBackends;
use gpubuild_plan::plan::request::{self, Request};
use gpubuild_plan::plan::{Plan, linkage};
use gpubuild_plan::planning::{self, Wish};
use gpubuild_plan::project::{self, Project};

use super::missing::Missing;
use super::{ScriptError, talk};

/// Builds the native libraries of a project; `gpubuild_link::link()` in the build scripts of its crates links them.
///
/// ```no_run
/// let built = gpubuild_build::Task::new(".").backends("cpu,vulkan").build().map_err(|error| error.told());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    folder: String,
    backends: Option<String>,
    missing: MissingBackends,
}

impl Task {
    /// The project whose gpubuild.toml lies in this folder or above it.
    #[must_use]
    pub fn new(folder: impl Into<String>) -> Self {
        Self { folder: folder.into(), backends: None, missing: MissingBackends::Refuse }
    }

    /// Ids with commas between them, `auto` or `all`: wins over the environment and gpubuild.toml.
    #[must_use]
    pub fn backends(mut self, list: impl Into<String>) -> Self {
        self.backends = Some(list.into());
        self
    }

    /// Leaves out backends that were named and cannot be built here.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.missing = MissingBackends::Allow;
        self
    }

    /// Builds, and tells on standard error what happens.
    ///
    /// # Errors
    /// Something is wrong or missing; [`ScriptError::told`] says all of it.
    pub fn build(&self) -> Result<Outcome, ScriptError> {
        // What compilers say in passing stands in the log; what they say of a failure is told with it.
        let steps = |event: &Event| {
            if !matches!(event, Event::Line { .. }) {
                talk::tell(event);
            }
        };
        self.build_on(&RealHost::new(), &steps)
    }

    /// The same on any host, telling anybody.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn build_on(
        &self,
        host: &dyn Host,
        sink: &(dyn Fn(&Event) + Sync),
    ) -> Result<Outcome, ScriptError> {
        if let Some(bad) = look::bad_override(host) {
            return Err(ScriptError::Override(bad));
        }
        let project = self.project(host)?;
        let request = request::resolve(self.backends.as_deref(), host.env(), Some(&project.file.project))
            .map_err(|(origin, error)| ScriptError::Backend { origin, message: error.to_string() })?;
        let linkage = project.file.project.linkage.unwrap_or_default();
        if let Some(reason) = linkage::refusal(&project, linkage) {
            return Err(ScriptError::Refused(reason));
        }
        let sight = look::look(host, Catalogue::embedded());
        let store =
            Store::open(host, &project.file.cache, Some(&project.root)).map_err(ScriptError::Store)?;
        let scene = Scene { host, project: &project, sight: &sight, request: &request };
        let plan = self.plan(&scene, &[])?;
        let replan =
            |without: &[(Backend, String)]| self.plan(&scene, without).map_err(|error| error.to_string());
        let explain = |printed: Printed<'_>| known::explain(host, &sight.facts, &sight.catalogue, printed);
        let job = Job {
            host,
            project: project.file.project.name.clone(),
            root: project.build_root.clone(),
            lock: exec::folder::lock_path(&project.build_root),
            tools: Tools::of(&sight.inventory),
            network: Network::from_env(host.env()),
            store,
            binary: BuildBinary::No,
            replan: Some(&replan),
            explain: Some(&explain),
            sink,
        };
        exec::build(&job, &plan).map_err(ScriptError::Build)
    }

    fn project(&self, host: &dyn Host) -> Result<Project, ScriptError> {
        let mut start = host.path(&self.folder);
        if !start.is_absolute() {
            let here = host
                .current_dir()
                .map_err(|error| ScriptError::Io { path: self.folder.clone(), message: error.to_string() })?;
            start = here.join(&self.folder).normalized();
        }
        let file = project::find(host, &start)?;
        Ok(project::load(host, &file)?)
    }

    /// The plan without some backends that nobody named.
    fn plan(&self, scene: &Scene<'_>, without: &[(Backend, String)]) -> Result<Plan, ScriptError> {
        let mut request = scene.request.clone();
        request.without.extend_from_slice(without);
        let table = &scene.project.file;
        let wish = Wish {
            host: scene.host,
            sight: scene.sight,
            project: scene.project,
            request: &request,
            linkage: table.project.linkage.unwrap_or_default(),
            missing: self.missing,
            jobs: table.limits.jobs,
            cuda_archs: None,
            native: table.project.native,
            provision: None,
        };
        let mut plan = planning::plan(&wish).map_err(|refusal| match refusal.project.first() {
            Some(reason) => ScriptError::Refused(reason.clone()),
            None => ScriptError::Missing(Missing::backends(
                scene.host,
                scene.sight,
                &refusal.origin,
                &refusal.blocked,
            )),
        })?;
        // A launcher makes builds faster, not possible: one that is not here is left out.
        if let Err(error) = planning::put_launchers(&mut plan, &wish, None) {
            plan.notes.push(error.to_string());
        }
        Ok(plan)
    }
}

/// What a plan is made from.
#[derive(Clone, Copy)]
struct Scene<'a> {
    host: &'a dyn Host,
    project: &'a Project,
    sight: &'a Sight,
    request: &'a Request,
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn told(task: &Task, file: &str) -> String {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/w/gpubuild.toml", file)
            .file("/w/native/CMakeLists.txt", "project(x CXX)\n")
            .build();
        task.build_on(&host, &|_| {}).unwrap_err().told()
    }

    const GOOD: &str = "schema = 1\n[project]\nname = \"x\"\nsource = \"native\"\n";

    #[test]
    fn what_is_wrong_or_missing_is_told_with_its_id() {
        let task = Task::new("/w/crates/x");
        assert!(told(&task, "schema = 1\n[project\n").contains("[project.invalid]"));
        let unknown = told(&task.clone().backends("cpu,vulcan"), GOOD);
        assert!(unknown.contains("[backend.unknown]") && unknown.contains("--backends"), "{unknown}");
        let file = format!("{GOOD}[backends.cuda]\noptions = {{ X_CUDA = \"ON\" }}\n");
        let missing = told(&task.backends("cuda"), &file);
        assert!(missing.contains("cannot build cuda, which --backends asks for"), "{missing}");
        assert!(missing.contains("[cuda.toolkit.missing]"), "{missing}");
    }
}
