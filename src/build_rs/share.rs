//! What crates with a `links` key tell those that depend on them.

use super::script::Script;
use crate::artifacts::Manifest;
use crate::host::HostPath;

/// The name under which the manifest is handed on: `DEP_<LINKS>_GPUBUILD_MANIFEST`.
pub const MANIFEST: &str = "GPUBUILD_MANIFEST";

/// Hands on where the manifest lies and what is in it.
pub(super) fn export(script: &mut Script, manifest: &Manifest, path: &HostPath) {
    script.metadata(MANIFEST, path.as_str());
    let backends: Vec<&str> = manifest.backends.iter().map(|backend| backend.id()).collect();
    script.metadata("GPUBUILD_BACKENDS", &backends.join(","));
}
