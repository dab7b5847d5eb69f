//! Compatibility tables in toolkit descriptions, and pinned wheels. Every row has a source.

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_toml::Lazy;
use serde::Deserialize;

use crate::diagnostic::DiagnosticId;

/// The compatibility tables of a description. Limits that are read from an installed copy take precedence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compatibility {
    /// Device architectures by toolkit release.
    #[serde(default)]
    pub arch: Lazy<Vec<ArchRow>>,
    /// The architectures to build for distribution, by toolkit release. For CUDA in CMake's syntax.
    #[serde(default)]
    pub distribution: Lazy<Vec<ArchRow>>,
    /// Supported host compiler versions by toolkit release.
    #[serde(default)]
    pub host_compiler: Lazy<Vec<CompilerRow>>,
    /// The oldest driver by toolkit release.
    #[serde(default)]
    pub driver: Lazy<Vec<DriverRow>>,
    /// The newest toolkit release that a driver branch supports.
    #[serde(default)]
    pub branch: Lazy<Vec<BranchRow>>,
    /// Driver branches that a distribution's packages replace by another branch.
    #[serde(default)]
    pub replaced: Lazy<Vec<ReplacedRow>>,
    /// PTX versions and the releases that introduced them, the oldest first.
    #[serde(default)]
    pub ptx: Lazy<Vec<PtxRow>>,
    /// All known releases, with the driver that their installer contains.
    #[serde(default)]
    pub bundled: Lazy<Vec<BundledRow>>,
    /// C libraries that are incompatible with a release.
    #[serde(default)]
    pub libc: Lazy<Vec<LibcRow>>,
    /// Devices that a driver does not support.
    #[serde(default)]
    pub device: Lazy<Vec<DeviceRow>>,
    /// Names of GPUs by architecture, used if only the name is known.
    #[serde(default)]
    pub names: Lazy<Vec<NameRow>>,
    /// Architectures that can be used instead of a GPU's own.
    #[serde(default)]
    pub stand_in: Lazy<Vec<StandInRow>>,
    /// The toolkit releases that a kernel driver supports.
    #[serde(default)]
    pub kernel: Lazy<Vec<KernelRow>>,
    /// Architectures that the vendor supports, by toolkit release.
    #[serde(default)]
    pub support: Lazy<Vec<SupportRow>>,
    /// The last releases in which the vendor supports architectures.
    #[serde(default)]
    pub last: Lazy<Vec<LastRow>>,
}

/// Device architectures of toolkit releases from `since` until the next row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchRow {
    /// The first release.
    pub since: Version,
    /// The architectures: `75`, `90`, `gfx942`.
    pub archs: Vec<String>,
    /// The source of the row.
    pub source: String,
}

/// Host compiler versions of toolkit releases from `since` until the next row of the same compiler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerRow {
    /// The first release.
    pub since: Version,
    /// The id of the compiler's description.
    pub compiler: String,
    /// The newest supported major version.
    pub max: Option<Version>,
    /// The oldest supported version.
    pub min: Option<Version>,
    /// The first version that is no longer supported.
    pub below: Option<Version>,
    /// The source of the row.
    pub source: String,
}

/// The oldest driver for toolkit releases from `since` until the next row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverRow {
    /// The first release.
    pub since: Version,
    /// The driver version by operating system.
    pub min: BTreeMap<Os, Version>,
    /// The source of the row.
    pub source: String,
}

/// The newest toolkit release that a driver branch supports.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchRow {
    /// The first driver of the branch.
    pub driver: Version,
    /// The toolkit release.
    pub toolkit: Version,
    /// The source of the row.
    pub source: String,
}

/// Driver branches whose packages only install those of another branch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplacedRow {
    /// The distribution's id.
    pub distribution: String,
    /// The replaced branches.
    pub branches: Vec<u64>,
    /// The branch that is installed instead.
    pub by: u64,
    /// The source of the row.
    pub source: String,
}

/// A version of the PTX language.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtxRow {
    /// The PTX version: `8.5`.
    pub version: Version,
    /// The first toolkit release that supports it.
    pub toolkit: Version,
    /// The source of the row.
    pub source: String,
}

/// A toolkit release and the driver in its installer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledRow {
    /// The toolkit release.
    pub toolkit: Version,
    /// The driver version by operating system; missing if the installer contains no driver.
    #[serde(default)]
    pub driver: BTreeMap<Os, Version>,
    /// The source of the row.
    pub source: String,
}

/// A C library that is incompatible with a release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibcRow {
    /// The family: `glibc`.
    pub family: String,
    /// The first incompatible version of the C library.
    pub since: Version,
    /// The first toolkit release that is compatible again.
    pub fixed: Version,
    /// The id of a fix (`[[mended]]`): the row does not apply to copies that contain it.
    pub unless: Option<String>,
    /// The finding's id.
    pub id: DiagnosticId,
    /// The source of the row.
    pub source: String,
}

/// Devices that a driver does not support.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRow {
    /// The oldest affected architecture.
    pub from: Option<String>,
    /// The newest affected architecture.
    pub to: Option<String>,
    /// The first driver without support.
    pub driver: Option<Version>,
    /// The first driver with support. Older ones do not support the architecture.
    pub first: Option<Version>,
    /// The driver flavour without support: `open` or `proprietary`.
    pub flavour: Option<String>,
    /// The last driver branch with support.
    pub last: Option<Version>,
    /// The finding's id.
    pub id: DiagnosticId,
    /// The source of the row.
    pub source: String,
}

/// Names of GPUs with the same architecture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameRow {
    /// The architecture: `sm_90`.
    pub arch: String,
    /// Texts that identify these GPUs by name.
    pub has: Vec<String>,
    /// The source of the row.
    pub source: String,
}

/// An architecture that can be used instead of a GPU's own, so that programs load kernels for that architecture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandInRow {
    /// The GPU's architecture: `gfx1031`.
    pub arch: String,
    /// The architecture to use instead; `None` if no architecture is suitable.
    pub to: Option<String>,
    /// The risk of the override.
    pub risk: Risk,
    /// The names of the GPUs, for messages.
    pub cards: String,
    /// The source of the row.
    pub source: String,
}

/// The risk of overriding a GPU's architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Both architectures have the same instructions.
    Low,
    /// It works on many GPUs, but not on all.
    Medium,
    /// It is known to hang, crash or compute wrong results.
    High,
}

/// The toolkit releases that kernel drivers from `driver` until the next row support.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRow {
    /// The first version of the kernel module.
    pub driver: Version,
    /// The vendor's name for the release that contains it: `6.4`, `30.10`.
    pub name: String,
    /// The toolkit release that contains it.
    pub with: Version,
    /// The oldest toolkit release that it supports.
    pub oldest: Version,
    /// The newest toolkit release that it supports; no limit if omitted.
    pub newest: Option<Version>,
    /// The source of the row.
    pub source: String,
}

/// Architectures that the vendor supports in toolkit releases from `since` until the next row of the same operating system.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupportRow {
    /// The first release.
    pub since: Version,
    /// The operating system.
    pub on: Os,
    /// The architectures.
    pub archs: Vec<String>,
    /// The source of the row.
    pub source: String,
}

/// The last release in which the vendor supports an architecture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRow {
    /// The architecture.
    pub arch: String,
    /// The release.
    pub release: Version,
    /// The source of the row.
    pub source: String,
}

/// A pinned release from a Python package index.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelName {
    /// The package's name.
    pub package: String,
    /// The pinned version.
    pub version: Version,
    /// The wheels, one per platform.
    pub files: Vec<WheelFile>,
    /// What makes the download unnecessary, as a hint, if an installed copy of the tool is not used.
    #[serde(default)]
    pub instead: Option<String>,
}

/// A wheel that is pinned by hash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelFile {
    /// The file name, which contains the platform.
    pub name: String,
    /// The sha256 of the file, in hexadecimal.
    pub sha256: String,
}
