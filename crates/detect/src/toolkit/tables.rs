//! The compatibility tables of a description, each row with its source; and pinned wheels.

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_host::Os;
use serde::Deserialize;

use crate::diagnostic::DiagnosticId;

/// Compatibility tables. Limits of the installed copy take precedence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compatibility {
    /// Device architectures by toolkit release.
    #[serde(default)]
    pub arch: Vec<ArchRow>,
    /// The architectures of a build for distribution, by toolkit release: in CMake's notation for CUDA.
    #[serde(default)]
    pub distribution: Vec<ArchRow>,
    /// Host compilers by toolkit release.
    #[serde(default)]
    pub host_compiler: Vec<CompilerRow>,
    /// The oldest driver by toolkit release.
    #[serde(default)]
    pub driver: Vec<DriverRow>,
    /// The newest toolkit release that a driver branch supports.
    #[serde(default)]
    pub branch: Vec<BranchRow>,
    /// Releases by the version of PTX that they introduced, oldest first.
    #[serde(default)]
    pub ptx: Vec<PtxRow>,
    /// All known releases, with the driver that they contain.
    #[serde(default)]
    pub bundled: Vec<BundledRow>,
    /// C libraries that are incompatible with a release.
    #[serde(default)]
    pub libc: Vec<LibcRow>,
    /// Devices that a driver does not support.
    #[serde(default)]
    pub device: Vec<DeviceRow>,
    /// Names of GPUs by architecture, for when only the name is known.
    #[serde(default)]
    pub names: Vec<NameRow>,
    /// Architectures that GPUs can be overridden with.
    #[serde(default)]
    pub stand_in: Vec<StandInRow>,
    /// The toolkit releases that a kernel driver supports.
    #[serde(default)]
    pub kernel: Vec<KernelRow>,
    /// Architectures that the vendor supports, by toolkit release.
    #[serde(default)]
    pub support: Vec<SupportRow>,
    /// The last release in which the vendor supported an architecture.
    #[serde(default)]
    pub last: Vec<LastRow>,
}

/// Device architectures of toolkit releases from `since` up to the next row.
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

/// Host compiler versions of toolkit releases from `since` up to the next row of the same compiler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerRow {
    /// The first release.
    pub since: Version,
    /// The id of the compiler's description.
    pub compiler: String,
    /// The newest major version that works.
    pub max: Option<Version>,
    /// The oldest version that works.
    pub min: Option<Version>,
    /// The first version that no longer works.
    pub below: Option<Version>,
    /// The source of the row.
    pub source: String,
}

/// The oldest driver for toolkit releases from `since` up to the next row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverRow {
    /// The first release.
    pub since: Version,
    /// The driver's version by operating system.
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

/// A version of the PTX language.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtxRow {
    /// The language's version: `8.5`.
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
    /// The driver by operating system; none where the installer contains no driver.
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
    /// The first incompatible version of it.
    pub since: Version,
    /// The first toolkit release that works again.
    pub fixed: Version,
    /// The id of a fix in a copy (`[[mended]]`) that makes it work anyway.
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
    /// The flavour of the driver without support.
    pub flavour: Option<String>,
    /// The last driver branch with support.
    pub last: Option<Version>,
    /// The finding's id.
    pub id: DiagnosticId,
    /// The source of the row.
    pub source: String,
}

/// Names of GPUs with one architecture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameRow {
    /// The architecture: `sm_90`.
    pub arch: String,
    /// Texts in the names of these GPUs.
    pub has: Vec<String>,
    /// The source of the row.
    pub source: String,
}

/// The architecture that a GPU can be overridden with, so that kernels of that architecture are loaded for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandInRow {
    /// The GPU's architecture: `gfx1031`.
    pub arch: String,
    /// The architecture to override it with; `None` if no choice is good.
    pub to: Option<String>,
    /// How likely the override fails.
    pub risk: Risk,
    /// The GPUs, for messages.
    pub cards: String,
    /// The source of the row.
    pub source: String,
}

/// How likely an override fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// The instructions are the same.
    Low,
    /// It works on many GPUs, but not on all.
    Medium,
    /// It is known to hang, to fault or to compute wrong results.
    High,
}

/// The toolkit releases that drivers from `driver` up to the next row support.
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
    /// The newest toolkit release that it is known to support; all newer ones if omitted.
    pub newest: Option<Version>,
    /// The source of the row.
    pub source: String,
}

/// Architectures that the vendor supports in toolkit releases from `since` up to the next row of the same system.
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

/// The last release in which the vendor supported an architecture.
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

/// A pinned copy from a Python package index.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelName {
    /// The package's name.
    pub package: String,
    /// The version that is pinned.
    pub version: Version,
    /// The wheels, one per platform.
    pub files: Vec<WheelFile>,
}

/// A wheel, pinned by hash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelFile {
    /// The file name, which contains the platform.
    pub name: String,
    /// Its sha256 in hexadecimal.
    pub sha256: String,
}
