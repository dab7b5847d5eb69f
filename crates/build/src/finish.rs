//! What cargo is told once a build has ended, or could not begin.

use gpubuild_core::backend::Backend;
use gpubuild_exec::environment;
use gpubuild_host::{Host, HostPath};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::planning::share::Shared;

use super::ScriptError;
use super::built::Built;
use super::cargo::Crate;
use super::missing::Missing;
use super::script::Script;
use super::share;

/// Nothing is built: whoever links a program is told why.
pub(super) fn later(
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
pub(super) fn linked(
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
        let (found, why) = environment::search_path(host, &root);
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
        place: None,
    }
}
