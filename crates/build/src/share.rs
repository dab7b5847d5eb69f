//! Crates that use each other's libraries. A crate with a `links` key passes on the path of its manifest; a crate that depends on
//! it finds the libraries as a CMake package instead of building a second copy with the same symbols.

use gpubuild_detect::id;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::planning::share::Shared;

use super::ScriptError;
use super::missing::MissingRequirement;
use super::script::ScriptEnvironment;

/// The name under which the manifest's path is passed on: `DEP_<LINKS>_GPUBUILD_MANIFEST`.
pub(crate) const MANIFEST: &str = "GPUBUILD_MANIFEST";

/// The name under which a crate reports that it was not built.
const MISSING: &str = "GPUBUILD_MISSING";

/// Passes on the manifest's path and contents.
pub(super) fn export(script: &mut ScriptEnvironment, manifest: &Manifest, path: &HostPath) {
    script.metadata(MANIFEST, path.as_str());
    let backends: Vec<&str> = manifest.backends.iter().map(|backend| backend.id()).collect();
    script.metadata("GPUBUILD_BACKENDS", &backends.join(","));
    let separator = match path.rules() {
        gpubuild_host::PathRules::Windows => ";",
        gpubuild_host::PathRules::Unix => ":",
    };
    script.metadata("INCLUDE", &manifest.interface().includes.join(separator));
}

/// Reports to dependent crates that nothing was built, because a toolkit or tool is missing.
pub(super) fn export_missing(script: &mut ScriptEnvironment) {
    script.metadata(MISSING, "1");
}

/// The variable in which cargo passes a value to dependent crates.
fn variable(links: &str, name: &str) -> String {
    format!("DEP_{}_{name}", links.to_uppercase().replace('-', "_"))
}

/// The libraries of the crates with these `links` keys.
pub(super) fn find(host: &dyn ReadFiles, names: &[String]) -> Result<Vec<Shared>, ScriptError> {
    let one = |links: &String| {
        let name = variable(links, MANIFEST);
        let Some(path) = host.env().get(&name).map(|path| host.path(path)) else {
            if host.env().get(&variable(links, MISSING)).is_some() {
                let what = format!("uses `{links}`, which was not built");
                let text = format!(
                    "the crate with `links = \"{links}\"` was not built because something is missing"
                );
                return Err(ScriptError::Missing(MissingRequirement::one(
                    what,
                    id!("script.shared-missing"),
                    text,
                    None,
                )));
            }
            return Err(ScriptError::NotShared { links: links.clone(), variable: name });
        };
        Ok(Shared { library: links.clone(), manifest: Manifest::read(host, &path)?, path })
    };
    names.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};

    const GGML: &str = r#"{"schema":1,"gpubuild":"0.1.0","project":"g","backends":["cpu"],"trees":[]}"#;

    #[test]
    fn the_manifest_is_found_by_the_links_key() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("DEP_GGML_GPUBUILD_MANIFEST", "/m.json")
            .file("/m.json", GGML)
            .build();
        let shared = find(&host, &["ggml".to_owned()]).unwrap().remove(0);
        assert_eq!((shared.library.as_str(), shared.manifest.project.as_str()), ("ggml", "g"));
    }

    #[test]
    fn a_missing_dependency_is_an_error_with_the_variable() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        let error = find(&host, &["stable-x".to_owned()]).unwrap_err();
        assert_eq!(error.id(), "script.not-shared");
        assert!(error.to_string().contains("`DEP_STABLE_X_GPUBUILD_MANIFEST` is not set"), "{error}");
    }
}
