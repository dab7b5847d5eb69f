//! A feature with the name of a backend asks for that backend's libraries. If the manifest lacks them, linking a program fails
//! with a message that names the command which builds them.

use std::path::Path;

use gpubuild_linker::message;

use crate::files::{self, Variables};
use crate::script::{BACKENDS, Script};

/// Stable id of the cause.
const ID: &str = "manifest.backend-missing";

/// Has linking fail if the crate's features name backends that are not in the manifest at `path`; `built` is `None` if it does
/// not exist. Does nothing outside of cargo and on docs.rs, where no program is linked.
pub(crate) fn demand(variables: &Variables, path: &Path, built: Option<&[String]>, script: &mut Script) {
    if variables.get("DOCS_RS").is_some() {
        return;
    }
    let (Some(out), Some(krate)) = (variables.get("OUT_DIR"), variables.get("CARGO_PKG_NAME")) else {
        return;
    };
    let Some(missing) = missing(&enabled(variables), path, built) else { return };
    let word = |name: &str| variables.get(name).unwrap_or_default();
    let name = format!("gpubuild_missing_{krate}").replace('-', "_");
    let file = match word("CARGO_CFG_TARGET_ENV") {
        "msvc" => format!("{name}.lib"),
        _ => format!("lib{name}.a"),
    };
    let bytes =
        message::library(&missing.help(krate), 2, word("CARGO_CFG_TARGET_OS"), word("CARGO_CFG_TARGET_ARCH"));
    match files::write(&Path::new(out).join(file), &bytes) {
        Ok(()) => {
            script.say(&format!("rustc-link-search=native={out}"));
            script.say(&format!("rustc-link-lib=static:+whole-archive={name}"));
            script.warning(&missing.line());
        }
        Err(error) => script.error(&format!("failed to write to `{out}`: {error} [file.failed]")),
    }
}

/// The backends that the crate's features name, in the usual order.
fn enabled(variables: &Variables) -> Vec<&'static str> {
    let is_on = |feature: &str| {
        variables.iter().any(|(name, _)| name.strip_prefix("CARGO_FEATURE_") == Some(feature))
    };
    let asked = |backend: &str| is_on(&backend.to_uppercase()) || (backend == "rocm" && is_on("HIP"));
    BACKENDS.into_iter().filter(|backend| asked(backend)).collect()
}

/// Backends that a crate asks for and that were not built.
struct Missing {
    backends: String,
    cause: String,
    command: String,
}

fn missing(enabled: &[&str], path: &Path, built: Option<&[String]>) -> Option<Missing> {
    let has: Vec<&str> = built.unwrap_or_default().iter().map(String::as_str).collect();
    let absent: Vec<&str> = enabled.iter().copied().filter(|backend| !has.contains(backend)).collect();
    if absent.is_empty() {
        return None;
    }
    let path = path.display();
    let cause = match built {
        Some([]) => format!("`{path}` has no backend"),
        Some(_) => format!("`{path}` has {}", has.join(", ")),
        None => format!("there is no `{path}`: nothing was built yet"),
    };
    // A first build gets the processor's too, as the features of a crate without a manifest do.
    let usual = if has.is_empty() { vec!["cpu"] } else { has };
    let all = BACKENDS.into_iter().filter(|backend| usual.contains(backend) || enabled.contains(backend));
    let command = format!("gpubuild build --backends {}", all.collect::<Vec<_>>().join(","));
    Some(Missing { backends: absent.join(", "), cause, command })
}

impl Missing {
    fn what(&self) -> String {
        let named = self.backends.replace(", ", ",");
        format!("has no library of {}, which `--features {named}` asks for", self.backends)
    }

    fn line(&self) -> String {
        let what = self.what();
        format!("{what}: {} [{ID}]; linking a program will fail and say what to do", self.cause)
    }

    /// The message as the linker prints it.
    fn help(&self, krate: &str) -> String {
        format!(
            "\n\n  gpubuild: `{krate}` {}\n    cause: {} [{ID}]\n    fix: build it, or leave the feature out\n      {}\n  \
             the functions that are undefined below follow from this\n\n",
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
    fn only_features_that_name_a_backend_ask_for_anything() {
        let on = |names: &[&str]| {
            let variables = names.iter().map(|name| (format!("CARGO_FEATURE_{name}"), "1".to_owned()));
            enabled(&Variables::new(variables))
        };
        assert!(on(&["AUTO", "FAST"]).is_empty());
        assert_eq!(on(&["HIP", "VULKAN"]), ["rocm", "vulkan"]);
    }

    #[test]
    fn the_command_builds_what_is_there_and_what_is_asked_for() {
        let help = |enabled: &[&str], built: Option<&[&str]>| {
            let built = built.map(|list| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            missing(enabled, Path::new("/m.json"), built.as_deref()).map(|missing| missing.help("x"))
        };
        assert_eq!(help(&["cuda"], Some(&["cuda"])), None);
        let told = help(&["cuda"], Some(&["cpu", "vulkan"])).unwrap();
        assert!(told.contains("      gpubuild build --backends cpu,cuda,vulkan\n"), "{told}");
        assert!(told.contains("cause: `/m.json` has cpu, vulkan [manifest.backend-missing]\n"), "{told}");
        let told = help(&["vulkan"], None).unwrap();
        assert!(told.contains("there is no `/m.json`") && told.contains("--backends cpu,vulkan\n"), "{told}");
    }
}
