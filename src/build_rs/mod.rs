//! For build scripts: a crate that brings a native project along, the link lines of what `gpubuild build` made, and a plan's
//! settings for crates that run CMake or a compiler themselves. For task runners: [`Task`] does what `gpubuild build` does.
//!
//! ```no_run
//! // The whole `main` of the build.rs of a crate with a gpubuild.toml beside its Cargo.toml:
//! gpubuild::Build::new().link();
//! ```
//!
//! ```no_run
//! // The same for a program that `gpubuild build` links, in whose build.rs nothing is compiled:
//! gpubuild::build_rs::link();
//! ```
//!
//! The crate then has `cfg(gpubuild_backend = "cuda")` for each backend that was built. What is missing on a machine is told
//! when a program is linked: editors, `cargo check` and docs.rs need no toolkit.

mod adapters;
mod assemble;
pub mod bindings;
mod build;
pub mod cargo;
pub mod cross;
mod demand;
mod error;
mod finish;
pub mod missing;
mod prepare;
mod same;
pub mod script;
pub mod share;
mod talk;
mod task;

pub use adapters::{Language, apply_to_cc, apply_to_cmake};
pub use bindings::Bindings;
pub use build::{Build, Built};
pub use error::ScriptError;
pub use prepare::Planned;
pub use script::Script;
pub use task::Task;

use crate::artifacts::manifest_path;
use crate::artifacts::{Manifest, ManifestError};
use crate::backend::Backend;
use crate::host::{Host, HostPath, RealHost};
use crate::project;
use crate::venv::record;

/// The variable that names a manifest.
pub const VARIABLE: &str = "GPUBUILD_MANIFEST";

/// What a crate is linked with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Linked {
    /// Backends whose libraries are linked.
    pub backends: Vec<Backend>,
    /// Names of the static libraries.
    pub libraries: Vec<String>,
}

/// Prints everything that cargo needs to link what was built: nothing, if there is no manifest. [`lines`] tells what that is.
///
/// A feature of the crate that bears the name of a backend (`cuda`, `vulkan`) and is switched on asks for that backend: if it
/// was not built, linking a program fails with the command that builds it, and `cargo check` passes.
///
/// Call it from `main` of a build script.
pub fn link() {
    let (text, _) = lines(&RealHost::new());
    talk::print(&text);
}

/// For a program that depends on several crates with native libraries: has cargo fail where two of those define the same
/// symbols, before anything is linked. Cargo shows a build script only what crates hand on that its own crate depends on
/// and that have a `links` key.
pub fn check_symbols() {
    talk::print(&symbol_lines(&RealHost::new()));
}

/// The text that [`check_symbols`] prints.
#[must_use]
pub fn symbol_lines(host: &dyn Host) -> String {
    let mut script = Script::default();
    let crates = same::dependencies(host, &mut script);
    compare(host, &crates, &mut script);
    script.text().to_owned()
}

fn compare(host: &dyn Host, crates: &[same::Brought], script: &mut Script) {
    if let Some(error) = same::find(host, crates) {
        script.error(&ScriptError::Same(error).told());
    }
}

/// The text that [`link`] prints.
#[must_use]
pub fn lines(host: &dyn Host) -> (String, Linked) {
    let mut script = Script::default();
    script.check_cfg();
    script.say(&format!("rerun-if-env-changed={VARIABLE}"));
    let linked = find_and_link(host, &mut script);
    (script.text().to_owned(), linked)
}

fn find_and_link(host: &dyn Host, script: &mut Script) -> Linked {
    let Some(path) = find_manifest(host) else {
        script.glue(host, None);
        let name = project::FILE_NAME;
        script.warning(&format!(
            "no {name} here or above, so no kernels are linked; {VARIABLE} can name a manifest"
        ));
        return Linked::default();
    };
    // Watched while it is absent too: the crate is built again once it appears.
    script.watch(path.as_str());
    let manifest = Manifest::read(host, &path);
    script.glue(host, manifest.as_ref().ok());
    if matches!(manifest, Ok(_) | Err(ManifestError::Missing { .. })) {
        demand::demand(host, &path, manifest.as_ref().ok(), script);
    }
    match manifest {
        Ok(manifest) => return with_manifest(script, host, &path, &manifest),
        Err(ManifestError::Missing { .. }) => script.warning(
            "no kernels were built yet, so none are linked: run `gpubuild build` (in its repository `cargo run --release -- build`)",
        ),
        Err(error) => script.say(&format!("error={error}: run `gpubuild build` again")),
    }
    Linked::default()
}

fn with_manifest(script: &mut Script, host: &dyn Host, path: &HostPath, manifest: &Manifest) -> Linked {
    for file in manifest.trees.iter().flat_map(|tree| &tree.files) {
        script.watch(&file.path);
    }
    if let Some(path) = crate::exec::changed_files(host, manifest).first() {
        script.warning(&format!("`{path}` is not as it was built: run `gpubuild build` again"));
    }
    script.cfgs(&manifest.backends);
    let mut folders = Vec::new();
    if let Some(root) = path.parent() {
        // Cargo takes a file that is absent for changed, each time. The call that makes this one writes the manifest again.
        let file = root.join(record::FILE_NAME);
        if host.is_file(&file) {
            script.watch(file.as_str());
        }
        let (found, why) = record::search_path(host, &root);
        folders = found;
        if let Some(why) = why {
            script.warning(&why);
        }
    }
    let mut crates = same::dependencies(host, script);
    crates.push(same::Brought::new(&manifest.project, manifest));
    compare(host, &crates, script);
    let libraries = script.link(host, manifest, folders);
    Linked { backends: manifest.backends.clone(), libraries }
}

/// The manifest that the environment names, else that of the project around the crate, whether it exists or not.
#[must_use]
pub fn find_manifest(host: &dyn Host) -> Option<HostPath> {
    if let Some(path) = host.env().get(VARIABLE) {
        return Some(host.path(path));
    }
    let start = match host.env().get("CARGO_MANIFEST_DIR") {
        Some(folder) => host.path(folder),
        None => host.current_dir().ok()?,
    };
    let file = project::find(host, &start).ok()?;
    let project = project::load(host, &file).ok()?;
    Some(manifest_path(&project.build_root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_manifest_a_crate_compiles_without_kernels() {
        let host = crate::host::RecordedHost::builder(crate::host::Os::Linux, crate::host::Arch::X86_64);
        let host = host.env(VARIABLE, "/m/manifest.json").directory("/m").build();
        let (text, linked) = lines(&host);
        assert_eq!(linked, Linked::default());
        assert!(text.contains("cargo::rustc-check-cfg=cfg(gpubuild_backend, values(\"cpu\", "), "{text}");
        assert!(text.contains("cargo::rerun-if-changed=/m/manifest.json\n"), "{text}");
        assert!(
            text.contains("cargo::warning=no kernels were built yet") && !text.contains("rustc-cfg="),
            "{text}"
        );
    }

    #[test]
    fn a_manifest_gives_cfgs_and_link_lines() {
        let manifest = r#"{"schema":1,"gpubuild":"0.1.0","project":"p","backends":["cpu"],"trees":[{"id":"cpu","backends":["cpu"],"key":"k","source":"/s","build":"/b","generator":"Ninja","cmake":"4","cache":{},"files":[{"target":"k","kind":"static","path":"/b/libk.a","bytes":1,"sha256":"0"}],"link":[{"kind":"static","path":"/b/libk.a"},{"kind":"system","name":"m"}],"compilers":{}}]}"#;
        let host = crate::host::RecordedHost::builder(crate::host::Os::Linux, crate::host::Arch::X86_64);
        let host = host.env(VARIABLE, "/m/manifest.json").file("/m/manifest.json", manifest).build();
        let (text, linked) = lines(&host);
        assert_eq!(linked.libraries, ["k"]);
        assert!(text.contains("cargo::rustc-cfg=gpubuild_backend=\"cpu\"\n"), "{text}");
        assert!(text.ends_with("cargo::rustc-link-lib=static=k\ncargo::rustc-link-lib=dylib=m\n"), "{text}");
        assert!(text.contains("cargo::warning=`/b/libk.a` is not as it was built"), "{text}");
    }
}
