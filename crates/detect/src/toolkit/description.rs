//! The types of a toolkit description, a file in `toolkits/`: where a toolkit or tool can be installed, which parts it has and what it
//! supports.
//!
//! `docs/reference/toolkits.md` documents the keys for authors of descriptions.

use std::collections::BTreeMap;
use std::fmt;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{Arch, Os, Platform};
use gpubuild_toml::Lazy;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub use super::tables::{
    ArchRow, BranchRow, BundledRow, Compatibility, CompilerRow, DeviceRow, DriverRow, KernelRow, LastRow,
    LibcRow, NameRow, Risk, StandInRow, SupportRow, WheelFile, WheelName,
};
use crate::diagnostic::DiagnosticId;
use crate::facts::Vendor;
pub use crate::facts::is_on;

/// The description of a toolkit or tool. What only a few commands or machines need is read on first use: every command reads all descriptions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The stable id, which is also the file name: `cuda`, `gcc`.
    pub id: String,
    /// The display name.
    pub name: String,
    /// Whether this is an SDK or a tool.
    pub kind: ToolkitKind,
    /// The first component of the ids of its findings: `cuda`, `vk`, `ocl`.
    pub family: String,
    /// The backends that it builds.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// The role that it provides to other toolkits: `host-compiler`, `glslc`.
    pub provides: Option<String>,
    /// Order among the tools with the same role; lower numbers are preferred.
    #[serde(default)]
    pub preference: u32,
    /// The places to search. Places of the same kind are in order of preference.
    #[serde(default)]
    pub roots: Vec<Root>,
    /// Its parts by id.
    #[serde(default)]
    pub parts: BTreeMap<String, PartDescription>,
    /// Sources of its version. The first one that yields a version is used.
    #[serde(default)]
    pub version: Vec<VersionSource>,
    /// Limits that can be read from an installed copy. They take precedence over the tables.
    #[serde(default)]
    pub limits: Lazy<Vec<LimitSource>>,
    /// Files whose names contain the device architectures that an installed copy supports; `*` is the architecture.
    #[serde(default)]
    pub device_archs: Lazy<Vec<PlatformText>>,
    /// The command that lists the architectures that its compiler supports.
    pub list_archs: Option<Lazy<ArchQuery>>,
    /// Texts in an installed copy that show that it contains the fix for a problem in a table.
    #[serde(default)]
    pub mended: Lazy<Vec<KnownFix>>,
    /// What a build for its backends requires in addition to its parts.
    #[serde(default)]
    pub build: BuildNeeds,
    /// What its backend requires at run time.
    pub runtime: Option<RuntimeDescription>,
    /// The hardware that its backends use.
    #[serde(default)]
    pub hardware: HardwareDescription,
    /// CMake cache entries for the chosen copy. `{root}` and `{part-id}` are replaced by the paths of the copy and its parts.
    #[serde(default)]
    pub cmake: Lazy<BTreeMap<String, PlatformText>>,
    /// Additional entries for a copy that gpubuild installed, whose folder CMake does not search.
    #[serde(default)]
    pub cmake_own: Lazy<BTreeMap<String, PlatformText>>,
    /// Properties of a compiler launcher.
    pub launcher: Option<Lazy<LauncherDescription>>,
    /// How to install it, by distribution or package manager: a command or a sentence.
    #[serde(default)]
    pub install: Lazy<BTreeMap<String, String>>,
    /// How to install the driver of its hardware, in the same format as `install`.
    #[serde(default)]
    pub install_driver: Lazy<BTreeMap<String, String>>,
    /// How to install the driver in WSL, if another one than on hardware is needed there, in the same format as `install`.
    #[serde(default)]
    pub install_driver_wsl: Lazy<BTreeMap<String, String>>,
    /// Id of the finding if no copy was found.
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if a variable points to a place without a copy, and no other copy was found.
    pub root_invalid: Option<DiagnosticId>,
    /// Ids of the findings if no host compiler has a supported version, by id of the compiler.
    #[serde(default)]
    pub compiler_outside: Lazy<BTreeMap<String, DiagnosticId>>,
    /// Id of the finding if all devices are older than the oldest architecture that the chosen copy supports.
    pub devices_dropped: Option<DiagnosticId>,
    /// A description of its backend in prose.
    pub about: Option<Lazy<ToolkitAbout>>,
    /// A test program that verifies that a copy works.
    pub validate: Option<Lazy<Validate>>,
    /// The texts of its findings, by id.
    #[serde(default)]
    pub reasons: Lazy<BTreeMap<String, ReasonText>>,
    /// Compatibility tables, each row with its source.
    #[serde(default)]
    pub compatibility: Lazy<Compatibility>,
    /// The releases that `gpubuild toolkit install` can install.
    pub offered: Option<Lazy<OfferLimits>>,
    /// A pinned wheel that can be installed if the tool is missing.
    pub wheel: Option<WheelName>,
    /// The oldest supported version.
    pub minimum: Option<Version>,
    /// Links to documentation.
    #[serde(default)]
    pub links: Lazy<Vec<String>>,
}

/// A tool that runs the compiler (`CMAKE_<LANG>_COMPILER_LAUNCHER`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LauncherDescription {
    /// Languages by their CMake names: `C`, `CXX`, `CUDA`, `HIP`.
    pub languages: Vec<String>,
    /// The variable with the path of a log file for the result of every compiler call.
    pub log: Option<String>,
    /// Whether it caches compiler output.
    #[serde(default)]
    pub caches: bool,
    /// The variable with the base folder: paths below it are hashed relative to it, so that different machines share results.
    pub base: Option<String>,
    /// The variable with a second launcher that it uses to run the compiler.
    pub prefix: Option<String>,
    /// The variable with the list of machines that compile.
    pub hosts: Option<String>,
    /// Files that can contain this list instead.
    #[serde(default)]
    pub hosts_files: Vec<String>,
    /// The settings of a shared cache.
    pub remote: Option<RemoteDescription>,
}

/// How a launcher is configured to use a cache that several machines share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteDescription {
    /// The supported URL schemes: `redis`, `http`.
    pub schemes: Vec<String>,
    /// The variables to set to the URL of the cache; all of them are set.
    pub env: Vec<String>,
}

/// The releases of a toolkit that are available as wheels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferLimits {
    /// The first available release.
    pub since: Version,
    /// What is missing for older releases, as part of a sentence.
    pub before: String,
    /// The source of this information.
    pub source: String,
}

/// A description of a backend in prose, for `gpubuild explain` and `docs/reference/backends.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitAbout {
    /// Its purpose, in one line.
    pub summary: String,
    /// The vendor's download page.
    pub download: String,
    /// The supported hardware.
    pub hardware: String,
    /// The required drivers.
    pub driver: String,
    /// Support by operating system.
    pub platforms: BTreeMap<Os, String>,
    /// Python packages that contain its runtime libraries; may be empty.
    #[serde(default)]
    pub python: Vec<String>,
    /// A note on these packages, or why the list is empty.
    pub python_note: String,
    /// Commands that verify that it is installed.
    pub verify: Vec<String>,
    /// Relevant environment variables, in addition to those for its location.
    #[serde(default)]
    pub run_variables: BTreeMap<String, String>,
}

/// A test program that verifies that a copy works, for `gpubuild doctor --validate`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    /// The file name of the program in `crates/doctor/src/validate/programs/`.
    pub source: String,
    /// The file name of a shader that is compiled separately.
    pub shader: Option<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// The commands to run, in order.
    pub steps: Vec<ValidateStep>,
}

/// A command of a test program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidateStep {
    /// The stage to report if the command fails.
    pub stage: PipelineStage,
    /// Arguments with `{source} {object} {program} {shader} {shader_object} {root} {host_cc} {host_cxx} {arch}` and the ids
    /// of parts. An argument is omitted if it contains `host_cxx` or `arch` and the value is unknown.
    pub argv: Vec<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// A stage of a test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PipelineStage {
    /// Compiling the source to an object file.
    Compile,
    /// Linking the object file to a program.
    Link,
    /// Running the program and checking its result.
    Run,
}

/// The kind of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolkitKind {
    /// A folder with compilers, headers and libraries.
    Sdk,
    /// A single program.
    Tool,
}

/// A place to search. Exactly one of `env`, `prefix_env`, `program`, `own`, `known`, `registry` and `visual_studio` is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// A variable that selects exactly this toolkit.
    pub env: Option<String>,
    /// A variable that points to an active environment, or to another toolkit that can contain this one.
    pub prefix_env: Option<String>,
    /// Names of a program on PATH, the plain name first. The root is derived from its real path.
    #[serde(default)]
    pub program: Vec<String>,
    /// A folder in gpubuild's toolkit folder; may contain `*`.
    pub own: Option<String>,
    /// A folder that installers use (for a tool: the path of the program); may contain `*` and placeholders.
    pub known: Option<String>,
    /// A registry key. The root is a value of this key or of its subkeys.
    pub registry: Option<String>,
    /// The name of the registry value.
    pub value: Option<String>,
    /// A Visual Studio tool, found through the records of the Visual Studio installer.
    pub visual_studio: Option<String>,
    /// Number of folders to go up from the place to the root.
    #[serde(default)]
    pub up: usize,
    /// Folders below the place that are tried as roots, in order; may contain `*`.
    #[serde(default)]
    pub sub: Vec<String>,
    /// Whether this is the system's default among several known folders, such as a link that the package manager maintains.
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
    /// Whether a folder that contains this part is recognised as a copy of the toolkit.
    #[serde(default)]
    pub marker: bool,
    /// Candidate paths below the root. The first one that exists is used.
    pub paths: Vec<PlatformText>,
    /// Number of folders to go up from the file that was found to the part. For example, a header can identify an include folder.
    #[serde(default)]
    pub up: usize,
    /// Id of the finding if the part is required and missing.
    pub missing: Option<DiagnosticId>,
}

/// A path or value with placeholders, optionally only for some platforms. In a description, it is the text alone, or a table.
#[derive(Debug, Clone)]
pub struct PlatformText {
    text: String,
    on: Vec<Os>,
    arch: Option<Arch>,
}

impl PlatformText {
    /// The text, if it applies to `platform`.
    #[must_use]
    pub fn on(&self, platform: Platform) -> Option<&str> {
        let applies = is_on(&self.on, platform.os) && self.arch.is_none_or(|arch| arch == platform.arch);
        applies.then_some(self.text.as_str())
    }

    /// The text as written, whether or not it applies to this platform.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<'de> Deserialize<'de> for PlatformText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlatformTextVisitor)
    }
}

struct PlatformTextVisitor;

impl<'de> Visitor<'de> for PlatformTextVisitor {
    type Value = PlatformText;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, or a table with `path` and optionally `on` and `arch`")
    }

    fn visit_str<E>(self, text: &str) -> Result<PlatformText, E> {
        Ok(PlatformText { text: text.to_owned(), on: Vec::new(), arch: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PlatformText, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            path: String,
            #[serde(default)]
            on: Vec<Os>,
            arch: Option<Arch>,
        }
        let Table { path, on, arch } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(PlatformText { text: path, on, arch })
    }
}

/// A source of a version.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionSource {
    /// A file below the root; may contain `*` and placeholders.
    pub file: Option<String>,
    /// The key in a JSON file, with dots between nested keys.
    pub json: Option<String>,
    /// Patterns with `{version}` that match the file's text. The matches are joined by dots.
    #[serde(default)]
    pub text: Vec<String>,
    /// How the number is interpreted.
    #[serde(default)]
    pub scale: Scale,
    /// A pattern with `{version}` that matches the real path of the root (for a tool: of the program).
    pub path: Option<String>,
    /// Whether only a version with a dot is accepted.
    #[serde(default)]
    pub dotted: bool,
    /// A path below the root whose last component contains `{version}`. The newest match is used.
    pub entry: Option<String>,
    /// Arguments with which the program prints its version. Used only if no file contains the version, and only on request.
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
    /// As CUDA encodes versions: 12040 is 12.4.
    Thousands,
}

/// A limit that can be read from an installed copy, such as a check in a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSource {
    /// `gcc-max`, `clang-below`, `msvc-min`, `msvc-below`.
    pub id: String,
    /// Files below the root. The first one that exists is read.
    pub file: Vec<String>,
    /// A pattern with `{version}` that matches the file's text.
    pub text: String,
}

/// The command that lists the architectures of a compiler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchQuery {
    /// The compiler's arguments.
    pub args: Vec<String>,
    /// The text before each number in the output: `compute_`.
    pub prefix: String,
}

/// A text in an installed copy that shows that it contains the fix for a problem.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFix {
    /// The id to which `unless` in a table row refers.
    pub id: String,
    /// Files below the root; the first one that exists is read.
    pub file: Vec<String>,
    /// Texts. The copy contains the fix if the file contains one of them.
    pub has: Vec<String>,
}

/// What a build requires in addition to the toolkit's parts.
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
    /// Operating systems on which the hardware is supported; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Kernel drivers, one of which the device must be bound to on Linux; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
    /// Id of the finding if no driver is bound.
    pub driver_missing: Option<DiagnosticId>,
    /// Ids of the findings if a device is bound to an unsuitable kernel driver, by driver.
    #[serde(default)]
    pub wrong_drivers: BTreeMap<String, DiagnosticId>,
    /// Platforms that always have the hardware, such as Metal on Apple processors.
    #[serde(default)]
    pub builtin: Vec<Platform>,
    /// The name of the device on these platforms.
    pub builtin_name: Option<String>,
}

/// What a backend requires at run time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeDescription {
    /// Names of the library that programs load, by operating system. The first one that is found is used. Empty if there is none.
    #[serde(default)]
    pub loader: BTreeMap<Os, Vec<String>>,
    /// Folders to search after those of the loader, by operating system.
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
    /// A pattern with `{version}` that matches the library's real file name.
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
    /// Alternative paths; may contain `*`. The first alternative that exists is used. If it has several matches, one that can be opened is
    /// enough.
    pub paths: Vec<String>,
    /// Id of the finding if it is missing; `None` if it is optional.
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if it cannot be opened.
    pub denied: DiagnosticId,
    /// The program with which the driver creates the node on first use. If it exists, a missing node is not a problem.
    pub made_by: Option<String>,
    /// Kernel drivers whose GPUs use the node; all if empty.
    #[serde(default)]
    pub only_drivers: Vec<String>,
    /// Kernel drivers whose GPUs do not use the node.
    #[serde(default)]
    pub except_drivers: Vec<String>,
}

impl NodeDescription {
    /// Whether GPUs with this kernel driver use the node. True if the driver is unknown.
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

/// How to find the drivers behind a loader: by manifests in folders, variables and the registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverDescription {
    /// The format of the manifests.
    pub form: ManifestForm,
    /// Variables with a list of manifest files that replaces all other sources. The first one that is set is used.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with a list of additional manifest files.
    #[serde(default)]
    pub add_env: Vec<String>,
    /// A variable with a folder that replaces the default folders.
    pub folder_env: Option<String>,
    /// A variable with a list of additional drivers, as libraries without a manifest.
    pub library_env: Option<String>,
    /// Folders with manifests, by operating system; may contain placeholders.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// The file extension of manifests.
    #[serde(default)]
    pub extension: String,
    /// Registry keys in which the names of values are paths of manifests or libraries.
    #[serde(default)]
    pub registry: Vec<String>,
    /// The name of the value in the registry keys of display adapters.
    pub adapter_value: Option<String>,
    /// Libraries that are drivers, by operating system (Level Zero).
    #[serde(default)]
    pub libraries: BTreeMap<Os, Vec<String>>,
    /// Id of the finding if the devices have no driver.
    pub missing: Option<DiagnosticId>,
    /// Ids of the findings in a container, by vendor of the GPU.
    #[serde(default)]
    pub missing_in_container: BTreeMap<Vendor, DiagnosticId>,
    /// Id of the finding if only software drivers exist.
    pub software_only: Option<DiagnosticId>,
    /// Properties of known drivers. The first match is used.
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

/// Properties of a driver that is identified by its name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDriver {
    /// Text that the name of the manifest or library contains, in lowercase.
    pub has: String,
    /// The vendors whose GPUs it supports.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// The name, if it is a software driver, which runs on the CPU.
    pub software: Option<String>,
    /// Kernel drivers that it works with; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
}

/// The text and hint of a reason, one line each. `{name}` is replaced by a value of the actual case, `{install}` and
/// `{install_driver}` by the command for the host's distribution.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReasonText {
    /// The problem.
    pub text: String,
    /// How to fix it.
    pub hint: Option<String>,
}
