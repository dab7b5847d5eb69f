//! The types of a file in `toolkits/`: what a toolkit or tool is, where it can be, which parts it has and what it supports.
//!
//! `docs/reference/toolkits.md` documents the keys for authors of such files.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{Arch, Os, Platform};
use gpubuild_toml::Later;
use serde::Deserialize;

pub use super::tables::{
    ArchRow, BranchRow, BundledRow, Compatibility, CompilerRow, DeviceRow, DriverRow, KernelRow, LastRow,
    LibcRow, NameRow, Risk, StandInRow, SupportRow, WheelFile, WheelName,
};
use crate::diagnostic::DiagnosticId;
use crate::facts::Vendor;

/// The description of a toolkit or tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The stable id and name of the file: `cuda`, `gcc`.
    pub id: String,
    /// The name for messages.
    pub name: String,
    /// Whether it is an SDK or a tool.
    pub kind: ToolkitKind,
    /// The first part of its findings' ids: `cuda`, `vk`, `ocl`.
    pub family: String,
    /// Backends that are built with it.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// The role that it fills for other toolkits: `host-compiler`, `glslc`.
    pub provides: Option<String>,
    /// Order among the tools of a role; lower is better.
    #[serde(default)]
    pub preference: u32,
    /// The places that are searched, in order of preference within a kind of place.
    #[serde(default)]
    pub roots: Vec<Root>,
    /// Its parts by id.
    #[serde(default)]
    pub parts: BTreeMap<String, PartDescription>,
    /// Sources of its version; the first one that yields a version is used.
    #[serde(default)]
    pub version: Vec<VersionSource>,
    /// Limits that are read from an installed copy. They take precedence over the tables.
    #[serde(default)]
    pub limits: Vec<LimitSource>,
    /// Files whose names show the device architectures that an installed copy can run.
    #[serde(default)]
    pub device_archs: Vec<CandidateRule>,
    /// The query for the architectures that its compiler supports.
    pub list_archs: Option<ArchQuestion>,
    /// Texts in an installed copy that show that a problem from a table is fixed.
    #[serde(default)]
    pub mended: Vec<Mended>,
    /// What a build for its backends needs besides its parts.
    #[serde(default)]
    pub build: BuildNeeds,
    /// What its backend needs on the host at run time.
    pub runtime: Option<RuntimeDescription>,
    /// The hardware that its backends use.
    #[serde(default)]
    pub hardware: HardwareDescription,
    /// CMake cache entries of a chosen copy; `{root}` and `{part-id}` are replaced by its folders and parts.
    #[serde(default)]
    pub cmake: BTreeMap<String, CmakeEntry>,
    /// Its properties as a compiler launcher.
    pub launcher: Option<LauncherDescription>,
    /// How to install it, by distribution or package manager: a command, or a sentence.
    #[serde(default)]
    pub install: BTreeMap<String, String>,
    /// How to install the driver of its hardware, in the same form.
    #[serde(default)]
    pub install_driver: BTreeMap<String, String>,
    /// Id of the finding if no copy was found.
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if a variable points to a place without a copy and no other copy was found.
    pub root_invalid: Option<DiagnosticId>,
    /// Ids of the findings if no host compiler has a supported version, by compiler.
    #[serde(default)]
    pub compiler_outside: BTreeMap<String, DiagnosticId>,
    /// Id of the finding if every device is older than the oldest architecture of the chosen copy.
    pub devices_dropped: Option<DiagnosticId>,
    /// What its backend is and needs, in prose.
    pub about: Option<ToolkitAbout>,
    /// A program that verifies that a copy works.
    pub validate: Option<Validate>,
    /// The texts of its findings, by id.
    #[serde(default)]
    pub reasons: BTreeMap<String, ReasonText>,
    /// Compatibility tables, each row with its source.
    #[serde(default)]
    pub compatibility: Later<Compatibility>,
    /// The releases that `gpubuild toolkit install` can offer.
    pub offered: Option<OfferLimits>,
    /// A pinned copy that can be fetched if the host lacks it.
    pub wheel: Option<WheelName>,
    /// The oldest version that is sufficient.
    pub minimum: Option<Version>,
    /// Links to documentation.
    #[serde(default)]
    pub links: Vec<String>,
}

/// A tool that runs in front of compilers (`CMAKE_<LANG>_COMPILER_LAUNCHER`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LauncherDescription {
    /// Languages in CMake's spelling: `C`, `CXX`, `CUDA`, `HIP`.
    pub languages: Vec<String>,
    /// The variable with the path of a file to which the outcome of every call is written.
    pub log: Option<String>,
    /// Whether it caches the compilers' output.
    #[serde(default)]
    pub caches: bool,
    /// The variable with a folder below which paths are equal on all machines.
    pub base: Option<String>,
    /// The variable with a program that it runs instead of the compiler, which then runs the compiler.
    pub prefix: Option<String>,
    /// The variable with the machines that compile.
    pub hosts: Option<String>,
    /// Files that also list these machines.
    #[serde(default)]
    pub hosts_files: Vec<String>,
    /// A cache that several machines share.
    pub remote: Option<RemoteDescription>,
}

/// A cache that several machines share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteDescription {
    /// The schemes of its addresses: `redis`, `http`.
    pub schemes: Vec<String>,
    /// The variables that are set to its address; all of them are set.
    pub env: Vec<String>,
}

/// Which releases of a toolkit are available as wheels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferLimits {
    /// The first available release.
    pub since: Version,
    /// What older releases lack, as part of a sentence.
    pub before: String,
    /// The source of this information.
    pub source: String,
}

/// What a backend is and needs, in prose: `gpubuild explain`, `docs/reference/backends.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitAbout {
    /// Its purpose, in one line.
    pub summary: String,
    /// The vendor's download page.
    pub download: String,
    /// The supported hardware.
    pub hardware: String,
    /// The drivers that the system needs.
    pub driver: String,
    /// Whether it exists, by operating system, in prose.
    pub platforms: BTreeMap<Os, String>,
    /// Python packages with its runtime; may be empty.
    #[serde(default)]
    pub python: Vec<String>,
    /// The purpose of these packages, or why the list is empty.
    pub python_note: String,
    /// Commands that verify that it is installed.
    pub verify: Vec<String>,
    /// Other relevant variables besides those for its folder.
    #[serde(default)]
    pub run_variables: BTreeMap<String, String>,
}

/// A program that verifies that a copy works: `gpubuild doctor --validate`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    /// The name of one of the programs in `src/doctor/validate/programs/`.
    pub source: String,
    /// The same for a shader that is compiled separately.
    pub shader: Option<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// The commands, in order.
    pub steps: Vec<ValidateStep>,
}

/// One command of a validation program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidateStep {
    /// The stage that fails if the command fails.
    pub stage: PipelineStage,
    /// Arguments with `{source} {object} {program} {shader} {shader_object} {root} {host_cc} {host_cxx} {arch}` and the ids
    /// of parts. An argument whose `host_cxx` or `arch` is unknown is omitted.
    pub argv: Vec<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// The stages of a validation program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PipelineStage {
    /// From source to object file.
    Compile,
    /// From object file to program.
    Link,
    /// The program's run, including its result.
    Run,
}

/// The kinds of descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolkitKind {
    /// A folder with compilers, headers and libraries.
    Sdk,
    /// A single program.
    Tool,
}

/// A place to search. Exactly one of `env`, `prefix_env`, `program`, `own`, `known`, `registry`, `visual_studio`
/// is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// A variable for exactly this toolkit: an explicit choice.
    pub env: Option<String>,
    /// A variable with an active environment, or with another toolkit that can contain this one.
    pub prefix_env: Option<String>,
    /// Names of a program on PATH, the plain name first; its real path yields the root.
    #[serde(default)]
    pub program: Vec<String>,
    /// A folder among the toolkits that gpubuild installed in its cache; may contain `*`.
    pub own: Option<String>,
    /// A folder (for a tool: the program) where installers put it; may contain `*` and placeholders.
    pub known: Option<String>,
    /// A registry key whose value, or whose subkeys' value, is the root.
    pub registry: Option<String>,
    /// The name of that registry value.
    pub value: Option<String>,
    /// A tool of Visual Studio, found through Visual Studio's records.
    pub visual_studio: Option<String>,
    /// How many folders the root is above the place.
    #[serde(default)]
    pub up: usize,
    /// Folders below the place to try, in order; may contain `*`.
    #[serde(default)]
    pub sub: Vec<String>,
    /// Whether it is the system's default among several known folders, such as a link of the package manager.
    #[serde(default)]
    pub default: bool,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// A part of an installation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartDescription {
    /// Whether a build for the toolkit's backend needs it.
    #[serde(default)]
    pub required: bool,
    /// Whether a folder with this part counts as a copy of the toolkit.
    #[serde(default)]
    pub marker: bool,
    /// Candidates below the root; the first one found is used.
    pub paths: Vec<CandidateRule>,
    /// How many folders the part is above the file that was found: a header can represent its include folder.
    #[serde(default)]
    pub up: usize,
    /// Id of the finding if it is missing and required.
    pub missing: Option<DiagnosticId>,
}

/// A relative path with placeholders, optionally only for some platforms.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum CandidateRule {
    /// The path on every platform.
    Everywhere(String),
    /// The path on some platforms.
    Some(PlatformCandidate),
}

/// A path for some platforms.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformCandidate {
    /// The path itself.
    pub path: String,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// The CPU architecture; any if omitted.
    pub arch: Option<Arch>,
}

impl CandidateRule {
    /// The path, if it applies to this platform.
    #[must_use]
    pub fn on(&self, platform: Platform) -> Option<&str> {
        match self {
            Self::Everywhere(path) => Some(path),
            Self::Some(one) => (is_on(&one.on, platform.os)
                && one.arch.is_none_or(|arch| arch == platform.arch))
            .then_some(one.path.as_str()),
        }
    }
}

/// Whether a list of operating systems contains this one; an empty list contains all.
#[must_use]
pub fn is_on(list: &[Os], os: Os) -> bool {
    list.is_empty() || list.contains(&os)
}

/// A source of a version.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSource {
    /// A file below the root; may contain `*` and placeholders.
    pub file: Option<String>,
    /// The dotted key in a JSON file.
    pub json: Option<String>,
    /// Patterns with `{version}` in the file's text; the matches are joined by dots.
    #[serde(default)]
    pub text: Vec<String>,
    /// How a number is interpreted.
    #[serde(default)]
    pub scale: Scale,
    /// A pattern with `{version}` in the real path of the root (of a tool: of the program).
    pub path: Option<String>,
    /// Whether only a version with a dot is accepted.
    #[serde(default)]
    pub dotted: bool,
    /// A path below the root whose last component contains `{version}`; the newest match is used.
    pub entry: Option<String>,
    /// Arguments with which the program prints its version, if no file contains it. Only run on request.
    #[serde(default)]
    pub args: Vec<String>,
}

/// How the number of a version source is interpreted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Unchanged.
    #[default]
    Plain,
    /// 12040 is 12.4.
    Thousands,
}

/// A limit that an installed copy contains, such as a check in a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSource {
    /// `gcc-max`, `clang-below`, `msvc-min`, `msvc-below`.
    pub id: String,
    /// A file below the root.
    pub file: Vec<String>,
    /// A pattern with `{version}`.
    pub text: String,
}

/// How a compiler is queried for its architectures.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchQuestion {
    /// The compiler's arguments.
    pub args: Vec<String>,
    /// The text before each number in the answer: `compute_`.
    pub prefix: String,
}

/// A text in a file that shows that a table row does not apply to this copy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mended {
    /// The name in the row's `unless`.
    pub id: String,
    /// Files below the root; the first one that exists is read.
    pub file: Vec<String>,
    /// Texts of which the file must contain one.
    pub has: Vec<String>,
}

/// What a build needs besides the toolkit's parts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildNeeds {
    /// Operating systems on which the backend can be built; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Roles or ids of required tools.
    #[serde(default)]
    pub tools: Vec<ToolNeed>,
}

/// A tool that a build needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolNeed {
    /// The role (`host-compiler`) or id (`msvc`).
    pub role: String,
    /// Id of the finding if it is missing.
    pub missing: DiagnosticId,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// The hardware that a toolkit's backends use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareDescription {
    /// The vendors.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// Operating systems on which such hardware is usable; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Kernel drivers of which one must be bound on Linux; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
    /// Id of the finding if no driver is bound.
    pub driver_missing: Option<DiagnosticId>,
    /// Ids of the findings by the wrong kernel driver that is bound.
    #[serde(default)]
    pub wrong_drivers: BTreeMap<String, DiagnosticId>,
    /// Platforms that always have the hardware (Metal on Apple processors).
    #[serde(default)]
    pub builtin: Vec<Platform>,
    /// The name of that device.
    pub builtin_name: Option<String>,
}

/// What a backend needs on the host at run time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeDescription {
    /// Names of the library that programs open, by operating system; the first one found is used. Empty if there is no such library.
    #[serde(default)]
    pub loader: BTreeMap<Os, Vec<String>>,
    /// Folders that are searched after those of the loader, by operating system.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// Id of the finding if the library is not found.
    pub loader_missing: Option<DiagnosticId>,
    /// Id of the finding if a node is missing in a container.
    pub container: Option<DiagnosticId>,
    /// Id of the finding if the library is missing in a container whose runtime should provide it.
    pub container_loader: Option<DiagnosticId>,
    /// Id of the finding if a node cannot be opened in a container.
    pub container_denied: Option<DiagnosticId>,
    /// Id of the finding if the versions of the library and the kernel driver differ.
    pub mismatch: Option<DiagnosticId>,
    /// Id of the finding if the driver is too old for the chosen toolkit.
    pub too_old: Option<DiagnosticId>,
    /// Id of the finding if the libraries of the chosen toolkit support none of the devices.
    pub device_unsupported: Option<DiagnosticId>,
    /// A pattern with `{version}` in the library's real file name.
    pub version: Option<String>,
    /// Device nodes on Linux.
    #[serde(default)]
    pub nodes: Vec<NodeDescription>,
    /// Drivers behind the loader.
    pub drivers: Option<DriverDescription>,
}

/// A device node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDescription {
    /// Alternatives; may contain `*`. The first one that exists is used; of several matches, one that opens is enough.
    pub paths: Vec<String>,
    /// Id of the finding if it is missing; without an id it may be missing.
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if it cannot be opened.
    pub denied: DiagnosticId,
    /// The program with which the driver creates the node on first use: if it exists, a missing node is not a problem.
    pub made_by: Option<String>,
    /// Kernel drivers whose GPUs use the node; any if empty.
    #[serde(default)]
    pub only_drivers: Vec<String>,
    /// Kernel drivers whose GPUs do not use the node.
    #[serde(default)]
    pub except_drivers: Vec<String>,
}

impl NodeDescription {
    /// Whether GPUs with this kernel driver use the node; assumed if the driver is unknown.
    #[must_use]
    pub fn serves(&self, kernel_driver: Option<&str>) -> bool {
        let Some(driver) = kernel_driver else { return true };
        let named = |list: &[String]| list.iter().any(|name| name == driver);
        (self.only_drivers.is_empty() || named(&self.only_drivers)) && !named(&self.except_drivers)
    }

    /// Whether only some GPUs use the node.
    #[must_use]
    pub fn is_for_some(&self) -> bool {
        !self.only_drivers.is_empty() || !self.except_drivers.is_empty()
    }
}

/// Drivers behind a loader: manifests in folders, variables and the registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverDescription {
    /// The format of a manifest.
    pub form: ManifestForm,
    /// Variables with a list of manifest files that replaces everything else; the first one that is set is used.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with a list of additional manifest files.
    #[serde(default)]
    pub add_env: Vec<String>,
    /// A variable with the only folder that is searched.
    pub folder_env: Option<String>,
    /// Folders with manifests, by operating system; may contain placeholders.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// The file extension of manifests.
    #[serde(default)]
    pub extension: String,
    /// Registry keys whose value names are paths of manifests or libraries.
    #[serde(default)]
    pub registry: Vec<String>,
    /// The name of the value in the registry keys of display adapters.
    pub adapter_value: Option<String>,
    /// Libraries that are drivers, by operating system (Level Zero).
    #[serde(default)]
    pub libraries: BTreeMap<Os, Vec<String>>,
    /// Id of the finding if the devices have no driver.
    pub missing: Option<DiagnosticId>,
    /// The same in a container, by the GPU's vendor.
    #[serde(default)]
    pub missing_in_container: BTreeMap<Vendor, DiagnosticId>,
    /// Id of the finding if only software drivers exist.
    pub software_only: Option<DiagnosticId>,
    /// What is known about drivers by name; the first match is used.
    #[serde(default)]
    pub known: Vec<KnownDriver>,
}

/// The format of a manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestForm {
    /// JSON with `ICD.library_path`.
    #[default]
    VulkanJson,
    /// A text file that contains the library's name or path.
    IcdText,
    /// No manifests, only libraries.
    Library,
}

/// What is known about a driver by its name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDriver {
    /// Text in the name of the manifest or library, in lower case.
    pub has: String,
    /// The vendors whose GPUs it supports.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// Its name, if it is a software driver, which runs on the CPU.
    pub software: Option<String>,
    /// Kernel drivers that it works with; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
}

/// The text and hint of a finding, one line each. `{name}` is replaced by a value of the actual case,
/// `{install}` and `{install_driver}` by this distribution's command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReasonText {
    /// What is missing or wrong.
    pub text: String,
    /// What to do.
    pub hint: Option<String>,
}

/// A CMake cache entry.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum CmakeEntry {
    /// The value on every platform.
    Everywhere(String),
    /// The value on some.
    Some(PlatformCandidate),
}

impl CmakeEntry {
    /// The value as written, for any platform.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::Everywhere(value) => value,
            Self::Some(one) => &one.path,
        }
    }
}
