//! Selects the compilers of a target, and computes the CMake settings for them.

use std::collections::BTreeMap;

use gpubuild_core::Os;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{Environment, HostPath, ReadFiles, find_program};

use super::{PlannedTarget, Target, TargetCompilers, program_name, zig_programs};

/// How to build for another target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossBuild {
    /// The target.
    pub target: Target,
    /// Where its compilers come from.
    pub compilers: TargetCompilers,
    /// CMake cache entries.
    pub entries: BTreeMap<String, String>,
    /// The folder with the programs that start Zig, if it compiles.
    pub programs: Option<HostPath>,
}

/// The compilers that may be used if the user has named none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompilerChoice {
    /// GCC for the target, if it is on PATH, before Zig.
    pub gcc: bool,
    /// Zig.
    pub zig: bool,
}

/// The compilers and settings of a target: a toolchain file, Apple's compilers on macOS, `CC_<target>` and `CXX_<target>`, or what
/// `choice` allows. `build` is Rust's name of the build machine, if known.
///
/// # Errors
/// Why gpubuild cannot compile for the target.
pub fn cross_build(
    host: &dyn ReadFiles,
    target: &Target,
    build: Option<&str>,
    options: &BTreeMap<String, String>,
    choice: CompilerChoice,
) -> Result<CrossBuild, Reason> {
    let env = host.env();
    let make = |compilers, entries: BTreeMap<String, String>, programs| CrossBuild {
        target: target.clone(),
        compilers,
        entries,
        programs,
    };
    if options.contains_key("CMAKE_TOOLCHAIN_FILE") {
        return Ok(make(TargetCompilers::ToolchainFile, BTreeMap::new(), None));
    }
    if let Some(file) = named(target, env, "CMAKE_TOOLCHAIN_FILE") {
        let entries = BTreeMap::from([("CMAKE_TOOLCHAIN_FILE".to_owned(), file.to_owned())]);
        return Ok(make(TargetCompilers::ToolchainFile, entries, None));
    }
    // Apple's compilers generate code for all of Apple's architectures.
    if target.os == Some(Os::Macos) && host.platform().os == Os::Macos {
        let arch = if target.arch == "aarch64" { "arm64" } else { &target.arch };
        let entries = BTreeMap::from([("CMAKE_OSX_ARCHITECTURES".to_owned(), arch.to_owned())]);
        return Ok(make(TargetCompilers::Apple, entries, None));
    }
    let (c, cxx) = (named(target, env, "CC"), named(target, env, "CXX"));
    if let (Some(c), Some(cxx), Some(system)) = (c, cxx, system(target)) {
        let entries = entries(target, system, &[("CMAKE_C_COMPILER", c), ("CMAKE_CXX_COMPILER", cxx)]);
        return Ok(make(TargetCompilers::Variables, entries, None));
    }
    if let (true, Some([c, cxx]), Some(system)) = (choice.gcc, gcc(host, target), system(target)) {
        let entries = entries(target, system, &[("CMAKE_C_COMPILER", &c), ("CMAKE_CXX_COMPILER", &cxx)]);
        return Ok(make(TargetCompilers::Gcc, entries, None));
    }
    let programs = target.zig().and_then(|zig| zig_programs(host, &zig));
    if let (true, Some(folder), Some(system)) = (choice.zig, programs, system(target)) {
        let entries = zig_entries(target, system, &folder, host.platform().os);
        return Ok(make(TargetCompilers::Zig, entries, Some(folder)));
    }
    let under = target.under();
    let with =
        build.map(|build| format!(", and the compilers of {build} cannot target it")).unwrap_or_default();
    Err(Reason::new(
        id!("cross.toolchain-missing"),
        format!("no compilers are set for {}{with}", target.triple),
    )
    .hint(format!(
        "set `CC_{under}` and `CXX_{under}`, or set a CMake toolchain file in `CMAKE_TOOLCHAIN_FILE_{under}`"
    )))
}

/// GCC's compilers for C and C++ on PATH.
fn gcc(host: &dyn ReadFiles, target: &Target) -> Option<[String; 2]> {
    let path = |name: &str| {
        Some(find_program(host, &target.gcc_program(name)).into_iter().next()?.forward_slashes())
    };
    Some([path("gcc")?, path("g++")?])
}

/// A variable for the target, in the spellings that crates use: `CC_x86_64-pc-windows-gnu`, `CC_x86_64_pc_windows_gnu`,
/// `TARGET_CC`.
fn named<'a>(target: &Target, env: &'a Environment, name: &str) -> Option<&'a str> {
    [format!("{name}_{}", target.triple), format!("{name}_{}", target.under()), format!("TARGET_{name}")]
        .iter()
        .find_map(|variable| env.get(variable))
        .or_else(|| (name == "CMAKE_TOOLCHAIN_FILE").then(|| env.get(name)).flatten())
}

/// CMake's name for the operating system of a target.
fn system(target: &Target) -> Option<&'static str> {
    match target.os {
        Some(Os::Linux) => Some("Linux"),
        Some(Os::Windows) => Some("Windows"),
        Some(Os::Macos) => Some("Darwin"),
        None if target.triple.ends_with("-apple-ios") => Some("iOS"),
        None if target.triple.ends_with("-freebsd") => Some("FreeBSD"),
        None => None,
    }
}

/// The entries for compilers of a target.
fn entries(target: &Target, system: &str, programs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let processor = match (target.os, target.arch.as_str()) {
        (Some(Os::Macos), "aarch64") => "arm64",
        (_, arch) => arch,
    };
    let common = [
        ("CMAKE_SYSTEM_NAME", system),
        ("CMAKE_SYSTEM_PROCESSOR", processor),
        // Libraries of the build machine are unusable for the target.
        ("CMAKE_FIND_ROOT_PATH_MODE_LIBRARY", "ONLY"),
        ("CMAKE_FIND_ROOT_PATH_MODE_INCLUDE", "ONLY"),
        ("CMAKE_FIND_ROOT_PATH_MODE_PACKAGE", "ONLY"),
    ];
    let all = common.iter().chain(programs);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn zig_entries(target: &Target, system: &str, folder: &HostPath, os: Os) -> BTreeMap<String, String> {
    let path = |name: &str| folder.join(&program_name(os, name)).forward_slashes();
    let mut entries = entries(target, system, &[]);
    let names = [
        ("CMAKE_C_COMPILER", "cc"),
        ("CMAKE_CXX_COMPILER", "c++"),
        ("CMAKE_AR", "ar"),
        ("CMAKE_RANLIB", "ranlib"),
    ];
    entries.extend(names.map(|(entry, name)| (entry.to_owned(), path(name))));
    // Without a root, CMake searches the folders of the build machine in the mode `ONLY`.
    entries.insert("CMAKE_FIND_ROOT_PATH".to_owned(), folder.forward_slashes());
    // Zig compiles its C++ library with debug information if the linker keeps any.
    for kind in ["EXE", "SHARED", "MODULE"] {
        for build in ["RELEASE", "MINSIZEREL"] {
            entries.insert(format!("CMAKE_{kind}_LINKER_FLAGS_{build}"), "-s".to_owned());
        }
    }
    if target.os == Some(Os::Windows) {
        entries.insert("CMAKE_RC_COMPILER".to_owned(), path("rc"));
    }
    entries
}

impl CrossBuild {
    /// The target as it is part of a plan; `None` for an operating system that gpubuild does not know.
    #[must_use]
    pub fn planned(&self) -> Option<PlannedTarget> {
        let (name, compilers) = (self.target.name(), self.compilers);
        Some(PlannedTarget { name, os: self.target.os?, compilers })
    }
}
