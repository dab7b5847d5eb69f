//! Bindings for a project's headers. bindgen gets the settings of the libraries' build, and its results are kept by content, so
//! that a clean build without changes needs no libclang.
//!
//! bindgen is a dependency of the crate. gpubuild passes headers, arguments and a path for the list of files that were read,
//! and does not use its types, so any version works.

mod call;
mod clang;
mod kept;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use call::BindgenCall;
use clang::Clang;
use kept::Kept;

use super::built::{BuildFolders, Built};
use super::missing::{MissingCause, MissingRequirement};
use super::script::ScriptEnvironment;
use super::{ScriptError, output};
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, FindingDraft, Findings, Severity};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_detect::toolkit::libclang;
use gpubuild_host::{Host, HostPath, InspectHost, RealHost, WriteFiles};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::machine;

/// bindgen's panic message if it cannot load libclang.
const NO_LIBCLANG: &str = "Unable to find libclang";

/// The finding's id for a missing libclang.
const NO_LIBCLANG_ID: DiagnosticId = id!("cuda.libclang-missing");

/// Bindings that a build script generates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bindings {
    place: Option<BuildFolders>,
    manifest: Option<Manifest>,
    missing: Option<MissingRequirement>,
    headers: Vec<String>,
    includes: Vec<String>,
    /// Include folders below the project's sources.
    source_includes: Vec<String>,
    file: String,
    prebuilt: Option<String>,
    pinned_libclang: bool,
    key: Option<String>,
}

impl Built {
    /// Bindings for the `headers` of gpubuild.toml and any that [`Bindings::header`] adds.
    #[must_use]
    pub fn bindings(&self) -> Bindings {
        Bindings {
            place: self.place.clone(),
            manifest: self.manifest.clone(),
            missing: self.missing.clone(),
            headers: self.place.as_ref().map(|place| place.headers.clone()).unwrap_or_default(),
            includes: Vec::new(),
            source_includes: Vec::new(),
            file: "bindings.rs".to_owned(),
            prebuilt: None,
            pinned_libclang: false,
            key: None,
        }
    }
}

impl Bindings {
    /// An additional header: relative to the project's sources, or as a source file would include it.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>) -> Self {
        self.headers.push(name.into());
        self
    }

    /// An additional include folder, relative to the crate's folder. If nothing is built, on docs.rs or while a toolkit is
    /// missing, only these folders are searched.
    #[must_use]
    pub fn include(mut self, folder: impl Into<String>) -> Self {
        self.includes.push(folder.into());
        self
    }

    /// Like [`Bindings::include`], relative to the project's sources, wherever gpubuild.toml takes them from.
    #[must_use]
    pub fn include_source(mut self, folder: impl Into<String>) -> Self {
        self.source_includes.push(folder.into());
        self
    }

    /// The file's name in `OUT_DIR`; the default is `bindings.rs`.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>) -> Self {
        self.file = name.into();
        self
    }

    /// Bindings that the crate contains, relative to its folder. They are used if libclang or the headers are
    /// missing.
    #[must_use]
    pub fn prebuilt(mut self, path: impl Into<String>) -> Self {
        self.prebuilt = Some(path.into());
        self
    }

    /// Uses the libclang that gpubuild pins, the same one on every machine, instead of the machine's. It is fetched into
    /// gpubuild's cache. `LIBCLANG_PATH` still takes precedence, and docs.rs uses its installed libclang. Without this call, the
    /// pinned one is used only if the machine has no libclang and the crate contains no bindings.
    #[must_use]
    pub fn pinned_libclang(mut self) -> Self {
        self.pinned_libclang = true;
        self
    }

    /// A text that changes whenever bindgen's version or settings change. The default is a hash of the build script's program,
    /// which is always correct but differs between clones of a repository.
    #[must_use]
    pub fn key(mut self, text: impl Into<String>) -> Self {
        self.key = Some(text.into());
        self
    }

    /// Writes the bindings, reusing those of an earlier build if nothing changed. Errors are reported to cargo, which then fails
    /// the package. `make` may panic, as bindgen does without libclang. The path of a fetched libclang is passed to bindgen in this
    /// process's `LIBCLANG_PATH`, so a build script with other threads must end them first.
    pub fn write<E: Display>(&self, make: impl FnOnce(&BindgenCall) -> Result<String, E>) {
        let (script, _) = self.script(&RealHost::new(), make);
        output::print(script.text());
    }

    /// The lines that [`Bindings::write`] prints and the path of the written file, on any host.
    pub(crate) fn script<E: Display>(
        &self,
        host: &dyn Host,
        make: impl FnOnce(&BindgenCall) -> Result<String, E>,
    ) -> (ScriptEnvironment, Result<HostPath, ScriptError>) {
        host.env().record_queries();
        let mut script = ScriptEnvironment::default();
        let result = self.work(host, &mut script, |call| make(call).map_err(|error| error.to_string()));
        let none = BTreeSet::new();
        let ignored = self.place.as_ref().map_or(&none, |place| &place.ignored);
        script.watch_variables(host.env().queried_names().iter().map(String::as_str), ignored);
        if let Err(error) = &result {
            script.error(&error.full_message());
        }
        (script, result)
    }

    fn work(
        &self,
        host: &dyn Host,
        script: &mut ScriptEnvironment,
        make: impl FnOnce(&BindgenCall) -> Result<String, String>,
    ) -> Result<HostPath, ScriptError> {
        let Some(place) = &self.place else {
            return Err(ScriptError::NoCargo { variable: "OUT_DIR".to_owned() });
        };
        let call = match self.call(host, place) {
            Ok(call) => call,
            Err(error) => return self.fall_back(host, script, place, error),
        };
        // docs.rs has no network access, but has a libclang.
        let has_network = !place.krate.docs_rs;
        let may_fetch = has_network && self.prebuilt.is_none();
        let clang = Clang::choose(host, has_network && self.pinned_libclang, may_fetch);
        let mut kept = Kept::of(host, self, place, &call, clang.identity(host));
        let text = if let Some(text) = kept.find(host) {
            text
        } else {
            host.remove(&host.path(&call.depfile)).map_err(|error| ScriptError::io(&call.depfile, &error))?;
            if let Err(error) = clang.provide(host) {
                let mut missing = no_libclang(host, &self.file);
                missing.causes.push(MissingCause::of_fetch(&error));
                return self.fall_back(host, script, place, ScriptError::Missing(missing));
            }
            kept.libclang = clang.identity(host);
            match generate(&call, make) {
                Ok(text) => {
                    if let Some(why) = kept.put(host, &call, &text) {
                        script.warning(&format!("`{}` is regenerated by each build: {why}", self.file));
                    }
                    text
                }
                Err(message) if message.contains(NO_LIBCLANG) => {
                    let error = ScriptError::Missing(no_libclang(host, &self.file));
                    return self.fall_back(host, script, place, error);
                }
                Err(message) => {
                    return Err(ScriptError::Bindings { file: self.file.clone(), message });
                }
            }
        };
        let trees = self.manifest.iter().flat_map(|manifest| &manifest.trees);
        let built: Vec<HostPath> = trees.map(|tree| host.path(&tree.build)).collect();
        for path in kept.read.keys().filter(|path| !built.iter().any(|root| host.path(path).is_inside(root)))
        {
            script.watch(path);
        }
        self.publish(host, place, &text)
    }

    /// The bindings that the crate contains, or else the error.
    fn fall_back(
        &self,
        host: &dyn WriteFiles,
        script: &mut ScriptEnvironment,
        place: &BuildFolders,
        error: ScriptError,
    ) -> Result<HostPath, ScriptError> {
        let Some(name) = &self.prebuilt else { return Err(error) };
        let path = place.krate.folder.join(name).normalized();
        let Ok(text) = host.read_text(&path) else { return Err(error) };
        script.watch(path.as_str());
        let why = match &error {
            ScriptError::Missing(missing) => missing.causes.first().map(|cause| cause.text.clone()),
            _ => None,
        };
        let why = why.unwrap_or_else(|| error.to_string());
        script.warning(&format!("using `{name}` instead of `{}`: {why} [{}]", self.file, error.id()));
        self.publish(host, place, &text)
    }

    /// Writes the file that the crate includes. An identical file keeps its modification time, so that cargo does not recompile the crate.
    fn publish(
        &self,
        host: &dyn WriteFiles,
        place: &BuildFolders,
        text: &str,
    ) -> Result<HostPath, ScriptError> {
        let path = place.krate.out.join(&self.file);
        if host.read_text(&path).is_ok_and(|before| before == text) {
            return Ok(path);
        }
        host.write(&path, text.as_bytes()).map_err(|error| ScriptError::io(path.as_str(), &error))?;
        Ok(path)
    }
}

/// Calls bindgen. A panic becomes an error with its message.
fn generate(
    call: &BindgenCall,
    make: impl FnOnce(&BindgenCall) -> Result<String, String>,
) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(|| make(call))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "it panicked".to_owned()))
    })
}

/// The doctor's finding about a missing libclang, for this machine.
fn no_libclang(host: &dyn InspectHost, file: &str) -> MissingRequirement {
    let machine = machine::inspect(host, Catalogue::embedded());
    let findings = Findings::embedded();
    let draft = FindingDraft::new(NO_LIBCLANG_ID).affects(Affects::Build);
    let draft = match libclang::find(host).1 {
        Some(place) => draft.case("variable").value("place", place.as_str()),
        None => draft.case("script"),
    };
    let renderer = FindingRenderer::new(
        &machine.facts,
        &machine.catalogue,
        &findings,
        host.identity().uid.is_some_and(|uid| uid == 0),
    );
    let finding = renderer.render(&draft, Severity::Error);
    MissingRequirement {
        what: format!("cannot generate `{file}`"),
        causes: vec![MissingCause::of_finding(&finding)],
    }
}

#[cfg(test)]
mod tests;
