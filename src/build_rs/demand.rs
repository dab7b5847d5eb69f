//! A feature that bears the name of a backend asks for that backend's libraries. Where the manifest has none, linking a
//! program says so, with the command that builds them: nothing that somebody named is left out in silence.

use std::collections::BTreeSet;

use super::cargo::Crate;
use super::missing::{Cause, Missing};
use super::script::Script;
use crate::artifacts::Manifest;
use crate::backend::Backend;
use crate::host::{Host, HostPath};

/// Stable id of the cause.
const ID: &str = "manifest.backend-missing";

/// Has linking fail if the crate's features name backends that are not in the manifest at `path`; `None` is a manifest that
/// does not exist. Outside of cargo, and on docs.rs, where nothing is linked, nobody asks for anything.
pub(super) fn demand(host: &dyn Host, path: &HostPath, manifest: Option<&Manifest>, script: &mut Script) {
    let Ok(krate) = Crate::read(host) else { return };
    if krate.docs_rs {
        return;
    }
    let built = manifest.map(|manifest| manifest.backends.as_slice());
    let Some(missing) = missing(&krate.enabled, path, built) else { return };
    if let Err(error) = missing.tell(host, &krate, script) {
        script.error(&format!("failed to write to `{}`: {error}", krate.out));
    }
}

/// What is asked for and was not built; `None` if that is nothing.
fn missing(enabled: &BTreeSet<Backend>, path: &HostPath, built: Option<&[Backend]>) -> Option<Missing> {
    let has = built.unwrap_or_default();
    let absent: Vec<Backend> = enabled.iter().copied().filter(|backend| !has.contains(backend)).collect();
    if absent.is_empty() {
        return None;
    }
    // A first build gets the processor's too, as the features of a crate without a manifest do.
    let usual: &[Backend] = if has.is_empty() { &[Backend::Cpu] } else { has };
    let all: BTreeSet<Backend> = usual.iter().chain(enabled).copied().collect();
    let text = match built {
        Some([]) => format!("`{path}` has no backend"),
        Some(has) => format!("`{path}` has {}", list(has, ", ")),
        None => format!("there is no `{path}`: nothing was built yet"),
    };
    let cause = Cause {
        id: ID.to_owned(),
        text,
        fix: Some("build it, or leave the feature out".to_owned()),
        commands: vec![format!("gpubuild build --backends {}", list(&all, ","))],
    };
    let named = list(&absent, ",");
    Some(Missing {
        what: format!("has no library of {}, which `--features {named}` asks for", list(&absent, ", ")),
        causes: vec![cause],
    })
}

fn list<'a>(backends: impl IntoIterator<Item = &'a Backend>, between: &str) -> String {
    backends.into_iter().map(|backend| backend.id()).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build_rs::cargo::tests::host;

    const FEATURES: &str = "[package]\nname = \"x\"\n[features]\nauto = []\ncuda = []\nhip = []\n";

    fn text(built: Option<&[Backend]>, variables: &[(&str, &str)]) -> String {
        let manifest = built.map(|backends| Manifest {
            schema: 1,
            gpubuild: String::new(),
            project: "p".to_owned(),
            backends: backends.to_vec(),
            loader: None,
            trees: Vec::new(),
        });
        let host = host(FEATURES, variables);
        let mut script = Script::default();
        demand(&host, &host.path("/m.json"), manifest.as_ref(), &mut script);
        script.text().to_owned()
    }

    #[test]
    fn only_features_that_name_a_backend_ask_for_anything() {
        let cpu = Some([Backend::Cpu].as_slice());
        assert_eq!(text(cpu, &[("CARGO_FEATURE_AUTO", "1")]), "");
        assert_eq!(text(None, &[]), "");
        assert_eq!(text(Some(&[Backend::Cuda]), &[("CARGO_FEATURE_CUDA", "1")]), "");
        assert_eq!(text(cpu, &[("CARGO_FEATURE_CUDA", "1"), ("DOCS_RS", "1")]), "");
        // Nothing can be written to a recording: that it is tried is the answer.
        let told = text(cpu, &[("CARGO_FEATURE_HIP", "1")]);
        assert!(told.starts_with("cargo::error=failed to write to `/t/debug/build/x-sys-1/out`"), "{told}");
    }

    #[test]
    fn the_command_builds_what_is_there_and_what_is_asked_for() {
        let command = |enabled: &[Backend], built: Option<&[Backend]>| {
            let host = host("", &[]);
            let enabled = enabled.iter().copied().collect();
            missing(&enabled, &host.path("/m.json"), built).unwrap().help("x")
        };
        let told = command(&[Backend::Cuda], Some(&[Backend::Cpu, Backend::Vulkan]));
        assert!(told.contains("      gpubuild build --backends cpu,cuda,vulkan\n"), "{told}");
        assert!(told.contains("cause: `/m.json` has cpu, vulkan [manifest.backend-missing]\n"), "{told}");
        let told = command(&[Backend::Vulkan], None);
        assert!(told.contains("there is no `/m.json`") && told.contains("--backends cpu,vulkan\n"), "{told}");
    }
}
