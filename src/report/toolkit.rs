//! What the commands of `gpubuild toolkit` answer.

use std::fmt::Write as _;

use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::Platform;
use gpubuild_plan::plan::bytes;
use gpubuild_plan::plan::provision::ReleaseChoice;
use gpubuild_plan::wheels::lock;
use gpubuild_plan::wheels::tag::WheelLibc;
use gpubuild_toolchain::provision::env::EnvSetting;
use gpubuild_toolchain::provision::verify::{PrefixProblem, Verification};
use gpubuild_toolchain::provision::{InstallChange, InstalledToolkit, Prefix, Preview};
use serde::Serialize;

use super::Schema;

/// One installation.
#[derive(Debug, Serialize)]
pub struct InstalledEntry {
    toolkit: String,
    release: Version,
    version: Version,
    components: Vec<String>,
    root: String,
    bytes: u64,
    files: u64,
}

impl InstalledEntry {
    fn new(one: &Prefix) -> Self {
        Self {
            toolkit: one.record.toolkit.clone(),
            release: one.record.release.clone(),
            version: one.record.version.clone(),
            components: one.record.components.clone(),
            root: one.root.to_string(),
            bytes: one.record.bytes,
            files: one.record.files,
        }
    }
}

/// `toolkit install --json`.
#[derive(Debug, Serialize)]
pub struct Install {
    schema: Schema,
    state: InstallChange,
    installed: InstalledEntry,
    taken_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<ReleaseChoice>,
    notes: Vec<String>,
}

impl Install {
    /// Its result.
    #[must_use]
    pub fn new(installed: &InstalledToolkit, choice: Option<&ReleaseChoice>) -> Self {
        Self {
            schema: Schema { name: "toolkit-install", version: 1 },
            state: installed.change,
            installed: InstalledEntry::new(&installed.installation),
            taken_bytes: installed.taken,
            choice: choice.cloned(),
            notes: installed.notes.clone(),
        }
    }
}

/// `toolkit install --dry-run`.
#[derive(Debug, Serialize)]
pub struct DryRun {
    schema: Schema,
    toolkit: String,
    release: Version,
    version: Version,
    components: Vec<String>,
    into: String,
    installed: bool,
    download_bytes: u64,
    disk_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<ReleaseChoice>,
    wheels: Vec<WheelReport>,
}

#[derive(Debug, Serialize)]
struct WheelReport {
    package: String,
    version: String,
    file: String,
    sha256: String,
    bytes: u64,
}

impl DryRun {
    /// What would be done.
    #[must_use]
    pub fn new(preview: &Preview, choice: Option<&ReleaseChoice>) -> Self {
        let wheels = preview.wheels.iter().flat_map(|wheel| {
            wheel.files.iter().map(|file| WheelReport {
                package: wheel.package.clone(),
                version: wheel.version.clone(),
                file: file.name.clone(),
                sha256: file.sha256.clone(),
                bytes: file.size,
            })
        });
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

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{} {} ({})", self.toolkit, self.version, self.components.join(", "));
        let state = if self.installed { "is installed in" } else { "would be installed into" };
        let _ = writeln!(text, " {state} {}", self.into);
        if !self.installed {
            let download = bytes::show_if_known(self.download_bytes);
            let disk = bytes::show_if_known(self.disk_bytes);
            let free = self.free_bytes.map(|free| format!(", {} are free", bytes::show(free)));
            let _ =
                writeln!(text, "{download} to download, at most {disk} of disk{}", free.unwrap_or_default());
        }
        for line in self.choice.iter().flat_map(ReleaseChoice::lines) {
            let _ = writeln!(text, "{line}");
        }
        for wheel in &self.wheels {
            let _ = writeln!(
                text,
                "  {:<24} {:<12} {:>10}",
                wheel.package,
                wheel.version,
                bytes::show(wheel.bytes)
            );
        }
        text
    }
}

/// `toolkit list`.
#[derive(Debug, Serialize)]
pub struct ToolkitListReport {
    schema: Schema,
    installed: Vec<InstalledEntry>,
    offered: Vec<OfferedRelease>,
}

/// A release that can be installed.
#[derive(Debug, Serialize)]
struct OfferedRelease {
    toolkit: String,
    release: Version,
    version: Version,
    installed: bool,
    platforms: Vec<String>,
    /// What the base downloads here; left out where there is nothing for this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    download_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_driver: Option<Version>,
    optional: Vec<Optional>,
}

#[derive(Debug, Serialize)]
struct Optional {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    download_bytes: Option<u64>,
}

impl ToolkitListReport {
    /// What is installed and what is offered on a platform.
    #[must_use]
    pub fn new(installed: &[Prefix], catalogue: &Catalogue, platform: Platform) -> Self {
        let offer = |lock: &lock::WheelLock| {
            let size = |with: &[String]| {
                let wheels = lock.select(with, platform, &WheelLibc::Other).ok()?;
                Some(wheels.iter().map(lock::PinnedWheel::size).sum::<u64>())
            };
            let base = size(&[]);
            let optional = lock.optional().map(|id| Optional {
                id: id.to_owned(),
                download_bytes: size(&[id.to_owned()]).zip(base).map(|(all, base)| all - base),
            });
            let description = catalogue.get(&lock.toolkit);
            let floor = description.and_then(|one| one.driver_floor(&lock.release, platform.os).cloned());
            OfferedRelease {
                toolkit: lock.toolkit.clone(),
                release: lock.release.clone(),
                version: lock.version.clone(),
                installed: installed
                    .iter()
                    .any(|one| one.record.toolkit == lock.toolkit && one.record.release == lock.release),
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
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("installed\n");
        if self.installed.is_empty() {
            text.push_str("  none\n");
        }
        for one in &self.installed {
            let (name, size) = (format!("{}@{}", one.toolkit, one.release), bytes::show(one.bytes));
            let components = one.components.join(", ");
            let _ = writeln!(text, "  {name:<12} {:<10} {size:>10}  {components}  {}", one.version, one.root);
        }
        text.push_str("offered\n");
        for offer in &self.offered {
            let name = format!("{}@{}", offer.toolkit, offer.release);
            let size =
                offer.download_bytes.map_or_else(|| "not for this system".to_owned(), bytes::show_if_known);
            let driver = offer.min_driver.as_ref().map(|driver| format!("driver >= {driver}"));
            let more = offer.optional.iter().map(|one| {
                let size = one.download_bytes.map(|size| format!(" (+{})", bytes::show(size)));
                format!("--with {}{}", one.id, size.unwrap_or_default())
            });
            let details: Vec<String> = driver.into_iter().chain(more).collect();
            let _ = writeln!(text, "  {name:<12} {:<10} {size:>10}  {}", offer.version, details.join(", "));
        }
        text
    }
}

/// `toolkit verify`.
#[derive(Debug, Serialize)]
pub struct Verify {
    schema: Schema,
    toolkits: Vec<VerifiedEntry>,
}

#[derive(Debug, Serialize)]
struct VerifiedEntry {
    #[serde(flatten)]
    entry: InstalledEntry,
    good: bool,
    compared: u64,
    problems: Vec<PrefixProblem>,
}

impl Verify {
    /// What was found.
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

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.toolkits.iter().all(|one| one.good)
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        /// Problems that are listed one by one.
        const SHOWN: usize = 20;
        let mut text = String::new();
        if self.toolkits.is_empty() {
            text.push_str("no toolkit is installed\n");
        }
        for one in &self.toolkits {
            let name = format!("{} {}", one.entry.toolkit, one.entry.release);
            let count = one.problems.len();
            let outcome = if count == 0 { "good".to_owned() } else { format!("{count} wrong") };
            let _ = writeln!(text, "{name}: {} files compared, {outcome}  {}", one.compared, one.entry.root);
            for problem in one.problems.iter().take(SHOWN) {
                let _ = writeln!(text, "  {}: {} [{}]", problem.path, problem.message, problem.id);
            }
            if count > SHOWN {
                let _ = writeln!(text, "  and {} more (`--json` has all)", count - SHOWN);
            }
        }
        text
    }
}

/// `toolkit remove --json`.
#[derive(Debug, Serialize)]
pub struct Remove {
    schema: Schema,
    removed: InstalledEntry,
}

impl Remove {
    /// What was removed.
    #[must_use]
    pub fn new(one: &Prefix) -> Self {
        Self { schema: Schema { name: "toolkit-remove", version: 1 }, removed: InstalledEntry::new(one) }
    }
}

/// `toolkit env --format json`.
#[derive(Debug, Serialize)]
pub struct Env<'a> {
    schema: Schema,
    toolkit: InstalledEntry,
    variables: &'a [EnvSetting],
}

impl<'a> Env<'a> {
    /// The variables of an installation.
    #[must_use]
    pub fn new(one: &Prefix, variables: &'a [EnvSetting]) -> Self {
        Self {
            schema: Schema { name: "toolkit-env", version: 1 },
            toolkit: InstalledEntry::new(one),
            variables,
        }
    }
}
