//! The types of a toolkit description, a file in `toolkits/`: where a toolkit or tool can be installed, which parts it has and what it
//! supports.
//!
//! `docs/reference/toolkits.md` documents the keys for authors of descriptions.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_toml::Lazy;
use serde::Deserialize;

pub use super::hardware_description::{
    DriverDescription, HardwareDescription, KnownDriver, ManifestForm, NodeDescription, ReasonText,
    RuntimeDescription,
};
pub use super::platform_text::PlatformText;
pub use super::tables::{
    ArchRow, BranchRow, BundledRow, Compatibility, CompilerRow, DeviceRow, DriverRow, KernelRow, LastRow,
    LibcRow, NameRow, ReplacedRow, Risk, StandInRow, SupportRow, WheelFile, WheelName,
};
use crate::diagnostic::DiagnosticId;
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
    /// How it is used in builds for another platform.
    pub cross: Option<Lazy<CrossUse>>,
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

/// How a toolkit builds for another platform: with compilers of the build machine, and libraries of the target.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossUse {
    /// Rust's names of the targets.
    pub targets: Vec<String>,
    /// The packages with the compilers. All others contain libraries of the target.
    pub programs: Vec<String>,
    /// Whether the compilers need GCC for the target, so that Zig cannot be used.
    #[serde(default)]
    pub gcc: bool,
    /// The reason, if the toolkit is offered for no target.
    pub why: Option<String>,
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
    /// How it compiles on other machines.
    pub farm: Option<FarmDescription>,
}

/// How a launcher distributes compilations.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FarmDescription {
    /// The name that requests the launcher with distribution, if its own name does not imply it.
    pub name: Option<String>,
    /// Languages that are distributed, by their CMake names.
    pub languages: Vec<String>,
    /// Arguments that print how many compilations run at once: a number, or the JSON of `sccache --dist-status`. Empty if none do.
    #[serde(default)]
    pub status: Vec<String>,
    /// The server that is asked instead of its own program.
    pub scheduler: Option<SchedulerDescription>,
    /// The variable that makes it compile although the result is in its cache. With it, a test file of each language is compiled, and the
    /// statistics of its server (`--show-stats` of sccache) say where.
    pub recompile: Option<String>,
    /// The variable with the path of the configuration file.
    pub config: Option<String>,
    /// Configuration files that are read without this variable.
    #[serde(default)]
    pub config_files: Vec<String>,
}

/// The text port of a scheduler, and where its address is configured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerDescription {
    /// Variables of the environment with its address: `host` or `host:port`.
    pub variables: Vec<String>,
    /// Files with lines `NAME="value"`, and these names.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The port of an address without one. The text port is the next one.
    pub port: u16,
    /// The text that asks for its machines, and then ends the connection. Each machine is a line with `jobs=RUNNING/SLOTS`.
    pub question: String,
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
    /// `gcc-max`, `clang-below`, `msvc-min`, `msvc-max`, `msvc-below`.
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
