//! Building for another machine than this one: what CMake has to be told, or why that cannot work.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::Environment;
use gpubuild_plan::plan::Plan;

use super::cargo::Crate;

/// What CMake is told about another target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cross {
    /// Cache entries.
    pub entries: BTreeMap<String, String>,
}

/// What it takes to build for the target. `None`: it is this machine.
///
/// # Errors
/// The reason why it cannot work.
pub(crate) fn cross(
    krate: &Crate,
    env: &Environment,
    options: &BTreeMap<String, String>,
) -> Result<Option<Cross>, Reason> {
    if krate.target == krate.host {
        return Ok(None);
    }
    let mut entries = BTreeMap::new();
    if options.contains_key("CMAKE_TOOLCHAIN_FILE") {
        return Ok(Some(Cross { entries }));
    }
    if let Some(file) = named(krate, env, "CMAKE_TOOLCHAIN_FILE") {
        entries.insert("CMAKE_TOOLCHAIN_FILE".to_owned(), file.to_owned());
        return Ok(Some(Cross { entries }));
    }
    // Apple's compilers make code for every processor of theirs.
    if krate.os == "macos" && krate.host.ends_with("-apple-darwin") {
        let arch = if krate.arch == "aarch64" { "arm64" } else { &krate.arch };
        entries.insert("CMAKE_OSX_ARCHITECTURES".to_owned(), arch.to_owned());
        return Ok(Some(Cross { entries }));
    }
    let (c, cxx) = (named(krate, env, "CC"), named(krate, env, "CXX"));
    let system = system(&krate.os);
    let (Some(c), Some(cxx), Some(system)) = (c, cxx, system) else {
        let under = krate.target.replace('-', "_");
        return Err(Reason {
            id: "cross.toolchain-missing".to_owned(),
            text: format!(
                "no compilers for {} are named, and {} builds for itself only",
                krate.target, krate.host
            ),
            hint: Some(format!(
                "set `CC_{under}` and `CXX_{under}`, or name a CMake toolchain file in `CMAKE_TOOLCHAIN_FILE_{under}`"
            )),
            ..Reason::default()
        });
    };
    entries.extend(
        [
            ("CMAKE_C_COMPILER", c),
            ("CMAKE_CXX_COMPILER", cxx),
            ("CMAKE_SYSTEM_NAME", system),
            ("CMAKE_SYSTEM_PROCESSOR", krate.arch.as_str()),
            // Libraries of this machine are of no use there.
            ("CMAKE_FIND_ROOT_PATH_MODE_LIBRARY", "ONLY"),
            ("CMAKE_FIND_ROOT_PATH_MODE_INCLUDE", "ONLY"),
            ("CMAKE_FIND_ROOT_PATH_MODE_PACKAGE", "ONLY"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    Ok(Some(Cross { entries }))
}

/// A variable for the target, in the spellings that crates know: `CC_x86_64-pc-windows-gnu`, `CC_x86_64_pc_windows_gnu`,
/// `TARGET_CC`.
fn named<'a>(krate: &Crate, env: &'a Environment, name: &str) -> Option<&'a str> {
    let under = krate.target.replace('-', "_");
    [format!("{name}_{}", krate.target), format!("{name}_{under}"), format!("TARGET_{name}")]
        .iter()
        .find_map(|variable| env.get(variable))
        .or_else(|| (name == "CMAKE_TOOLCHAIN_FILE").then(|| env.get(name)).flatten())
}

/// CMake's word for an operating system of rustc.
fn system(os: &str) -> Option<&'static str> {
    Some(match os {
        "linux" => "Linux",
        "windows" => "Windows",
        "macos" => "Darwin",
        "ios" => "iOS",
        "freebsd" => "FreeBSD",
        _ => return None,
    })
}

/// The backends that can be built for another machine: toolkits that were found are this machine's.
#[must_use]
pub(crate) fn reason_against(krate: &Crate, backend: Backend) -> Option<Reason> {
    (backend != Backend::Cpu).then(|| Reason {
        id: "cross.backend-unsupported".to_owned(),
        text: format!("{backend} is built for this machine only, and {} is another", krate.target),
        hint: Some(format!("build on {}, or for `cpu` only", krate.target)),
        ..Reason::default()
    })
}

impl Cross {
    /// Puts the entries into a plan in place of this machine's compilers.
    pub(crate) fn apply(&self, plan: &mut Plan) {
        for tree in &mut plan.trees {
            tree.cache.remove("CMAKE_C_COMPILER");
            tree.cache.remove("CMAKE_CXX_COMPILER");
            tree.cache.extend(self.entries.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cargo::tests::host;
    use super::*;
    use gpubuild_host::Host;

    fn ask(variables: &[(&str, &str)]) -> Result<Option<Cross>, Reason> {
        let host = host("", variables);
        cross(&Crate::read(&host).unwrap(), host.env(), &BTreeMap::new())
    }

    #[test]
    fn another_target_needs_compilers_of_its_own() {
        assert_eq!(ask(&[]), Ok(None));
        let windows = [("TARGET", "x86_64-pc-windows-gnu"), ("CARGO_CFG_TARGET_OS", "windows")];
        let reason = ask(&windows).unwrap_err();
        assert_eq!(reason.id, "cross.toolchain-missing");
        assert!(reason.hint.unwrap().contains("CC_x86_64_pc_windows_gnu"));
        let named = [
            windows[0],
            windows[1],
            ("CC_x86_64_pc_windows_gnu", "x86_64-w64-mingw32-gcc"),
            ("CXX_x86_64-pc-windows-gnu", "x86_64-w64-mingw32-g++"),
        ];
        let entries = ask(&named).unwrap().unwrap().entries;
        assert_eq!(entries["CMAKE_SYSTEM_NAME"], "Windows");
        assert_eq!(entries["CMAKE_CXX_COMPILER"], "x86_64-w64-mingw32-g++");
        let file = [windows[0], windows[1], ("CMAKE_TOOLCHAIN_FILE", "/t.cmake")];
        assert_eq!(ask(&file).unwrap().unwrap().entries["CMAKE_TOOLCHAIN_FILE"], "/t.cmake");
    }
}
