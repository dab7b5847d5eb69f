//! The build script of a crate that brings a native project along.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpubuild_core::backend::Backend;
use gpubuild_exec::exec::binary::BUILT;
use gpubuild_exec::exec::{self, BuildBinary, BuildError, Event, Job, Outcome, Printed, Tools, known};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::{Host, HostPath, Overlay, RealHost};
use gpubuild_link::internal;
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::plan::Plan;
use gpubuild_plan::project;

use super::assemble::Source;
use super::built::{Built, Place};
use super::cargo::Crate;
use super::finish::{later, linked};
use super::missing::Missing;
use super::prepare::{Planned, Stop};
use super::same;
use super::script::Script;
use super::{ScriptError, VARIABLE, talk};

/// What a build script builds and how: `gpubuild_build::Build::new().link()` is a whole `main`.
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
    pub(super) allow_same: bool,
    pub(super) ignored: BTreeSet<String>,
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

    /// Lets this crate's libraries define symbols that those of another crate define too. Which of the two a program then calls
    /// is up to the linker.
    #[must_use]
    pub fn allow_same_symbols(mut self) -> Self {
        self.allow_same = true;
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
            self.tell(&planned.plan, &mut script);
        }
        talk::print(script.text());
        result.map_err(|stop| match stop {
            Stop::Wrong(error) => error,
            Stop::Missing(missing, _) => ScriptError::Missing(missing),
        })
    }

    /// What [`Build::run`] prints and answers, on any host.
    pub(crate) fn script(
        &self,
        host: &dyn Host,
        sink: &(dyn Fn(&Event) + Sync),
    ) -> (Script, Result<Built, ScriptError>) {
        let host = Overlay::new(host, host.env().recording());
        let mut script = Script::default();
        script.check_cfg();
        let result = self.work(&host, &mut script, sink).map(|built| {
            let place = Crate::read(&host).ok().map(|krate| self.place(&host, krate));
            Built { place, ..built }
        });
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
        if let Some(path) = host.env().get(VARIABLE).or_else(|| host.env().get(BUILT)) {
            let path = host.path(path);
            let manifest = Manifest::read(host, &path)?;
            // The variable reaches every crate of a program: one with other libraries builds its own.
            if manifest.project == self.project_name(host, &krate) {
                script.watch(path.as_str());
                for file in manifest.trees.iter().flat_map(|tree| &tree.files) {
                    script.watch(&file.path);
                }
                self.compare(host, script, &krate, (&manifest, &path))?;
                // Whoever names backends elsewhere means those, whatever the features say.
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
                self.compare(host, script, &krate, (&outcome.manifest, &outcome.path))?;
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

    /// Two crates of one program must not define the same symbols.
    fn compare(
        &self,
        host: &dyn Host,
        script: &mut Script,
        krate: &Crate,
        (manifest, path): (&Manifest, &HostPath),
    ) -> Result<(), ScriptError> {
        if self.allow_same {
            return Ok(());
        }
        let own = (krate.name.as_str(), Path::new(path.as_str()));
        let (watched, same) = internal::same_symbols(variables(host), own);
        for path in &watched {
            script.watch(&path.to_string_lossy());
        }
        if let Some(message) = same {
            return Err(ScriptError::Same { message });
        }
        same::mark(host, krate, manifest, script)
            .map_err(|error| ScriptError::Io { path: krate.out.to_string(), message: error.to_string() })
    }

    /// Warns of what was asked for and is left out, and of what may go wrong.
    fn tell(&self, plan: &Plan, script: &mut Script) {
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
        script: &mut Script,
        sink: &(dyn Fn(&Event) + Sync),
    ) -> Result<Outcome, BuildError> {
        self.tell(&planned.plan, script);
        let explain = |printed: Printed<'_>| {
            known::explain(host, &planned.sight.facts, &planned.sight.catalogue, printed)
        };
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
            lock: exec::folder::lock_path(&planned.project.build_root),
            tools: Tools::of(&planned.sight.inventory),
            network: Network::from_env(host.env()),
            store: planned.store.clone(),
            binary: BuildBinary::No,
            replan: Some(&replan),
            explain: Some(&explain),
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
    matches!(error, BuildError::Fetch(gpubuild_exec::python::FetchError::Interrupted))
}

impl Build {
    /// Also where nothing is built, as on docs.rs: bindings are made of headers alone.
    pub(super) fn place(&self, host: &dyn Host, krate: Crate) -> Place {
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
            (None, None, Some(file)) => Some(folder.join(&file.project.source).normalized()),
            (None, None, None) => None,
        };
        let cache = file.as_ref().map(|file| file.cache.clone()).unwrap_or_default();
        Place {
            source,
            headers: file.map(|file| file.project.headers).unwrap_or_default(),
            // What is wrong with the settings was told by the build.
            store: Store::open(host, &cache, Some(&folder)).ok().flatten(),
            ignored: self.ignored.clone(),
            krate,
        }
    }
}

/// The environment variables of the build script.
fn variables(host: &dyn Host) -> impl Iterator<Item = (String, String)> {
    host.env().iter().map(|(name, value)| (name.to_owned(), value.to_owned()))
}
