//! The lines for cargo after a build, or if nothing could be built.

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_exec::environment;
use gpubuild_host::{HostPath, WriteFiles};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::planning::share::Shared;

use super::ScriptError;
use super::built::Built;
use super::cargo::BuildingCrate;
use super::missing::MissingRequirement;
use super::script::ScriptEnvironment;
use super::share;

/// Builds nothing; linking a program reports why.
pub(super) fn later(
    host: &dyn WriteFiles,
    krate: &BuildingCrate,
    script: &mut ScriptEnvironment,
    missing: MissingRequirement,
    backends: Vec<Backend>,
) -> Result<Built, ScriptError> {
    missing.defer(host, krate, script).map_err(|error| ScriptError::io(krate.out.as_str(), &error))?;
    if krate.links.is_some() {
        share::export_missing(script);
    }
    // `cargo check` sees the cfgs that the crate gets once everything is installed.
    script.glue(host, None);
    script.cfgs(&backends);
    Ok(Built { backends, missing: Some(missing), ..Built::default() })
}

/// Prints how the result is linked.
pub(super) fn linked(
    host: &dyn WriteFiles,
    script: &mut ScriptEnvironment,
    krate: &BuildingCrate,
    (manifest, path): (Manifest, HostPath),
    shared: &[Shared],
) -> Built {
    let theirs = shared.iter().flat_map(|one| one.manifest.backends.iter());
    let mut backends: Vec<Backend> = manifest.backends.iter().chain(theirs).copied().collect();
    backends.sort_indirect();
    backends.dedup();
    script.cfgs(&backends);
    script.glue(host, Some(&manifest));
    let mut folders = Vec::new();
    if let Some(root) = path.parent() {
        let (found, why) = environment::search_path(host, &root);
        folders = found;
        if let Some(why) = why {
            script.warning(&why);
        }
    }
    // A crate that built libraries links them itself.
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
        place: None,
    }
}
