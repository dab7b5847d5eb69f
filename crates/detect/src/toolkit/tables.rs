//! The tables of a description: what goes with what, each row with its source; and pinned wheels.

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_host::Os;
use serde::Deserialize;

/// Tables of what goes with what. Limits that the installed copy states win over these.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compatibility {
    /// Device architectures by toolkit release.
    #[serde(default)]
    pub arch: Vec<ArchRow>,
    /// What a build for distribution contains, by toolkit release: in CMake's notation for CUDA.
    #[serde(default)]
    pub distribution: Vec<ArchRow>,
    /// Host compilers by toolkit release.
    #[serde(default)]
    pub host_compiler: Vec<CompilerRow>,
    /// The oldest driver by toolkit release.
    #[serde(default)]
    pub driver: Vec<DriverRow>,
    /// The newest toolkit release that a driver branch knows.
    #[serde(default)]
    pub branch: Vec<BranchRow>,
    /// Releases by the version of PTX that they brought, oldest first.
    #[serde(default)]
    pub ptx: Vec<PtxRow>,
    /// Every release that is known, with the driver that comes with it.
    #[serde(default)]
    pub bundled: Vec<BundledRow>,
    /// C libraries that a release can't be used with.
    #[serde(default)]
    pub libc: Vec<LibcRow>,
    /// Devices that a driver can't drive.
    #[serde(default)]
    pub device: Vec<DeviceRow>,
    /// Names of cards by architecture, where only the name is known.
    #[serde(default)]
    pub names: Vec<NameRow>,
    /// What a card may be told to pass for.
    #[serde(default)]
    pub stand_in: Vec<StandInRow>,
    /// The toolkit releases that a kernel driver works with.
    #[serde(default)]
    pub kernel: Vec<KernelRow>,
    /// Architectures that the maker supports, by toolkit release.
    #[serde(default)]
    pub support: Vec<SupportRow>,
    /// The last release that the maker supported an architecture in.
    #[serde(default)]
    pub last: Vec<LastRow>,
}

/// Device architectures of toolkit releases from `since` on, up to the next row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchRow {
    /// First release.
    pub since: Version,
    /// The architectures: `75`, `90`, `gfx942`.
    pub archs: Vec<String>,
    /// Where this comes from.
    pub source: String,
}

/// Limits on a host compiler of toolkit releases from `since` on, up to the next row of the same compiler.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerRow {
    /// First release.
    pub since: Version,
    /// Id of the compiler's description.
    pub compiler: String,
    /// Newest major version that works.
    pub max: Option<Version>,
    /// Oldest version that works.
    pub min: Option<Version>,
    /// First version that no longer works.
    pub below: Option<Version>,
    /// Where this comes from.
    pub source: String,
}

/// The oldest driver for toolkit releases from `since` on, up to the next row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverRow {
    /// First release.
    pub since: Version,
    /// By operating system.
    pub min: BTreeMap<Os, Version>,
    /// Where this comes from.
    pub source: String,
}

/// The newest toolkit release that a driver branch knows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchRow {
    /// First driver of the branch.
    pub driver: Version,
    /// The release.
    pub toolkit: Version,
    /// Where this comes from.
    pub source: String,
}

/// A version of the PTX language.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtxRow {
    /// The language's version: `8.5`.
    pub version: Version,
    /// The first release of the toolkit that knows it.
    pub toolkit: Version,
    /// Where the row comes from.
    pub source: String,
}

/// A toolkit release with the driver in its installer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledRow {
    /// The release.
    pub toolkit: Version,
    /// The driver by operating system; none where the installer has none.
    #[serde(default)]
    pub driver: BTreeMap<Os, Version>,
    /// Where this comes from.
    pub source: String,
}

/// A C library that a release can't be used with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibcRow {
    /// Family and first version: `glibc`, `2.42`.
    pub family: String,
    /// First version of it that breaks.
    pub since: Version,
    /// First toolkit release that works again.
    pub fixed: Version,
    /// Name of what mends a copy all the same (`[[mended]]`).
    pub unless: Option<String>,
    /// Id of the finding.
    pub id: String,
    /// Where this comes from.
    pub source: String,
}

/// Devices that a driver can't drive.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRow {
    /// Oldest architecture concerned.
    pub from: Option<String>,
    /// Newest architecture concerned.
    pub to: Option<String>,
    /// First driver that can't.
    pub driver: Option<Version>,
    /// The flavour of the driver that can't.
    pub flavour: Option<String>,
    /// The last driver branch that can.
    pub last: Option<Version>,
    /// Id of the finding.
    pub id: String,
    /// Where this comes from.
    pub source: String,
}

/// Names of cards with one architecture.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameRow {
    /// Architecture: `sm_90`.
    pub arch: String,
    /// Texts that stand in a card's name.
    pub has: Vec<String>,
    /// Where this comes from.
    pub source: String,
}

/// What a card may be told to pass for, so that kernels of another architecture are loaded for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandInRow {
    /// The card's own architecture: `gfx1031`.
    pub arch: String,
    /// The architecture that it may pass for; none if there is no good one.
    pub to: Option<String>,
    /// How likely it goes wrong.
    pub risk: Risk,
    /// The cards, for messages.
    pub cards: String,
    /// Where this comes from.
    pub source: String,
}

/// How likely something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// The instructions are the same.
    Low,
    /// It works for many and not for all.
    Medium,
    /// It is known to hang, to fault or to compute nonsense.
    High,
}

/// The toolkit releases that drivers from `driver` on work with, up to the next row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRow {
    /// First version of the kernel module.
    pub driver: Version,
    /// How the maker calls the release that it came with: `6.4`, `30.10`.
    pub name: String,
    /// The toolkit release that it came with.
    pub with: Version,
    /// Oldest toolkit release that works on it.
    pub oldest: Version,
    /// Newest one that works on it, as far as it was known; all newer ones if left out.
    pub newest: Option<Version>,
    /// Where this comes from.
    pub source: String,
}

/// Architectures that the maker supports in toolkit releases from `since` on, up to the next row of the same system.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupportRow {
    /// First release.
    pub since: Version,
    /// Operating system.
    pub on: Os,
    /// The architectures.
    pub archs: Vec<String>,
    /// Where this comes from.
    pub source: String,
}

/// The last release that the maker supported an architecture in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRow {
    /// Architecture.
    pub arch: String,
    /// Release.
    pub release: Version,
    /// Where this comes from.
    pub source: String,
}

/// A pinned copy from a Python package index.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// Name of the distribution.
    pub package: String,
    /// Version.
    pub version: Version,
    /// One file per platform.
    pub files: Vec<WheelFile>,
}

/// A wheel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelFile {
    /// File name, which tells its platform.
    pub name: String,
    /// Its sha256 in hexadecimal.
    pub sha256: String,
}
