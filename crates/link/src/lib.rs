//! Links what `gpubuild build` has built into a Rust program: the build script's half of the work, in one line.
//!
//! ```no_run
//! // The whole `main` of a build.rs:
//! gpubuild_link::link();
//! ```
//!
//! The manifest is the one that `GPUBUILD_MANIFEST` names, else that of the nearest `gpubuild.toml` at or above the crate. The
//! crate then has `cfg(gpubuild_backend = "cuda")` for each backend that was built. Without a manifest it is compiled without
//! kernels, with a warning.
//!
//! A feature of the crate that bears the name of a backend (`cuda`, `vulkan`) and is switched on asks for that backend: if it
//! was not built, linking a program fails with the command that builds it, and `cargo check` passes.

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
use find::Found;
use manifest::{Manifest, ReadError};
use script::Script;

/// Prints what cargo needs to link what was built.
///
/// Call it from `main` of a build script. It does not panic: problems become warnings or errors of cargo.
pub fn link() {
    files::print(&lines(&Variables::read()));
}

/// For a program that depends on several crates with native libraries: has cargo fail where two of them define the same
/// symbols, before anything is linked. [`link`] does it too.
///
/// Cargo shows a build script only those crates that its own crate depends on and that have a `links` key.
pub fn check_symbols() {
    files::print(&symbol_lines(&Variables::read()));
}

fn symbol_lines(variables: &Variables) -> String {
    let mut script = Script::default();
    same::compare(variables, None, &mut script);
    script.into_text()
}

fn lines(variables: &Variables) -> String {
    let mut script = Script::default();
    script.check_cfg();
    script.say(&format!("rerun-if-env-changed={}", find::VARIABLE));
    match find::manifest(variables) {
        Found::At(path) => at(&path, variables, &mut script),
        Found::NoProject => {
            script.modules(variables, None);
            script.warning(&format!(
                "no gpubuild.toml here or above, so no kernels are linked; {} can name a manifest",
                find::VARIABLE
            ));
        }
        Found::Unreadable { path, message } => {
            script.error(&format!("failed to read `{}`: {message} [project.invalid]", path.display()));
        }
    }
    script.into_text()
}

fn at(path: &Path, variables: &Variables, script: &mut Script) {
    // Watched while it is absent too: the crate is built again once it appears.
    script.watch(path);
    let manifest = Manifest::read(path);
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
            script.error(&format!("{}: run `gpubuild build` again [{}]", error.told(path), error.id()));
        }
    }
}

fn linked(path: &Path, manifest: &Manifest, variables: &Variables, script: &mut Script) {
    for file in &manifest.files {
        script.watch(&file.path);
    }
    if let Some(path) = manifest.changed() {
        script.warning(&format!("`{}` is not as it was built: run `gpubuild build` again", path.display()));
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
