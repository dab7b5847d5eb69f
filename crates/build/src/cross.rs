//! Cross-compilation: the CMake settings for another target, or why it is impossible.

use std::collections::BTreeMap;

use gpubuild_detect::matrix::Reason;
use gpubuild_exec::python::fetch::fetched;
use gpubuild_host::ReadFiles;
use gpubuild_plan::planning::cross::zig_wheel;
use gpubuild_plan::target::{self, CompilerChoice, CrossBuild, Target, TargetCompilers, program_name};

use super::cargo::BuildingCrate;

/// The settings for the target; `None` if the target is the build machine. Zig compiles if gpubuild's cache has it and no other
/// compilers are set: a build script does not download it. `gcc` is whether GCC for the target is used before it.
///
/// # Errors
/// Why cross-compilation is impossible.
pub(crate) fn cross(
    krate: &BuildingCrate,
    host: &dyn ReadFiles,
    options: &BTreeMap<String, String>,
    gcc: bool,
) -> Result<Option<CrossBuild>, Reason> {
    if krate.target == krate.host {
        return Ok(None);
    }
    let target = Target::of_triple(&krate.target);
    let choice = CompilerChoice { gcc, zig: fetched(host, &zig_wheel()).is_some() };
    target::cross_build(host, &target, Some(&krate.host), options, choice).map(Some)
}

/// The warning if gpubuild chose the compiler and cargo links with another one: the compiler has the C++ library of the compiled code.
pub(crate) fn linker_warning(cross: &CrossBuild, host: &dyn ReadFiles) -> Option<String> {
    let linker = match cross.compilers {
        TargetCompilers::Zig => {
            cross.programs.as_ref()?.join(&program_name(host.platform().os, "cc")).to_string()
        }
        TargetCompilers::Gcc => cross.entries.get("CMAKE_C_COMPILER")?.clone(),
        TargetCompilers::Variables | TargetCompilers::ToolchainFile | TargetCompilers::Apple => return None,
    };
    let found = host.env().get("RUSTC_LINKER").unwrap_or_default();
    // GCC is on PATH.
    let is_same = found == linker
        || cross.compilers == TargetCompilers::Gcc && linker.rsplit('/').next() == Some(found);
    (!is_same).then(|| {
        let (triple, variable) = (&cross.target.triple, cross.target.cargo_variable("LINKER"));
        let name = if cross.compilers == TargetCompilers::Zig { "Zig" } else { "GCC" };
        format!("{name} compiled the libraries for {triple}: link with it, `{variable}={linker}`")
    })
}

#[cfg(test)]
mod tests {
    use super::super::cargo::tests::host;
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<CrossBuild>, Reason> {
        let host = host("", variables);
        cross(&BuildingCrate::read(&host).unwrap(), &host, &BTreeMap::new(), false)
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
        let found = settings(&named).unwrap().unwrap();
        assert_eq!(found.compilers, TargetCompilers::Variables);
        assert_eq!(found.entries["CMAKE_SYSTEM_NAME"], "Windows");
        assert_eq!(found.entries["CMAKE_CXX_COMPILER"], "x86_64-w64-mingw32-g++");
        let file = [windows[0], windows[1], ("CMAKE_TOOLCHAIN_FILE", "/t.cmake")];
        assert_eq!(settings(&file).unwrap().unwrap().entries["CMAKE_TOOLCHAIN_FILE"], "/t.cmake");
    }

    #[test]
    fn another_linker_than_the_compiler_is_reported() {
        let gcc = CrossBuild {
            target: Target::of_triple("aarch64-unknown-linux-gnu"),
            compilers: TargetCompilers::Gcc,
            entries: BTreeMap::from([("CMAKE_C_COMPILER".to_owned(), "/usr/bin/aarch64-gcc".to_owned())]),
            programs: None,
        };
        for (linker, warns) in [("cc", true), ("/usr/bin/aarch64-gcc", false), ("aarch64-gcc", false)] {
            let warning = linker_warning(&gcc, &host("", &[("RUSTC_LINKER", linker)]));
            assert_eq!(warning.is_some(), warns, "{linker}: {warning:?}");
        }
    }
}
