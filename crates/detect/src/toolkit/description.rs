//! The form of a file in `toolkits/`: what a toolkit or tool is, where it may be, what belongs to it and what it can do.
//!
//! Only the form is here; `docs/toolkits.md` explains it to people who write such a file.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{Arch, Os, Platform};
use gpubuild_toml::Later;
use serde::Deserialize;

pub use super::tables::{
    ArchRow, BranchRow, BundledRow, Compatibility, CompilerRow, DeviceRow, DriverRow, KernelRow, LastRow,
    LibcRow, NameRow, Risk, StandInRow, SupportRow, Wheel, WheelFile,
};
use crate::facts::Vendor;

/// A toolkit or tool, as its file describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Stable id, the name of the file: `cuda`, `gcc`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What kind of thing it is.
    pub kind: Kind,
    /// First word of the ids of its findings: `cuda`, `vk`, `ocl`.
    pub family: String,
    /// Backends that need it to be built.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// The role that it fills for others: `host-compiler`, `glslc`.
    pub provides: Option<String>,
    /// Order among the tools of one role; smaller is better.
    #[serde(default)]
    pub preference: u32,
    /// Where it is looked for, in order of preference within a kind of place.
    #[serde(default)]
    pub roots: Vec<Root>,
    /// Its parts, by id.
    #[serde(default)]
    pub parts: BTreeMap<String, PartDescription>,
    /// Where its version stands; the first source that answers wins.
    #[serde(default)]
    pub version: Vec<VersionSource>,
    /// Limits that an installed copy states about itself, read before any table here.
    #[serde(default)]
    pub limits: Vec<LimitSource>,
    /// Files whose names tell which device architectures an installed copy can really run.
    #[serde(default)]
    pub device_archs: Vec<Candidate>,
    /// How its compiler is asked for the architectures that it can build for.
    pub list_archs: Option<ArchQuestion>,
    /// Texts in an installed copy that show that somebody mended what a table says is broken.
    #[serde(default)]
    pub mended: Vec<Mended>,
    /// What a build for its backends needs besides its own parts.
    #[serde(default)]
    pub build: BuildNeeds,
    /// What running on its backend needs of the host.
    pub runtime: Option<RuntimeDescription>,
    /// Whose hardware its backends drive.
    #[serde(default)]
    pub hardware: HardwareDescription,
    /// CMake cache entries of a chosen copy; `{root}` and `{part-id}` stand for its folders and parts.
    #[serde(default)]
    pub cmake: BTreeMap<String, CmakeEntry>,
    /// What it does in front of compilers.
    pub launcher: Option<LauncherDescription>,
    /// Install help by distribution or package manager: a command, or a sentence.
    #[serde(default)]
    pub install: BTreeMap<String, String>,
    /// The same for the driver of its hardware.
    #[serde(default)]
    pub install_driver: BTreeMap<String, String>,
    /// Id of the finding when there is no copy at all.
    pub missing: Option<String>,
    /// Id of the finding when a variable names a place without a copy, and there is no other.
    pub root_invalid: Option<String>,
    /// Ids of findings when no host compiler is in the window, by compiler.
    #[serde(default)]
    pub compiler_outside: BTreeMap<String, String>,
    /// Id of the finding when every device is older than the oldest architecture of the chosen copy.
    pub devices_dropped: Option<String>,
    /// What its backend is and needs, for people.
    pub about: Option<About>,
    /// A program that shows that a copy really works.
    pub validate: Option<Validate>,
    /// What its findings say, by id.
    #[serde(default)]
    pub reasons: BTreeMap<String, ReasonText>,
    /// Tables of what goes with what, each row with its source.
    #[serde(default)]
    pub compatibility: Later<Compatibility>,
    /// Which releases `gpubuild toolkit install` can offer at all.
    pub offered: Option<OfferLimits>,
    /// A pinned copy that can be fetched when the host has none.
    pub wheel: Option<Wheel>,
    /// The oldest version that is good enough.
    pub minimum: Option<Version>,
    /// Documentation.
    #[serde(default)]
    pub links: Vec<String>,
}

/// What a tool does in front of compilers (`CMAKE_<LANG>_COMPILER_LAUNCHER`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LauncherDescription {
    /// Languages as CMake calls them: `C`, `CXX`, `CUDA`, `HIP`.
    pub languages: Vec<String>,
    /// The variable with a file that gets the outcome of every call.
    pub log: Option<String>,
    /// Whether it keeps what compilers made.
    #[serde(default)]
    pub caches: bool,
    /// The variable with a folder below which paths are the same everywhere.
    pub base: Option<String>,
    /// The variable with a program that stands between it and the compiler.
    pub prefix: Option<String>,
    /// The variable that lists the machines to compile on.
    pub hosts: Option<String>,
    /// Files that list them as well.
    #[serde(default)]
    pub hosts_files: Vec<String>,
    /// A storage that several machines share.
    pub remote: Option<RemoteDescription>,
}

/// A storage that several machines share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteDescription {
    /// How its addresses begin: `redis`, `http`.
    pub schemes: Vec<String>,
    /// The variables that take the address; all of them are set.
    pub env: Vec<String>,
}

/// Which releases of a toolkit can be had as wheels at all.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferLimits {
    /// The first one.
    pub since: Version,
    /// What the older ones lack, as half a sentence.
    pub before: String,
    /// Where that was seen.
    pub source: String,
}

/// What a backend is and needs, for people: `gpubuild explain`, `docs/backends.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What it is good for, in one line.
    pub summary: String,
    /// Where its maker offers it.
    pub download: String,
    /// Which hardware it drives.
    pub hardware: String,
    /// What the system has to have for that.
    pub driver: String,
    /// Whether it exists, by operating system, in words.
    pub platforms: BTreeMap<Os, String>,
    /// Python packages with its runtime; none if empty.
    #[serde(default)]
    pub python: Vec<String>,
    /// What these packages are for, or why there are none.
    pub python_note: String,
    /// Commands that show that it is there.
    pub verify: Vec<String>,
    /// Variables that matter beside those that name its folder.
    #[serde(default)]
    pub run_variables: BTreeMap<String, String>,
}

/// A program that shows that a copy really works: `gpubuild doctor --validate`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    /// One of the programs in `src/doctor/validate/programs/`.
    pub source: String,
    /// The same for a shader that is compiled on its own.
    pub shader: Option<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// In order.
    pub steps: Vec<ValidateStep>,
}

/// One command of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidateStep {
    /// What fails if it does.
    pub stage: Stage,
    /// Words with `{source} {object} {program} {shader} {shader_object} {root} {host_cc} {host_cxx} {arch}` and the ids
    /// of parts. A word whose `host_cxx` or `arch` is not known is left out.
    pub argv: Vec<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// The stages of such a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Stage {
    /// From source to object.
    Compile,
    /// From object to program.
    Link,
    /// The program itself, the result included.
    Run,
}

/// Kinds of descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A folder with compilers, headers and libraries.
    Sdk,
    /// One program.
    Tool,
}

/// A place to look. Exactly one of `env`, `prefix_env`, `program`, `own`, `known`, `registry`, `visual_studio`
/// is given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// A variable that names this very toolkit: an explicit choice.
    pub env: Option<String>,
    /// A variable that names an active environment or a neighbour that may contain it.
    pub prefix_env: Option<String>,
    /// Names of a program on PATH, the plain name first; its real path leads to the root.
    #[serde(default)]
    pub program: Vec<String>,
    /// A folder among the toolkits that gpubuild installed itself, in its own cache; may have `*`.
    pub own: Option<String>,
    /// A folder (for a tool: the program) where installers put it; may have `*` and placeholders.
    pub known: Option<String>,
    /// A registry key whose value (its own or its subkeys') names the root.
    pub registry: Option<String>,
    /// Name of that registry value.
    pub value: Option<String>,
    /// A tool of Visual Studio, which is asked where it put it.
    pub visual_studio: Option<String>,
    /// Folders to go up from the place to the root.
    #[serde(default)]
    pub up: usize,
    /// Folders below the place to try, in order; may have `*`.
    #[serde(default)]
    pub sub: Vec<String>,
    /// The system's own default among several known folders, such as a link that the package manager keeps.
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
    /// Whether a folder that has it counts as a copy of the toolkit.
    #[serde(default)]
    pub marker: bool,
    /// Candidates below the root, first found wins.
    pub paths: Vec<Candidate>,
    /// Folders to go up from the file found, so that a header can stand for its include folder.
    #[serde(default)]
    pub up: usize,
    /// Id of the finding when it is missing and required.
    pub missing: Option<String>,
}

/// A relative path with placeholders, perhaps for some platforms only.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Candidate {
    /// For every platform.
    Everywhere(String),
    /// For some.
    Some(PlatformCandidate),
}

/// A path for some platforms.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformCandidate {
    /// The path.
    pub path: String,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Processor architecture.
    pub arch: Option<Arch>,
}

impl Candidate {
    /// The path, if it is meant for this platform.
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

/// Whether a list of operating systems (all, if empty) names this one.
#[must_use]
pub fn is_on(list: &[Os], os: Os) -> bool {
    list.is_empty() || list.contains(&os)
}

/// Where a version stands.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSource {
    /// A file below the root; may have `*` and placeholders.
    pub file: Option<String>,
    /// Dotted key of a JSON file.
    pub json: Option<String>,
    /// Patterns with `{version}` in the file's text; the pieces found are joined by dots.
    #[serde(default)]
    pub text: Vec<String>,
    /// How a number is read.
    #[serde(default)]
    pub scale: Scale,
    /// A pattern with `{version}` in the real path of the root (of a tool: of the program).
    pub path: Option<String>,
    /// Whether only a version with a dot in it counts.
    #[serde(default)]
    pub dotted: bool,
    /// A path below the root whose last name has `{version}`; the newest one counts.
    pub entry: Option<String>,
    /// Arguments of the program, where nothing but the program knows: run only when asked to.
    #[serde(default)]
    pub args: Vec<String>,
}

/// How the number of a version source is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// As it stands.
    #[default]
    Plain,
    /// 12040 is 12.4.
    Thousands,
}

/// A limit that an installed copy states about itself.
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

/// How a compiler is asked for its architectures.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchQuestion {
    /// Arguments of the compiler.
    pub args: Vec<String>,
    /// What stands before each number in the answer: `compute_`.
    pub prefix: String,
}

/// A text in a file that takes a row of a table back for this copy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mended {
    /// The name that the row's `unless` has.
    pub id: String,
    /// Files below the root, the first that is there counts.
    pub file: Vec<String>,
    /// Texts of which one has to stand in it.
    pub has: Vec<String>,
}

/// What a build needs besides the toolkit's own parts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildNeeds {
    /// Operating systems on which the backend can be built; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Roles or ids of tools that must be there.
    #[serde(default)]
    pub tools: Vec<ToolNeed>,
}

/// A tool that a build needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolNeed {
    /// Role (`host-compiler`) or id (`msvc`).
    pub role: String,
    /// Id of the finding when it is missing.
    pub missing: String,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// Whose hardware a toolkit's backends drive.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareDescription {
    /// Makers.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// Operating systems on which such hardware can be used; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Kernel drivers of which one has to be bound on Linux; any will do if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
    /// Id of the finding when no driver is bound.
    pub driver_missing: Option<String>,
    /// Ids of findings by the other kernel driver that is bound.
    #[serde(default)]
    pub wrong_drivers: BTreeMap<String, String>,
    /// The platform itself is the hardware (Metal on Apple's own processors).
    #[serde(default)]
    pub builtin: Vec<Platform>,
    /// Name of that device.
    pub builtin_name: Option<String>,
}

/// What running on a backend needs of the host.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeDescription {
    /// Names of the library that programs open, by operating system; the first found counts. None: nothing to find.
    #[serde(default)]
    pub loader: BTreeMap<Os, Vec<String>>,
    /// Folders searched after the loader's own, by operating system.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// Id of the finding when the library is not found.
    pub loader_missing: Option<String>,
    /// Id of the finding when a node is missing in a container.
    pub container: Option<String>,
    /// Id of the finding when the library is missing in a container, where the container's runtime brings it.
    pub container_loader: Option<String>,
    /// Id of the finding when a node may not be opened in a container.
    pub container_denied: Option<String>,
    /// Id of the finding when the library's version is not the kernel driver's.
    pub mismatch: Option<String>,
    /// Id of the finding when the driver is too old for the chosen toolkit.
    pub too_old: Option<String>,
    /// Id of the finding when the libraries of the chosen toolkit were built for none of the devices.
    pub device_unsupported: Option<String>,
    /// A pattern with `{version}` in the real name of the library.
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
    /// Alternatives; may have `*`. The first that exists counts; of several matches one that opens is enough.
    pub paths: Vec<String>,
    /// Id of the finding when it is missing; a node without one may be missing.
    pub missing: Option<String>,
    /// Id of the finding when it may not be opened.
    pub denied: String,
    /// A program with which the driver makes the node on first use: where it is there, a missing node is no fault.
    pub made_by: Option<String>,
    /// Kernel drivers whose cards are reached through it; those of any card if empty.
    #[serde(default)]
    pub only_drivers: Vec<String>,
    /// Kernel drivers whose cards are not reached through it.
    #[serde(default)]
    pub except_drivers: Vec<String>,
}

impl NodeDescription {
    /// Whether cards with this kernel driver are reached through the node. One whose driver is not known may be.
    #[must_use]
    pub fn serves(&self, kernel_driver: Option<&str>) -> bool {
        let Some(driver) = kernel_driver else { return true };
        let named = |list: &[String]| list.iter().any(|name| name == driver);
        (self.only_drivers.is_empty() || named(&self.only_drivers)) && !named(&self.except_drivers)
    }

    /// Whether it is the way to some cards only.
    #[must_use]
    pub fn is_for_some(&self) -> bool {
        !self.only_drivers.is_empty() || !self.except_drivers.is_empty()
    }
}

/// Drivers behind a loader: manifests in folders, variables and the registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverDescription {
    /// How a manifest is written.
    pub form: ManifestForm,
    /// Variables with a list of manifest files that replaces everything else; the first that is set counts.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with a list of further manifest files.
    #[serde(default)]
    pub add_env: Vec<String>,
    /// A variable with the one folder that replaces all others.
    pub folder_env: Option<String>,
    /// Folders, by operating system; may have placeholders.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// File extension of manifests.
    #[serde(default)]
    pub extension: String,
    /// Registry keys whose value names are manifests (or libraries).
    #[serde(default)]
    pub registry: Vec<String>,
    /// Name of the value in the display adapters' registry keys.
    pub adapter_value: Option<String>,
    /// Libraries that are drivers themselves, by operating system (Level Zero).
    #[serde(default)]
    pub libraries: BTreeMap<Os, Vec<String>>,
    /// Id of the finding when there is no driver for the devices at all.
    pub missing: Option<String>,
    /// The same in a container, by the maker of the cards.
    #[serde(default)]
    pub missing_in_container: BTreeMap<Vendor, String>,
    /// Id of the finding when only drivers that run on the processor are there.
    pub software_only: Option<String>,
    /// What the names of drivers tell; the first match counts.
    #[serde(default)]
    pub known: Vec<KnownDriver>,
}

/// How a manifest is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestForm {
    /// JSON with `ICD.library_path`.
    #[default]
    VulkanJson,
    /// A text file whose line is the library.
    IcdText,
    /// No manifests, libraries only.
    Library,
}

/// What the name of a driver tells.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDriver {
    /// Text that stands in the manifest's or the library's name, lowercase.
    pub has: String,
    /// Whose cards it drives.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// Its name, if it runs on the processor.
    pub software: Option<String>,
    /// Kernel drivers that it works with; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
}

/// What a finding says in one line, and what to do in another. `{name}` stands for values of the case at hand,
/// `{install}` and `{install_driver}` for this distribution's command.
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
    /// The value as written, whatever the platform.
    #[must_use]
    pub fn value(&self) -> &str {
        match self {
            Self::Everywhere(value) => value,
            Self::Some(one) => &one.path,
        }
    }
}
