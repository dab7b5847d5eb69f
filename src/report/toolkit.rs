//! The documents of `gpubuild toolkit`, and their text.

use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_plan::packages;
use gpubuild_plan::plan::bytes;
use gpubuild_plan::plan::provision::ReleaseChoice;
use gpubuild_plan::wheels::lock;
use gpubuild_plan::wheels::tag::WheelLibc;
use gpubuild_toolchain::provision::env::EnvSetting;
use gpubuild_toolchain::provision::verify::{PrefixProblem, Verification};
use gpubuild_toolchain::provision::{InstallChange, InstalledToolkit, Prefix, Preview, UnpackedPackage};
use serde::Serialize;

use super::Schema;
use super::rows::{self, Rows};
use super::toolkit_packages::{OptionalComponent, PackageToolkit};

/// A toolkit that gpubuild installed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstalledEntry {
    /// Id of the toolkit: `cuda`.
    toolkit: String,
    /// Its release: `13.0`.
    release: Version,
    /// Its full version: `13.0.3`.
    version: Version,
    /// The platform whose libraries it contains, if that is another one: `aarch64-unknown-linux-gnu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Its components: `base`, `cublas`.
    components: Vec<String>,
    /// Its root folder.
    root: String,
    /// Its size in bytes.
    bytes: u64,
    /// Number of files.
    files: u64,
    /// The distribution and release whose packages were unpacked: `debian-12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution: Option<String>,
    /// The packages that were unpacked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    packages: Vec<UnpackedPackage>,
}

impl InstalledEntry {
    fn new(one: &Prefix) -> Self {
        Self {
            toolkit: one.record.toolkit.clone(),
            release: one.record.release.clone(),
            version: one.record.version.clone(),
            target: one.record.target.clone(),
            components: one.record.components.clone(),
            root: one.root.to_string(),
            bytes: one.record.bytes,
            files: one.record.files,
            distribution: one.record.distribution.clone(),
            packages: one.record.packages.clone(),
        }
    }
}

/// The document of `toolkit install --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Install {
    schema: Schema,
    /// Whether the toolkit was installed now.
    state: InstallChange,
    /// The toolkit.
    installed: InstalledEntry,
    /// Total size in bytes of the installed wheels, archives or packages, whether downloaded or from a cache.
    taken_bytes: u64,
    /// The selected release, if none was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<ReleaseChoice>,
    /// Notes for the user, one line each.
    notes: Vec<String>,
}

impl Install {
    /// The document of an installation.
    #[must_use]
    pub fn new(installed: &InstalledToolkit, choice: Option<&ReleaseChoice>) -> Self {
        Self {
            schema: Schema { name: "toolkit-install", version: 1 },
            state: installed.change,
            installed: InstalledEntry::new(&installed.installation),
            taken_bytes: installed.wheel_bytes,
            choice: choice.cloned(),
            notes: installed.notes.clone(),
        }
    }
}

/// The document of `toolkit install --dry-run --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DryRun {
    schema: Schema,
    /// Id of the toolkit: `cuda`.
    toolkit: String,
    /// Its release: `13.0`.
    release: Version,
    /// Its full version: `13.0.3`.
    version: Version,
    /// Components to install: `base`, `cublas`.
    components: Vec<String>,
    /// Destination folder.
    into: String,
    /// Whether it is already installed.
    installed: bool,
    /// Bytes to download at most.
    download_bytes: u64,
    /// Required disk space in bytes, estimated.
    disk_bytes: u64,
    /// Free bytes at the destination, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    /// The selected release, if none was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<ReleaseChoice>,
    /// The wheels or archives to install.
    wheels: Vec<WheelReport>,
}

/// A wheel or an archive.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WheelReport {
    /// Name of its package.
    package: String,
    /// Its version.
    version: String,
    /// Its file name; of an archive, the path below NVIDIA's URL.
    file: String,
    /// The sha256 of the file.
    sha256: String,
    /// Its size in bytes.
    bytes: u64,
}

impl WheelReport {
    /// The files of a package.
    pub(super) fn of(wheel: &lock::PinnedWheel) -> impl Iterator<Item = Self> {
        wheel.files.iter().map(|file| Self {
            package: wheel.package.clone(),
            version: wheel.version.clone(),
            file: file.name.clone(),
            sha256: file.sha256.clone(),
            bytes: file.size,
        })
    }
}

impl DryRun {
    /// The document of a planned installation.
    #[must_use]
    pub fn new(preview: &Preview, choice: Option<&ReleaseChoice>) -> Self {
        let wheels = preview.wheels.iter().flat_map(WheelReport::of);
        Self {
            schema: Schema { name: "toolkit-install-plan", version: 1 },
            toolkit: preview.lock.toolkit.clone(),
            release: preview.lock.release.clone(),
            version: preview.lock.version.clone(),
            components: preview.components.clone(),
            into: preview.into.to_string(),
            installed: preview.installed.is_some(),
            download_bytes: preview.download,
            disk_bytes: preview.disk,
            free_bytes: preview.free,
            choice: choice.cloned(),
            wheels: wheels.collect(),
        }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Rows::default();
        let state = if self.installed { "is installed in" } else { "would be installed into" };
        let components = self.components.join(", ");
        text.row(format_args!("{} {} ({components}) {state} {}", self.toolkit, self.version, self.into));
        if !self.installed {
            let download = bytes::show_if_known(self.download_bytes);
            let disk = bytes::show_if_known(self.disk_bytes);
            let free = self.free_bytes.map(|free| format!(", {} free", bytes::show(free)));
            text.row(format_args!(
                "{download} to download, up to {disk} of disk space{}",
                free.unwrap_or_default()
            ));
        }
        for line in self.choice.iter().flat_map(ReleaseChoice::lines) {
            text.row(format_args!("{line}"));
        }
        for wheel in &self.wheels {
            text.row(format_args!(
                "  {:<24} {:<12} {:>10}",
                wheel.package,
                wheel.version,
                bytes::show(wheel.bytes)
            ));
        }
        text.into_text()
    }
}

/// The document of `toolkit list --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolkitListReport {
    schema: Schema,
    /// Installed toolkits.
    installed: Vec<InstalledEntry>,
    /// Releases that gpubuild can install.
    offered: Vec<OfferedRelease>,
    /// Toolkits from the packages of distributions.
    packages: Vec<PackageToolkit>,
}

/// A release of a toolkit that gpubuild can install.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OfferedRelease {
    /// Id of the toolkit: `cuda`.
    toolkit: String,
    /// The release: `13.0`.
    release: Version,
    /// Its full version: `13.0.3`.
    version: Version,
    /// Whether it is installed.
    installed: bool,
    /// The supported platforms.
    platforms: Vec<String>,
    /// Bytes to download for the component `base`; absent if this machine is not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    download_bytes: Option<u64>,
    /// The oldest driver that runs its programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_driver: Option<Version>,
    /// Optional components (`--with`).
    optional: Vec<OptionalComponent>,
}

impl ToolkitListReport {
    /// The document of the installed toolkits, and of what a machine can install.
    #[must_use]
    pub fn new(installed: &[Prefix], catalogue: &Catalogue, facts: &Facts) -> Self {
        let platform = facts.platform;
        let offer = |lock: &lock::WheelLock| {
            let size = |with: &[String]| {
                let wheels = lock.select(with, platform, &WheelLibc::Other).ok()?;
                Some(wheels.iter().map(lock::PinnedWheel::size).sum::<u64>())
            };
            let base = size(&[]);
            let optional = lock.optional().map(|id| OptionalComponent {
                id: id.to_owned(),
                download_bytes: size(&[id.to_owned()]).zip(base).map(|(all, base)| all - base),
            });
            let description = catalogue.get(&lock.toolkit);
            let floor = description.and_then(|one| one.driver_floor(&lock.release, platform.os).cloned());
            OfferedRelease {
                toolkit: lock.toolkit.clone(),
                release: lock.release.clone(),
                version: lock.version.clone(),
                installed: installed.iter().any(|one| {
                    one.record.target.is_none()
                        && one.record.toolkit == lock.toolkit
                        && one.record.release == lock.release
                }),
                platforms: lock.platforms.clone(),
                download_bytes: base,
                min_driver: floor,
                optional: optional.collect(),
            }
        };
        Self {
            schema: Schema { name: "toolkit-list", version: 1 },
            installed: installed.iter().map(InstalledEntry::new).collect(),
            offered: lock::embedded().iter().map(offer).collect(),
            packages: packages::all().iter().map(|set| PackageToolkit::new(set, facts, installed)).collect(),
        }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Rows::default();
        let installed = self.installed.iter().map(|one| label(&one.toolkit, &one.release).len());
        let offered = self.offered.iter().map(|one| label(&one.toolkit, &one.release).len());
        let width = rows::width(installed.chain(offered));
        text.row(format_args!("installed"));
        if self.installed.is_empty() {
            text.row(format_args!("  none"));
        }
        for one in &self.installed {
            let (name, size) = (label(&one.toolkit, &one.release), bytes::show(one.bytes));
            let target = one.target.as_ref().map(|target| format!("for {target}, ")).unwrap_or_default();
            let components = one.components.join(", ");
            text.row(format_args!(
                "  {name:<width$}  {:<10} {size:>10}  {target}{components}  {}",
                one.version, one.root
            ));
        }
        text.row(format_args!("offered"));
        for offer in &self.offered {
            let name = label(&offer.toolkit, &offer.release);
            let size = offer.download_bytes.map_or_else(|| "unsupported".to_owned(), bytes::show_if_known);
            let driver = offer.min_driver.as_ref().map(|driver| format!("driver >= {driver}"));
            let more = offer.optional.iter().map(OptionalComponent::text);
            let details: Vec<String> = driver.into_iter().chain(more).collect();
            text.row(format_args!(
                "  {name:<width$}  {:<10} {size:>10}  {}",
                offer.version,
                details.join(", ")
            ));
        }
        text.row(format_args!("from the packages of the distribution"));
        for one in &self.packages {
            text.row(format_args!("  {:<width$}  {}", one.toolkit, one.line()));
        }
        text.into_text()
    }
}

/// A toolkit with its release, as `toolkit install` takes it.
fn label(toolkit: &str, release: &Version) -> String {
    format!("{toolkit}@{release}")
}

/// The document of `toolkit verify --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verify {
    schema: Schema,
    /// The verified toolkits.
    toolkits: Vec<VerifiedEntry>,
}

/// A verified toolkit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VerifiedEntry {
    #[serde(flatten)]
    entry: InstalledEntry,
    /// Whether it has no problems.
    good: bool,
    /// Number of files whose hashes were compared.
    compared: u64,
    /// Its problems.
    problems: Vec<PrefixProblem>,
}

impl Verify {
    /// The document of these verifications.
    #[must_use]
    pub fn new(verified: &[(&Prefix, Verification)]) -> Self {
        let one = |(installation, verification): &(&Prefix, Verification)| VerifiedEntry {
            entry: InstalledEntry::new(installation),
            good: verification.problems.is_empty(),
            compared: verification.files,
            problems: verification.problems.clone(),
        };
        Self {
            schema: Schema { name: "toolkit-verify", version: 1 },
            toolkits: verified.iter().map(one).collect(),
        }
    }

    /// Whether no toolkit has problems.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.toolkits.iter().all(|one| one.good)
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        /// Maximum number of listed problems per toolkit.
        const SHOWN: usize = 20;
        let mut text = Rows::default();
        if self.toolkits.is_empty() {
            text.row(format_args!("no toolkit is installed"));
        }
        for one in &self.toolkits {
            let target = one.entry.target.as_ref().map(|target| format!(" for {target}")).unwrap_or_default();
            let name = format!("{} {}{target}", one.entry.toolkit, one.entry.release);
            let count = one.problems.len();
            let outcome = if count == 0 { "no problems".to_owned() } else { format!("{count} problems") };
            text.row(format_args!("{name}: {} files compared, {outcome}  {}", one.compared, one.entry.root));
            for problem in one.problems.iter().take(SHOWN) {
                text.row(format_args!("  {}: {} [{}]", problem.path, problem.message, problem.id));
            }
            if count > SHOWN {
                text.row(format_args!("  and {} more (`--json` has all)", count - SHOWN));
            }
        }
        text.into_text()
    }
}

/// The document of `toolkit remove --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Remove {
    schema: Schema,
    /// The removed toolkit.
    removed: InstalledEntry,
}

impl Remove {
    /// The document of a removal.
    #[must_use]
    pub fn new(one: &Prefix) -> Self {
        Self { schema: Schema { name: "toolkit-remove", version: 1 }, removed: InstalledEntry::new(one) }
    }
}

/// The document of `toolkit env --format json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Env<'a> {
    schema: Schema,
    /// The toolkit.
    toolkit: InstalledEntry,
    /// Its environment variables.
    variables: &'a [EnvSetting],
}

impl<'a> Env<'a> {
    /// The document of the variables of a toolkit.
    #[must_use]
    pub fn new(one: &Prefix, variables: &'a [EnvSetting]) -> Self {
        Self {
            schema: Schema { name: "toolkit-env", version: 1 },
            toolkit: InstalledEntry::new(one),
            variables,
        }
    }
}
