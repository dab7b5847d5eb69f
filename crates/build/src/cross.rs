//! Cross-compilation: the CMake settings for another target, or why it is impossible.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::Environment;
use gpubuild_plan::plan::Plan;

use super::cargo::BuildingCrate;

/// CMake settings for another target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cross {
    /// CMake cache entries.
    pub entries: BTreeMap<String, String>,
}

/// The settings for the target; `None` if the target is the build machine.
///
/// # Errors
/// Why cross-compilation is impossible.
pub(crate) fn cross(
    krate: &BuildingCrate,
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
    // Apple's compilers generate code for all of Apple's architectures.
    if krate.os == "macos" && krate.host.ends_with("-apple-darwin") {
        let arch = if krate.arch == "aarch64" { "arm64" } else { &krate.arch };
        entries.insert("CMAKE_OSX_ARCHITECTURES".to_owned(), arch.to_owned());
        return Ok(Some(Cross { entries }));
    }
    let (c, cxx) = (named(krate, env, "CC"), named(krate, env, "CXX"));
    let system = system(&krate.os);
    let (Some(c), Some(cxx), Some(system)) = (c, cxx, system) else {
        let under = krate.target.replace('-', "_");
        return Err(Reason::new(id!("cross.toolchain-missing"), format!(
                "no compilers are set for {}, and the compilers of {} cannot target it",
                krate.target, krate.host
            )).hint(format!(
                "set `CC_{under}` and `CXX_{under}`, or set a CMake toolchain file in `CMAKE_TOOLCHAIN_FILE_{under}`"
            )));
    };
    entries.extend(
        [
            ("CMAKE_C_COMPILER", c),
            ("CMAKE_CXX_COMPILER", cxx),
            ("CMAKE_SYSTEM_NAME", system),
            ("CMAKE_SYSTEM_PROCESSOR", krate.arch.as_str()),
            // Libraries of the build machine are unusable for the target.
            ("CMAKE_FIND_ROOT_PATH_MODE_LIBRARY", "ONLY"),
            ("CMAKE_FIND_ROOT_PATH_MODE_INCLUDE", "ONLY"),
            ("CMAKE_FIND_ROOT_PATH_MODE_PACKAGE", "ONLY"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    Ok(Some(Cross { entries }))
}

/// A variable for the target, in the spellings that crates use: `CC_x86_64-pc-windows-gnu`, `CC_x86_64_pc_windows_gnu`,
/// `TARGET_CC`.
fn named<'a>(krate: &BuildingCrate, env: &'a Environment, name: &str) -> Option<&'a str> {
    let under = krate.target.replace('-', "_");
    [format!("{name}_{}", krate.target), format!("{name}_{under}"), format!("TARGET_{name}")]
        .iter()
        .find_map(|variable| env.get(variable))
        .or_else(|| (name == "CMAKE_TOOLCHAIN_FILE").then(|| env.get(name)).flatten())
}

/// CMake's name for an operating system, given rustc's name.
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

/// Why a backend cannot be cross-compiled: the toolkits that were found are for the build machine.
#[must_use]
pub(crate) fn reason_against(krate: &BuildingCrate, backend: Backend) -> Option<Reason> {
    (backend != Backend::Cpu).then(|| {
        Reason::new(
            id!("cross.backend-unsupported"),
            format!("{backend} can only be built for this machine, not for {}", krate.target),
        )
        .hint(format!("build on {}, or for `cpu` only", krate.target))
    })
}

impl Cross {
    /// Replaces the compilers of this machine in a plan with the entries.
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
    use gpubuild_host::HostInfo;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<Cross>, Reason> {
        let host = host("", variables);
        cross(&BuildingCrate::read(&host).unwrap(), host.env(), &BTreeMap::new())
    }

    #[test]
    fn another_target_needs_its_compilers() {
        assert_eq!(settings(&[]), Ok(None));
        let windows = [("TARGET", "x86_64-pc-windows-gnu"), ("CARGO_CFG_TARGET_OS", "windows")];
        let reason = settings(&windows).unwrap_err();
        assert_eq!(reason.id, "cross.toolchain-missing");
        assert!(reason.hint.unwrap().contains("CC_x86_64_pc_windows_gnu"));
        let named = [
            windows[0],
            windows[1],
            ("CC_x86_64_pc_windows_gnu", "x86_64-w64-mingw32-gcc"),
            ("CXX_x86_64-pc-windows-gnu", "x86_64-w64-mingw32-g++"),
        ];
        let entries = settings(&named).unwrap().unwrap().entries;
        assert_eq!(entries["CMAKE_SYSTEM_NAME"], "Windows");
        assert_eq!(entries["CMAKE_CXX_COMPILER"], "x86_64-w64-mingw32-g++");
        let file = [windows[0], windows[1], ("CMAKE_TOOLCHAIN_FILE", "/t.cmake")];
        assert_eq!(settings(&file).unwrap().unwrap().entries["CMAKE_TOOLCHAIN_FILE"], "/t.cmake");
    }
}
