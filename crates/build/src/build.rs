//! The build script of a crate that contains a native project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::exec::binary::BUILT;
use gpubuild_exec::exec::{
    self, BuildBinary, BuildError, BuildEvent, BuildJob, BuildOutcome, InstalledTools, Printed, known,
};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::{Host, HostInfo, HostPath, ReadFiles, RealHost, WriteFiles};
use gpubuild_link::internal;
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::plan::Plan;
use gpubuild_plan::project::{self, source::locate};

use super::assemble::HeaderSource;
use super::built::{BuildFolders, Built};
use super::cargo::BuildingCrate;
use super::finish::{later, linked};
use super::missing::MissingRequirement;
use super::prepare::{Planned, PrepareStop};
use super::same;
use super::script::ScriptEnvironment;
use super::{ScriptError, VARIABLE, output};

/// What a build script builds and how. `gpubuild_build::Build::new().link()` is a complete `main`.
///
/// Settings that the script does not make come from the `gpubuild.toml` beside the crate's Cargo.toml.
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
    pub(super) allow_same: bool,
    pub(super) ignored: BTreeSet<String>,
}

impl Build {
    /// The project of `gpubuild.toml` beside the crate's Cargo.toml.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `gpubuild.toml` from this folder, relative to the crate's.
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

    /// A variable that, when set, names another source folder.
    #[must_use]
    pub fn source_from_env(mut self, variable: impl Into<String>) -> Self {
        self.source_variable = Some(variable.into());
        self
    }

    /// The name of a profile: `ggml`, `llama`, `whisper`, `stable-diffusion`, `cmake`.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// The backends to build, or `auto`. The default comes from the crate's features, then from `gpubuild.toml`.
    /// `GPUBUILD_BACKENDS` overrides all of them.
    #[must_use]
    pub fn backends<S: Into<String>>(mut self, list: impl IntoIterator<Item = S>) -> Self {
        self.backends = Some(list.into_iter().map(Into::into).collect());
        self
    }

    /// An additional CMake target that the program links.
    #[must_use]
    pub fn target(mut self, name: impl Into<String>) -> Self {
        self.targets.push(name.into());
        self
    }

    /// An additional cache entry.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Leaves out requested backends that cannot be built here, with a warning.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.allow_missing = true;
        self
    }

    /// Uses the libraries that a crate with `links = "<name>"` has built, instead of a second copy: CMake finds them as the
    /// package `<name>`. The crate must be in `[dependencies]`, and the program must use it.
    #[must_use]
    pub fn share(mut self, links: impl Into<String>) -> Self {
        self.shared.push(links.into());
        self
    }

    /// Allows this crate's libraries to define symbols that those of another crate also define. The linker decides which of the
    /// two a program calls.
    #[must_use]
    pub fn allow_same_symbols(mut self) -> Self {
        self.allow_same = true;
        self
    }

    /// Does not rerun the script when this variable changes: `PATH` differs between a terminal and many editors.
    #[must_use]
    pub fn ignore_env(mut self, name: impl Into<String>) -> Self {
        self.ignored.insert(name.into());
        self
    }

    /// Builds, and prints the lines with which cargo links the result. An error is reported to cargo, which then fails the
    /// package.
    pub fn link(&self) {
        // The printed lines already contain the error.
        let _ = self.run();
    }

    /// Like [`link`](Self::link), for a script that uses the result.
    ///
    /// # Errors
    /// The build failed. The error was already reported to cargo, which fails the package.
    pub fn run(&self) -> Result<Built, ScriptError> {
        let (script, result) = self.script(&RealHost::new(), &output::report);
        output::print(script.text());
        result
    }

    /// The plan, for a crate that runs CMake or a compiler itself. Prints the conditions for rerunning the script.
    ///
    /// # Errors
    /// The plan could not be made.
    pub fn plan(&self) -> Result<Planned, ScriptError> {
        let host = RealHost::new();
        host.env().record_queries();
        let mut script = ScriptEnvironment::default();
        script.check_cfg();
        let result = match BuildingCrate::read(&host) {
            Ok(krate) => self.prepare(&host, krate, &mut script, HeaderSource::NotNeeded),
            Err(error) => Err(PrepareStop::Wrong(error)),
        };
        script.watch_variables(host.env().queried_names().iter().map(String::as_str), &self.ignored);
        if let Ok(planned) = &result {
            script.cfgs(&planned.plan.backends);
            self.warn(&planned.plan, &mut script);
        }
        output::print(script.text());
        result.map_err(|stop| match stop {
            PrepareStop::Wrong(error) => error,
            PrepareStop::Missing(missing, _) => ScriptError::Missing(missing),
        })
    }

    /// The lines that [`Build::run`] prints and its result, on any host.
    pub(crate) fn script(
        &self,
        host: &dyn Host,
        sink: &(dyn Fn(&BuildEvent) + Sync),
    ) -> (ScriptEnvironment, Result<Built, ScriptError>) {
        host.env().record_queries();
        let mut script = ScriptEnvironment::default();
        script.check_cfg();
        let result = self.work(host, &mut script, sink).map(|built| {
            let place = BuildingCrate::read(host).ok().map(|krate| self.place(host, krate));
            Built { place, ..built }
        });
        script.watch_variables(host.env().queried_names().iter().map(String::as_str), &self.ignored);
        if let Err(error) = &result {
            script.error(&error.full_message());
        }
        (script, result)
    }

    fn work(
        &self,
        host: &dyn Host,
        script: &mut ScriptEnvironment,
        sink: &(dyn Fn(&BuildEvent) + Sync),
    ) -> Result<Built, ScriptError> {
        let krate = BuildingCrate::read(host)?;
        if let Some(path) = host.env().get(VARIABLE).or_else(|| host.env().get(BUILT)) {
            let path = host.path(path);
            let manifest = Manifest::read(host, &path)?;
            // Every crate of a program sees the variable; a crate with other libraries builds them.
            if manifest.project == self.project_name(host, &krate) {
                script.watch(path.as_str());
                for file in manifest.trees.iter().flat_map(|tree| &tree.files) {
                    script.watch(&file.path);
                }
                self.compare(host, script, &krate, (&manifest, &path))?;
                // Backends that the script or the environment names override the features.
                if self.backends.is_none()
                    && !self.allow_missing
                    && host.env().get("GPUBUILD_BACKENDS").is_none()
                {
                    let built: Vec<String> = manifest.backends.iter().map(ToString::to_string).collect();
                    script.append(&internal::demand(variables(host), Path::new(path.as_str()), &built));
                }
                return Ok(linked(host, script, &krate, (manifest, path), &[]));
            }
        }
        if krate.docs_rs {
            // docs.rs links nothing; the documentation covers the backends that the features name.
            let backends = krate.backends().unwrap_or_default();
            script.cfgs(&backends);
            script.glue(host, None);
            return Ok(Built { backends, ..Built::default() });
        }
        let planned = match self.prepare(host, krate.clone(), script, HeaderSource::Needed) {
            Ok(planned) => planned,
            Err(PrepareStop::Wrong(error)) => return Err(error),
            Err(PrepareStop::Missing(missing, backends)) => {
                return later(host, &krate, script, missing, backends);
            }
        };
        match self.build(host, &planned, script, sink) {
            Ok(outcome) => {
                script.watch_sources(host, &outcome.manifest, &planned.project.build_root);
                self.compare(host, script, &krate, (&outcome.manifest, &outcome.path))?;
                let built = (outcome.manifest, outcome.path);
                Ok(linked(host, script, &krate, built, &planned.shared))
            }
            Err(error @ (BuildError::NoTool { .. } | BuildError::Fetch(_))) if !is_interrupted(&error) => {
                let missing = MissingRequirement::one(
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

    /// Fails if another crate of the program defines the same symbols.
    fn compare(
        &self,
        host: &dyn WriteFiles,
        script: &mut ScriptEnvironment,
        krate: &BuildingCrate,
        (manifest, path): (&Manifest, &HostPath),
    ) -> Result<(), ScriptError> {
        if self.allow_same {
            return Ok(());
        }
        let own = (krate.name.as_str(), Path::new(path.as_str()));
        let (watched, same) = internal::same_symbols(variables(host), own);
        for path in &watched {
            if let Some(path) = path.to_str() {
                script.watch(path);
            }
        }
        if let Some(message) = same {
            return Err(ScriptError::Same { message });
        }
        same::mark(host, krate, manifest, script).map_err(|error| ScriptError::io(krate.out.as_str(), &error))
    }

    /// Warns about requested backends that are left out, and about the plan's warnings.
    fn warn(&self, plan: &Plan, script: &mut ScriptEnvironment) {
        for dropped in plan.dropped.iter().filter(|_| self.allow_missing) {
            let reason = dropped.reasons.first().map_or("", String::as_str);
            script.warning(&format!("{} is left out: {reason}", dropped.id));
        }
        for warning in &plan.warnings {
            script.warning(warning);
        }
    }

    fn build(
        &self,
        host: &dyn Host,
        planned: &Planned,
        script: &mut ScriptEnvironment,
        sink: &(dyn Fn(&BuildEvent) + Sync),
    ) -> Result<BuildOutcome, BuildError> {
        self.warn(&planned.plan, script);
        let explain = |printed: Printed<'_>| {
            known::explain(host, &planned.machine.facts, &planned.machine.catalogue, printed)
        };
        let replan = |without: &[(Backend, String)]| {
            self.make(host, planned, without).map_err(|stop| match stop {
                PrepareStop::Wrong(error) => error.to_string(),
                PrepareStop::Missing(missing, _) => missing.line(),
            })
        };
        let job = BuildJob {
            host,
            project: planned.project.file.project.name.clone(),
            root: planned.project.build_root.clone(),
            lock: exec::folder::lock_path(&planned.project.build_root),
            tools: InstalledTools::of(&planned.machine.inventory),
            network: Network::from_env(host.env()),
            store: planned.store.clone(),
            // A network client would make every build script slower to compile.
            direct: None,
            remote: None,
            binary: BuildBinary::No,
            replan: Some(&replan),
            explain: Some(&explain),
            runtime: None,
            sink,
        };
        let outcome = exec::build(&job, &planned.plan)?;
        for dropped in &outcome.dropped {
            if !planned.plan.dropped.contains(dropped) {
                let reason = dropped.reasons.first().map_or("", String::as_str);
                script.warning(&format!("{} is left out: {reason}", dropped.id));
            }
        }
        Ok(outcome)
    }
}

fn is_interrupted(error: &BuildError) -> bool {
    matches!(error, BuildError::Fetch(gpubuild_exec::python::WheelFetchError::Interrupted))
}

impl Build {
    /// Folders for headers and results; also used where nothing is built, as on docs.rs, because bindings need only headers.
    pub(super) fn place(&self, host: &dyn ReadFiles, krate: BuildingCrate) -> BuildFolders {
        let folder =
            self.project.as_ref().map_or_else(|| krate.folder.clone(), |folder| krate.folder.join(folder));
        let folder = folder.normalized();
        let path = folder.join(project::FILE_NAME);
        let file = host.read_text(&path).ok().and_then(|text| project::parse(path.as_str(), &text).ok());
        let file = file.map(|(file, _)| file);
        let named = self.source_variable.as_ref().and_then(|name| host.env().get(name));
        let source = match (named, &self.source, &file) {
            (Some(named), _, _) => Some(folder.join(named).normalized()),
            (None, Some(source), _) => Some(krate.folder.join(source).normalized()),
            (None, None, Some(file)) => {
                locate::folder(host, &folder, &file.project).ok().map(|folder| folder.normalized())
            }
            (None, None, None) => None,
        };
        let cache = file.as_ref().map(|file| file.cache.clone()).unwrap_or_default();
        BuildFolders {
            source,
            headers: file.map(|file| file.project.headers).unwrap_or_default(),
            // The build has already reported invalid settings.
            store: Store::open(host, &cache, Some(&folder)).ok().flatten(),
            ignored: self.ignored.clone(),
            krate,
        }
    }
}

/// The environment variables of the build script.
fn variables(host: &dyn HostInfo) -> impl Iterator<Item = (String, String)> {
    host.env().iter().map(|(name, value)| (name.to_owned(), value.to_owned()))
}
