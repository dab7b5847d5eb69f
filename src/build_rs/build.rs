//! The build script of a crate that brings a native project along.

use std::collections::{BTreeMap, BTreeSet};

use super::cargo::Crate;
use super::cross::{self, Cross};
use super::missing::Missing;
use super::script::Script;
use super::share::{self, Shared};
use super::{ScriptError, VARIABLE, talk};
use crate::artifacts::{Interface, Manifest};
use crate::backend::Backend;
use crate::exec::{self, BuildBinary, BuildError, Event, Job, Outcome, Printed, Tools, known};
use crate::host::{Host, HostPath, Overlay, RealHost};
use crate::look::{self, Sight};
use crate::plan::make::Missing as MissingBackends;
use crate::plan::profile::{Profile, Wanted};
use crate::plan::request::{self, Request};
use crate::plan::whole::{self, Wish};
use crate::plan::{Plan, linkage};
use crate::project::{self, Project, ProjectError, ProjectFile};
use crate::python::Network;
use crate::store::settings::Store;
use crate::store::sha256;
use crate::toolkit::Catalogue;
use crate::venv::record;

/// What a build script builds and how: `gpubuild::Build::new().link()` is a whole `main`.
///
/// Everything that is not said here comes from `gpubuild.toml` beside the crate's Cargo.toml.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Build {
    pub(super) project: Option<String>,
    pub(super) source: Option<String>,
    pub(super) source_variable: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) backends: Option<Vec<String>>,
    pub(super) targets: Vec<String>,
    pub(super) options: BTreeMap<String, String>,
    pub(super) allow_missing: bool,
    pub(super) shared: Vec<String>,
    pub(super) ignored: BTreeSet<String>,
}

/// What came of a build script's build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// The manifest; `None` where nothing was built: on docs.rs, or because something is missing.
    pub manifest: Option<Manifest>,
    /// Where it lies.
    pub path: Option<HostPath>,
    /// The backends that `cfg(gpubuild_backend)` names.
    pub backends: Vec<Backend>,
    /// Names of the static libraries that are linked.
    pub libraries: Vec<String>,
    /// What is missing; whoever links a program will be told.
    pub missing: Option<Missing>,
    /// What sources that use the libraries are compiled with: folders with headers, definitions.
    pub interface: Interface,
}

/// A plan together with what it was made from.
pub struct Planned {
    /// The crate that is being compiled.
    pub krate: Crate,
    /// What is built.
    pub project: Project,
    /// What was seen of the machine.
    pub sight: Sight,
    /// What was asked for.
    pub request: Request,
    /// Everything that will be done.
    pub plan: Plan,
    cross: Option<Cross>,
    store: Option<Store>,
    shared: Vec<Shared>,
}

/// Why there is no plan.
enum Stop {
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
    /// The project of `gpubuild.toml` beside the crate's Cargo.toml.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes `gpubuild.toml` from this folder, relative to the crate's.
    #[must_use]
    pub fn project(mut self, folder: impl Into<String>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// The folder with the top `CMakeLists.txt`, relative to the crate's.
    #[must_use]
    pub fn source(mut self, folder: impl Into<String>) -> Self {
        self.source = Some(folder.into());
        self
    }

    /// A variable that names another source folder, where it is set.
    #[must_use]
    pub fn source_from_env(mut self, variable: impl Into<String>) -> Self {
        self.source_variable = Some(variable.into());
        self
    }

    /// `ggml`, `llama`, `whisper`, `stable-diffusion`, `cmake`.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// The backends to build, or `auto`. Without it the features of the crate say so, then `gpubuild.toml`;
    /// `GPUBUILD_BACKENDS` wins over all of them.
    #[must_use]
    pub fn backends<S: Into<String>>(mut self, list: impl IntoIterator<Item = S>) -> Self {
        self.backends = Some(list.into_iter().map(Into::into).collect());
        self
    }

    /// A further CMake target that the program links.
    #[must_use]
    pub fn target(mut self, name: impl Into<String>) -> Self {
        self.targets.push(name.into());
        self
    }

    /// A further cache entry.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Leaves out backends that were named and cannot be built here, with a warning.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// Uses the libraries that a crate with `links = "<name>"` has built, in place of an own copy: CMake finds them as the
    /// package `<name>`. The crate has to be among `[dependencies]`, and used.
    #[must_use]
    pub fn share(mut self, links: impl Into<String>) -> Self {
        self.shared.push(links.into());
        self
    }

    /// Does not run the script again when this variable changes: `PATH` differs between a terminal and many editors.
    #[must_use]
    pub fn ignore_env(mut self, name: impl Into<String>) -> Self {
        self.ignored.insert(name.into());
        self
    }

    /// Builds, and prints everything that cargo needs to link the result. An error is told to cargo, which then fails the
    /// package.
    pub fn link(&self) {
        // What went wrong stands among the lines.
        let _ = self.run();
    }

    /// The same, for a script that goes on with what came of it.
    ///
    /// # Errors
    /// Something is wrong; cargo was told already and fails the package.
    pub fn run(&self) -> Result<Built, ScriptError> {
        let (script, result) = self.script(&RealHost::new(), &talk::tell);
        talk::print(script.text());
        result
    }

    /// The plan, for a crate that runs CMake or a compiler itself; prints what has cargo run the script again.
    ///
    /// # Errors
    /// There is none: something is wrong or missing.
    pub fn plan(&self) -> Result<Planned, ScriptError> {
        let real = RealHost::new();
        let host = Overlay::new(&real, real.env().recording());
        let mut script = Script::default();
        script.check_cfg();
        let result = match Crate::read(&host) {
            Ok(krate) => self.prepare(&host, krate, &mut script, Source::NotNeeded),
            Err(error) => Err(Stop::Wrong(error)),
        };
        script.watch_variables(host.env().asked().iter().map(String::as_str), &self.ignored);
        if let Ok(planned) = &result {
            script.cfgs(&planned.plan.backends);
        }
        talk::print(script.text());
        result.map_err(|stop| match stop {
            Stop::Wrong(error) => error,
            Stop::Missing(missing, _) => ScriptError::Missing(missing),
        })
    }

    /// What [`Build::run`] prints and answers, on any host.
    pub fn script(
        &self,
        host: &dyn Host,
        sink: &(dyn Fn(&Event) + Sync),
    ) -> (Script, Result<Built, ScriptError>) {
        let host = Overlay::new(host, host.env().recording());
        let mut script = Script::default();
        script.check_cfg();
        let result = self.work(&host, &mut script, sink);
        script.watch_variables(host.env().asked().iter().map(String::as_str), &self.ignored);
        if let Err(error) = &result {
            script.error(&error.told());
        }
        (script, result)
    }

    fn work(
        &self,
        host: &dyn Host,
        script: &mut Script,
        sink: &(dyn Fn(&Event) + Sync),
    ) -> Result<Built, ScriptError> {
        let krate = Crate::read(host)?;
        if let Some(path) = host.env().get(VARIABLE) {
            let path = host.path(path);
            let manifest = Manifest::read(host, &path)?;
            // The variable reaches every crate of a program: one with other libraries builds its own.
            if manifest.project == self.project_name(host, &krate) {
                script.watch(path.as_str());
                for file in manifest.trees.iter().flat_map(|tree| &tree.files) {
                    script.watch(&file.path);
                }
                return Ok(linked(host, script, &krate, (manifest, path), &[]));
            }
        }
        if krate.docs_rs {
            // Nothing is linked there. What the features name is documented.
            let backends = krate.backends().unwrap_or_default();
            script.cfgs(&backends);
            script.glue(host, None);
            return Ok(Built { backends, ..Built::default() });
        }
        let planned = match self.prepare(host, krate.clone(), script, Source::Needed) {
            Ok(planned) => planned,
            Err(Stop::Wrong(error)) => return Err(error),
            Err(Stop::Missing(missing, backends)) => {
                return later(host, &krate, script, missing, backends);
            }
        };
        match self.build(host, &planned, script, sink) {
            Ok(outcome) => {
                script.watch_sources(host, &outcome.manifest, &planned.project.build_root);
                let built = (outcome.manifest, outcome.path);
                Ok(linked(host, script, &krate, built, &planned.shared))
            }
            Err(error @ (BuildError::NoTool { .. } | BuildError::Fetch(_))) if !is_interrupted(&error) => {
                let missing = Missing::one(
                    format!("cannot build {}", planned.project.file.project.name),
                    error.id(),
                    error.to_string(),
                    error.hint(),
                );
                later(host, &krate, script, missing, planned.plan.backends)
            }
            Err(error) => Err(ScriptError::Build(error)),
        }
    }

    /// Looks at the machine and makes the plan.
    fn prepare(
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
        share::apply(&shared, &mut project, &mut request);
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
    fn make(&self, host: &dyn Host, planned: &Planned, without: &[(Backend, String)]) -> Result<Plan, Stop> {
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
        let mut plan = whole::plan(&wish).map_err(|refusal| {
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
        if let Err(error) = whole::put_launchers(&mut plan, &wish, None) {
            plan.notes.push(error.to_string());
        }
        if let Some(cross) = &planned.cross {
            cross.apply(&mut plan);
        }
        for shared in &planned.shared {
            shared.strip(&planned.project, &mut plan);
        }
        Ok(plan)
    }

    fn build(
        &self,
        host: &dyn Host,
        planned: &Planned,
        script: &mut Script,
        sink: &(dyn Fn(&Event) + Sync),
    ) -> Result<Outcome, BuildError> {
        for dropped in planned.plan.dropped.iter().filter(|_| self.allow_missing) {
            let reason = dropped.reasons.first().map_or("", String::as_str);
            script.warning(&format!("{} is left out: {reason}", dropped.id));
        }
        let explain = |printed: Printed<'_>| known::explain(host, &planned.sight, printed);
        let replan = |without: &[(Backend, String)]| {
            self.make(host, planned, without).map_err(|stop| match stop {
                Stop::Wrong(error) => error.to_string(),
                Stop::Missing(missing, _) => missing.line(),
            })
        };
        let job = Job {
            host,
            project: planned.project.file.project.name.clone(),
            root: planned.project.build_root.clone(),
            tools: Tools::of(&planned.sight.inventory),
            network: Network::from_env(host.env()),
            store: planned.store.clone(),
            binary: BuildBinary::No,
            replan: Some(&replan),
            explain: Some(&explain),
            sink,
        };
        for shared in &planned.shared {
            shared
                .write_package(host, &planned.project.build_root)
                .map_err(|error| BuildError::io("write into", &planned.project.build_root, &error))?;
        }
        let outcome = exec::build(&job, &planned.plan)?;
        for dropped in &outcome.dropped {
            if !planned.plan.dropped.contains(dropped) {
                let reason = dropped.reasons.first().map_or("", String::as_str);
                script.warning(&format!("{} is left out: {reason}", dropped.id));
            }
        }
        Ok(outcome)
    }

    /// The project: the file, if there is one, and what the script says on top.
    fn assemble(
        &self,
        host: &dyn Host,
        krate: &Crate,
        script: &mut Script,
        source: Source,
    ) -> Result<Project, ScriptError> {
        let folder =
            self.project.as_ref().map_or_else(|| krate.folder.clone(), |folder| krate.folder.join(folder));
        let path = folder.normalized().join(project::FILE_NAME);
        let is_there = host.is_file(&path);
        let mut file = if is_there {
            script.watch(path.as_str());
            let text = host.read_text(&path).map_err(|error| ProjectError::Unreadable {
                path: path.to_string(),
                message: error.to_string(),
            })?;
            project::parse(path.as_str(), &text)?.0
        } else if self.project.is_none() && (self.source.is_some() || source == Source::NotNeeded) {
            bare(krate)?
        } else {
            return Err(ProjectError::NotFound { start: folder.to_string() }.into());
        };
        let table = &mut file.project;
        if let Some(folder) = &self.source {
            table.source = krate.folder.join(folder).normalized().to_string();
        }
        if let Some(folder) = self.source_variable.as_ref().and_then(|name| host.env().get(name)) {
            folder.clone_into(&mut table.source);
        }
        table.profile = self.profile.clone().unwrap_or_else(|| table.profile.clone());
        table.targets.extend(self.targets.iter().map(|target| Wanted::new(target)));
        table.options.extend(self.options.clone());
        for (name, value) in krate.options() {
            table.options.entry(name).or_insert(value);
        }
        let Some(profile) = Profile::builtin(&table.profile) else {
            return Err(ProjectError::UnknownProfile {
                path: path.to_string(),
                name: table.profile.clone(),
                known: Profile::names().map(str::to_owned).collect(),
            }
            .into());
        };
        if source == Source::NotNeeded && !is_there {
            // A crate that compiles its own sources names backends by its features alone.
            let mut known = self.named_here();
            known.extend(krate.enabled.iter().copied());
            if self.backends.is_none() && krate.declared.is_empty() {
                known.extend(Backend::ALL);
            }
            for backend in known {
                file.backends.entry(backend).or_default();
            }
            return Ok(Project {
                with: Vec::new(),
                source: krate.folder.clone(),
                root: krate.folder.clone(),
                build_root: krate.out.clone(),
                file,
                profile,
                known: BTreeSet::new(),
                without_kernels: BTreeSet::new(),
            });
        }
        Ok(project::assemble(host, &path, file, profile)?)
    }

    /// What `gpubuild.toml` calls the project, else the name of the crate.
    fn project_name(&self, host: &dyn Host, krate: &Crate) -> String {
        let folder =
            self.project.as_ref().map_or_else(|| krate.folder.clone(), |folder| krate.folder.join(folder));
        let path = folder.normalized().join(project::FILE_NAME);
        let file = host.read_text(&path).ok().and_then(|text| project::parse(path.as_str(), &text).ok());
        file.map_or_else(|| krate.name.clone(), |(file, _)| file.project.name)
    }

    /// The backends that the script names, as far as they are any.
    fn named_here(&self) -> Vec<Backend> {
        self.backends.iter().flatten().filter_map(|name| name.parse().ok()).collect()
    }

    /// What to build: `GPUBUILD_BACKENDS` and its like, then the script, the features, the file.
    fn request(&self, host: &dyn Host, krate: &Crate, project: &mut Project) -> Result<Request, ScriptError> {
        let table = &mut project.file.project;
        let mut origin = None;
        if let Some(list) = &self.backends {
            table.backends = Some(project::Request::Word(list.join(",")));
            origin = Some("the build script".to_owned());
        } else if let Some(list) = krate.backends() {
            table.backends =
                Some(project::Request::List(list.iter().map(|backend| backend.id().to_owned()).collect()));
            let ids: Vec<&str> = krate.enabled.iter().map(|backend| backend.id()).collect();
            origin = Some(match ids.as_slice() {
                [] => "Cargo.toml".to_owned(),
                ids => format!("`--features {}`", ids.join(",")),
            });
        }
        let mut request = request::resolve(None, host.env(), Some(&*table))
            .map_err(|(from, error)| ScriptError::Backend { origin: from, message: error.to_string() })?;
        if let (Some(origin), project::FILE_NAME) = (origin, request.origin.as_str()) {
            request.origin = origin;
        }
        Ok(request)
    }
}

/// Whether there has to be a CMake project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Needed,
    NotNeeded,
}

/// What `gpubuild.toml` would say where there is none.
fn bare(krate: &Crate) -> Result<ProjectFile, ProjectError> {
    let plain: String =
        krate.name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    let name = if plain.is_empty() { "native" } else { &plain };
    let text = format!("schema = 1\n[project]\nname = \"{name}\"\nsource = \".\"\n");
    project::parse("build.rs", &text).map(|(file, _)| file)
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

fn is_interrupted(error: &BuildError) -> bool {
    matches!(error, BuildError::Fetch(crate::python::FetchError::Interrupted))
}

/// Nothing is built: whoever links a program is told why.
fn later(
    host: &dyn Host,
    krate: &Crate,
    script: &mut Script,
    missing: Missing,
    backends: Vec<Backend>,
) -> Result<Built, ScriptError> {
    missing
        .defer(host, krate, script)
        .map_err(|error| ScriptError::Io { path: krate.out.to_string(), message: error.to_string() })?;
    if krate.links.is_some() {
        share::export_missing(script);
    }
    // The crate is checked as it will be once everything is there.
    script.glue(host, None);
    script.cfgs(&backends);
    Ok(Built { backends, missing: Some(missing), ..Built::default() })
}

/// Says how the result is linked.
fn linked(
    host: &dyn Host,
    script: &mut Script,
    krate: &Crate,
    (manifest, path): (Manifest, HostPath),
    shared: &[Shared],
) -> Built {
    let theirs = shared.iter().flat_map(|one| one.manifest.backends.iter());
    let mut backends: Vec<Backend> = manifest.backends.iter().chain(theirs).copied().collect();
    backends.sort();
    backends.dedup();
    script.cfgs(&backends);
    script.glue(host, Some(&manifest));
    let mut folders = Vec::new();
    if let Some(root) = path.parent() {
        let (found, why) = record::search_path(host, &root);
        folders = found;
        if let Some(why) = why {
            script.warning(&why);
        }
    }
    // What another crate has built, that crate links.
    let own = shared.iter().fold(manifest.clone(), |own, one| one.without(own));
    let libraries = script.link(host, &own, folders);
    if krate.links.is_some() {
        share::export(script, &manifest, &path);
    }
    Built {
        interface: manifest.interface(),
        backends,
        libraries,
        path: Some(path),
        manifest: Some(manifest),
        missing: None,
    }
}
