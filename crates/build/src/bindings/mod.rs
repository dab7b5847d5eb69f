//! Bindings of a project's headers: bindgen gets what the libraries were built with, and what it makes is kept by content, so
//! that a clean build with nothing changed needs no libclang.
//!
//! bindgen is the crate's own dependency. gpubuild hands it headers, arguments and a place for the list of files that were
//! read, and never sees its types: any version goes.

mod call;
mod clang;
mod kept;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use call::Call;
use clang::Clang;
use kept::Kept;

use super::built::{Built, Place};
use super::missing::{Cause, Missing};
use super::script::Script;
use super::{ScriptError, talk};
use gpubuild_detect::finding::{Affects, Draft, Findings, Severity};
use gpubuild_detect::tell::Teller;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_detect::toolkit::libclang;
use gpubuild_host::{Host, HostPath, Overlay, RealHost};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::look;

/// What bindgen says, as a panic, where it cannot load libclang.
const NO_LIBCLANG: &str = "Unable to find libclang";

/// The finding about that.
const NO_LIBCLANG_ID: &str = "cuda.libclang-missing";

/// Bindings that a build script makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bindings {
    place: Option<Place>,
    manifest: Option<Manifest>,
    missing: Option<Missing>,
    headers: Vec<String>,
    includes: Vec<String>,
    file: String,
    prebuilt: Option<String>,
    pinned_libclang: bool,
    key: Option<String>,
}

impl Built {
    /// Bindings of the headers that gpubuild.toml names under `headers`, and of further ones.
    #[must_use]
    pub fn bindings(&self) -> Bindings {
        Bindings {
            place: self.place.clone(),
            manifest: self.manifest.clone(),
            missing: self.missing.clone(),
            headers: self.place.as_ref().map(|place| place.headers.clone()).unwrap_or_default(),
            includes: Vec::new(),
            file: "bindings.rs".to_owned(),
            prebuilt: None,
            pinned_libclang: false,
            key: None,
        }
    }
}

impl Bindings {
    /// A further header: below the project's sources, or as a source file would include it.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>) -> Self {
        self.headers.push(name.into());
        self
    }

    /// A folder with headers, relative to the crate's, beside those of the libraries. Where nothing is built, on docs.rs or
    /// while a toolkit is missing, only these are searched.
    #[must_use]
    pub fn include(mut self, folder: impl Into<String>) -> Self {
        self.includes.push(folder.into());
        self
    }

    /// The name of the file in `OUT_DIR`; `bindings.rs` without it.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>) -> Self {
        self.file = name.into();
        self
    }

    /// Bindings that come with the crate, relative to its folder: they are used where libclang is missing, or the headers
    /// are.
    #[must_use]
    pub fn prebuilt(mut self, path: impl Into<String>) -> Self {
        self.prebuilt = Some(path.into());
        self
    }

    /// Has the libclang that gpubuild pins make them, on every machine the same one, instead of the machine's own. It is
    /// fetched into gpubuild's cache. What `LIBCLANG_PATH` names comes first all the same, and docs.rs has its own. Without this the pinned one stands in
    /// where a machine has none and no bindings come with the crate.
    #[must_use]
    pub fn pinned_libclang(mut self) -> Self {
        self.pinned_libclang = true;
        self
    }

    /// A text that changes whenever bindgen's version or its settings do. Without it the content of the build script's own
    /// program stands for both, which is always right, and differs between clones of a repository.
    #[must_use]
    pub fn key(mut self, text: impl Into<String>) -> Self {
        self.key = Some(text.into());
        self
    }

    /// Writes the bindings, those of an earlier build where nothing changed. What goes wrong is told to cargo, which then
    /// fails the package. `make` may panic, as bindgen does without libclang. A libclang that was fetched is told to bindgen by
    /// the variable `LIBCLANG_PATH` of this process: a build script that has threads of its own ends them first.
    pub fn write<E: Display>(&self, make: impl FnOnce(&Call) -> Result<String, E>) {
        let (script, _) = self.script(&RealHost::new(), make);
        talk::print(script.text());
    }

    /// What [`Bindings::write`] prints and answers, on any host: the file that was written.
    pub(crate) fn script<E: Display>(
        &self,
        host: &dyn Host,
        make: impl FnOnce(&Call) -> Result<String, E>,
    ) -> (Script, Result<HostPath, ScriptError>) {
        let host = Overlay::new(host, host.env().recording());
        let mut script = Script::default();
        let result = self.work(&host, &mut script, |call| make(call).map_err(|error| error.to_string()));
        let none = BTreeSet::new();
        let ignored = self.place.as_ref().map_or(&none, |place| &place.ignored);
        script.watch_variables(host.env().asked().iter().map(String::as_str), ignored);
        if let Err(error) = &result {
            script.error(&error.told());
        }
        (script, result)
    }

    fn work(
        &self,
        host: &dyn Host,
        script: &mut Script,
        make: impl FnOnce(&Call) -> Result<String, String>,
    ) -> Result<HostPath, ScriptError> {
        let Some(place) = &self.place else {
            return Err(ScriptError::NoCargo { variable: "OUT_DIR".to_owned() });
        };
        let call = match self.call(host, place) {
            Ok(call) => call,
            Err(error) => return self.fall_back(host, script, place, error),
        };
        // docs.rs has no network, and a libclang of its own.
        let has_network = !place.krate.docs_rs;
        let may_fetch = has_network && self.prebuilt.is_none();
        let clang = Clang::choose(host, has_network && self.pinned_libclang, may_fetch);
        let mut kept = Kept::of(host, self, place, &call, clang.identity(host));
        let text = if let Some(text) = kept.find(host) {
            text
        } else {
            host.remove(&host.path(&call.depfile)).map_err(|error| failed(&call.depfile, &error))?;
            if let Err(error) = clang.provide(host) {
                let mut missing = no_libclang(host, &self.file);
                missing.causes.push(Cause::of_fetch(&error));
                return self.fall_back(host, script, place, ScriptError::Missing(missing));
            }
            kept.libclang = clang.identity(host);
            match generate(&call, make) {
                Ok(text) => {
                    if let Some(why) = kept.put(host, &call, &text) {
                        script.warning(&format!("`{}` is made again by each build: {why}", self.file));
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

    /// The bindings that come with the crate, else the error.
    fn fall_back(
        &self,
        host: &dyn Host,
        script: &mut Script,
        place: &Place,
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
        script.warning(&format!("`{name}` stands in for `{}`: {why} [{}]", self.file, error.id()));
        self.publish(host, place, &text)
    }

    /// Puts the text where the crate includes it; a file that says the same stays, so that nothing is compiled again.
    fn publish(&self, host: &dyn Host, place: &Place, text: &str) -> Result<HostPath, ScriptError> {
        let path = place.krate.out.join(&self.file);
        if host.read_text(&path).is_ok_and(|before| before == text) {
            return Ok(path);
        }
        host.write(&path, text.as_bytes()).map_err(|error| failed(path.as_str(), &error))?;
        Ok(path)
    }
}

fn failed(path: &str, error: &std::io::Error) -> ScriptError {
    ScriptError::Io { path: path.to_owned(), message: error.to_string() }
}

/// Calls bindgen. A panic is what it said.
fn generate(call: &Call, make: impl FnOnce(&Call) -> Result<String, String>) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(|| make(call))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "it panicked".to_owned()))
    })
}

/// The doctor's words about a missing libclang, for this machine.
fn no_libclang(host: &dyn Host, file: &str) -> Missing {
    let sight = look::look(host, Catalogue::embedded());
    let findings = Findings::embedded();
    let draft = Draft::new(NO_LIBCLANG_ID).affects(Affects::Build);
    let draft = match libclang::find(host).1 {
        Some(place) => draft.case("variable").value("place", place.as_str()),
        None => draft,
    };
    let teller = Teller::new(
        &sight.facts,
        &sight.catalogue,
        &findings,
        host.identity().uid.is_some_and(|uid| uid == 0),
    );
    let finding = teller.tell(&draft, Severity::Error);
    Missing { what: format!("cannot make `{file}`"), causes: vec![Cause::of_finding(&finding)] }
}

#[cfg(test)]
mod tests;
