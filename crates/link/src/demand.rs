//! A feature with the name of a backend requires that backend's libraries. If the manifest lacks them, linking a program fails
//! with a message that includes the command that builds them.

use std::path::Path;

use gpubuild_linker::message;

use crate::files::{self, Variables};
use crate::script::{BACKENDS, BuildScript};

/// The finding's stable id.
const ID: &str = "manifest.backend-missing";

/// Makes linking fail if the crate's features name backends that are not in the manifest at `path`; `built` is `None` if the
/// manifest does not exist. Does nothing outside of cargo and on docs.rs, where no program is linked.
pub(crate) fn demand(variables: &Variables, path: &Path, built: Option<&[String]>, script: &mut BuildScript) {
    if variables.get("DOCS_RS").is_some() {
        return;
    }
    let (Some(out), Some(krate)) = (variables.get("OUT_DIR"), variables.get("CARGO_PKG_NAME")) else {
        return;
    };
    let Some(missing) = missing(&enabled(variables), path, built) else { return };
    let value = |name: &str| variables.get(name).unwrap_or_default();
    let name = format!("gpubuild_missing_{krate}").replace('-', "_");
    let file = match value("CARGO_CFG_TARGET_ENV") {
        "msvc" => format!("{name}.lib"),
        _ => format!("lib{name}.a"),
    };
    let bytes = message::library(
        &missing.help(krate),
        2,
        value("CARGO_CFG_TARGET_OS"),
        value("CARGO_CFG_TARGET_ARCH"),
    );
    match files::write(&Path::new(out).join(file), &bytes) {
        Ok(()) => {
            script.say(&format!("rustc-link-search=native={out}"));
            script.say(&format!("rustc-link-lib=static:+whole-archive={name}"));
            script.warning(&missing.line());
        }
        Err(error) => script.error(&format!("failed to write to `{out}`: {error} [file.failed]")),
    }
}

/// The backends that the crate's features name, in the order of `BACKENDS`.
fn enabled(variables: &Variables) -> Vec<&'static str> {
    let is_on = |feature: &str| {
        variables.iter().any(|(name, _)| name.strip_prefix("CARGO_FEATURE_") == Some(feature))
    };
    let is_requested = |backend: &str| is_on(&backend.to_uppercase()) || (backend == "rocm" && is_on("HIP"));
    BACKENDS.into_iter().filter(|backend| is_requested(backend)).collect()
}

/// Backends that a crate requests and that were not built.
struct MissingFeature {
    backends: String,
    cause: String,
    command: String,
}

fn missing(enabled: &[&str], path: &Path, built: Option<&[String]>) -> Option<MissingFeature> {
    let has: Vec<&str> = built.unwrap_or_default().iter().map(String::as_str).collect();
    let absent: Vec<&str> = enabled.iter().copied().filter(|backend| !has.contains(backend)).collect();
    if absent.is_empty() {
        return None;
    }
    let path = path.display();
    let cause = match built {
        Some([]) => format!("`{path}` has no backend"),
        Some(_) => format!("`{path}` has {}", has.join(", ")),
        None => format!("`{path}` does not exist: nothing was built yet"),
    };
    // Without a manifest, the first build also includes the CPU backend.
    let usual = if has.is_empty() { vec!["cpu"] } else { has };
    let all = BACKENDS.into_iter().filter(|backend| usual.contains(backend) || enabled.contains(backend));
    let command = format!("gpubuild build --backends {}", all.collect::<Vec<_>>().join(","));
    Some(MissingFeature { backends: absent.join(", "), cause, command })
}

impl MissingFeature {
    fn what(&self) -> String {
        let named = self.backends.replace(", ", ",");
        format!("has no library for {}, which `--features {named}` requests", self.backends)
    }

    fn line(&self) -> String {
        let what = self.what();
        format!("{what}: {} [{ID}]; linking a program will fail with instructions", self.cause)
    }

    /// The message in the form in which the linker prints it.
    fn help(&self, krate: &str) -> String {
        format!(
            "\n\n  gpubuild: `{krate}` {}\n    cause: {} [{ID}]\n    fix: build it, or disable the feature\n      {}\n  \
             the undefined symbols below follow from this\n\n",
            self.what(),
            self.cause,
            self.command
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_features_named_after_backends_request_one() {
        let on = |names: &[&str]| {
            let variables = names.iter().map(|name| (format!("CARGO_FEATURE_{name}"), "1".to_owned()));
            enabled(&Variables::new(variables))
        };
        assert!(on(&["AUTO", "FAST"]).is_empty());
        assert_eq!(on(&["HIP", "VULKAN"]), ["rocm", "vulkan"]);
    }

    #[test]
    fn the_command_builds_existing_and_requested_backends() {
        let help = |enabled: &[&str], built: Option<&[&str]>| {
            let built = built.map(|list| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            missing(enabled, Path::new("/m.json"), built.as_deref()).map(|missing| missing.help("x"))
        };
        assert_eq!(help(&["cuda"], Some(&["cuda"])), None);
        let message = help(&["cuda"], Some(&["cpu", "vulkan"])).unwrap();
        assert!(message.contains("      gpubuild build --backends cpu,cuda,vulkan\n"), "{message}");
        assert!(
            message.contains("cause: `/m.json` has cpu, vulkan [manifest.backend-missing]\n"),
            "{message}"
        );
        let message = help(&["vulkan"], None).unwrap();
        assert!(
            message.contains("`/m.json` does not exist") && message.contains("--backends cpu,vulkan\n"),
            "{message}"
        );
    }
}
