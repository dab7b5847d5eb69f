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

/// The warning if cargo links with another linker than Zig, which has the C++ library of the compiled code.
pub(crate) fn linker_warning(cross: &CrossBuild, host: &dyn ReadFiles) -> Option<String> {
    let folder = cross.programs.as_ref().filter(|_| cross.compilers == TargetCompilers::Zig)?;
    let linker = folder.join(&program_name(host.platform().os, "cc"));
    let is_other = host.env().get("RUSTC_LINKER") != Some(linker.as_str());
    is_other.then(|| {
        let variable = cross.target.cargo_variable("LINKER");
        format!("Zig compiled the libraries for {}: link with it, `{variable}={linker}`", cross.target.triple)
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
}
