//! Links the libraries from `gpubuild build` into a Rust program, with one line in its build script.
//!
//! ```no_run
//! // The complete `main` of a build.rs:
//! gpubuild_link::link();
//! ```
//!
//! The manifest is the one that `GPUBUILD_MANIFEST` names, or else that of the nearest `gpubuild.toml` at or above the crate. The
//! crate gets `cfg(gpubuild_backend = "cuda")` for each backend that was built. Without a manifest it is compiled without kernels,
//! with a warning.
//!
//! An enabled feature of the crate with a backend's name (`cuda`, `vulkan`) requests that backend. If it was not built, linking a
//! program fails with a message that includes the command to build it; `cargo check` passes.

mod demand;
mod files;
mod find;
#[doc(hidden)]
pub mod internal;
mod manifest;
mod place;
mod same;
mod script;

use std::path::Path;

use files::Variables;
use find::FoundManifest;
use manifest::{LinkManifest, ReadError};
use script::BuildScript;

/// Prints the lines with which cargo links the libraries of the last build.
///
/// Call it from `main` of a build script. It does not panic: problems become cargo warnings or errors.
pub fn link() {
    files::print(&lines(&Variables::read()));
}

/// For a program that depends on several crates with native libraries: makes cargo fail before linking if two of them define the
/// same symbols. [`link`] includes this check.
///
/// Cargo shows a build script only the direct dependencies of its crate that have a `links` key.
pub fn check_symbols() {
    files::print(&symbol_lines(&Variables::read()));
}

fn symbol_lines(variables: &Variables) -> String {
    let mut script = BuildScript::default();
    same::compare(variables, None, &mut script);
    script.into_text()
}

fn lines(variables: &Variables) -> String {
    let mut script = BuildScript::default();
    script.check_cfg();
    script.say(&format!("rerun-if-env-changed={}", find::VARIABLE));
    match find::manifest(variables) {
        FoundManifest::At(path) => at(&path, variables, &mut script),
        FoundManifest::NoProject => {
            script.modules(variables, None);
            script.warning(&format!(
                "no gpubuild.toml in this folder or above, so no kernels are linked; set {} to use a manifest",
                find::VARIABLE
            ));
        }
        FoundManifest::Unreadable { path, message } => {
            script.error(&format!("failed to read `{}`: {message} [project.invalid]", path.display()));
        }
    }
    script.into_text()
}

fn at(path: &Path, variables: &Variables, script: &mut BuildScript) {
    // A missing file is watched too, so that the crate is rebuilt when it appears.
    script.watch(path);
    let manifest = LinkManifest::read(path);
    let cargo = manifest.as_ref().ok().map(|manifest| &manifest.cargo);
    script.modules(variables, cargo);
    match &manifest {
        Ok(manifest) => {
            demand::demand(variables, path, Some(&manifest.backends), script);
            linked(path, manifest, variables, script);
        }
        Err(ReadError::Missing) => {
            demand::demand(variables, path, None, script);
            script.warning("no kernels were built yet, so none are linked: run `gpubuild build`");
        }
        Err(error) => {
            script.error(&format!("{}: run `gpubuild build` again [{}]", error.message(path), error.id()));
        }
    }
}

fn linked(path: &Path, manifest: &LinkManifest, variables: &Variables, script: &mut BuildScript) {
    for file in &manifest.files {
        script.watch(&file.path);
    }
    if let Some(path) = manifest.changed() {
        script.warning(&format!(
            "`{}` is missing or changed since the build: run `gpubuild build` again",
            path.display()
        ));
    }
    script.cfgs(&manifest.backends);
    let environment = place::environment(path);
    if let Some(record) = &environment.record {
        script.watch(record);
    }
    if let Some(warning) = &environment.warning {
        script.warning(warning);
    }
    same::compare(variables, Some((&manifest.project, manifest)), script);
    script.link(manifest, environment.folders, variables);
}

#[cfg(test)]
mod tests;
