//! Finds and removes toolkit installations by the records in gpubuild's toolkit folder.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_exec::store;
use gpubuild_host::folders::{INSTALLED, toolkit_folder};
use gpubuild_host::{FileLock, HostPath, ReadFiles, Wait, WriteFiles};
use gpubuild_plan::offer::installed;
use gpubuild_plan::target::Target;
use gpubuild_plan::wheels::PinnedWheel;
use serde::{Deserialize, Serialize};

use super::PREFIX;
use super::error::ProvisionError;

/// Value of `schema` in a record.
pub const SCHEMA: &str = "gpubuild.installed/1";

/// The record of an installation. It is written last, so that its existence means that the installation is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Id of the toolkit.
    pub toolkit: String,
    /// Release: `13.0`.
    pub release: Version,
    /// Complete version: `13.0.3`.
    pub version: Version,
    /// Installed components, including `base`.
    pub components: Vec<String>,
    /// Installed wheels, each with the one file that was installed.
    pub wheels: Vec<PinnedWheel>,
    /// Rust's name of the platform whose libraries it contains. Absent if that is this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether the stub library was built, if the kit has one.
    pub stub: bool,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// Number of files in the wheels or the prefix.
    pub files: u64,
    /// The distribution and release whose packages were unpacked: `debian-12`. Absent for wheels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<String>,
    /// The folder of libraries in the prefix. Absent for wheels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lib: Option<String>,
    /// The packages that were unpacked. Empty for wheels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<UnpackedPackage>,
}

/// A package of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnpackedPackage {
    /// Its name.
    pub name: String,
    /// Its version as the distribution writes it.
    pub version: String,
    /// Name of its file.
    pub file: String,
    /// The sha256 of the file, from the signed package lists or of the downloaded file. Empty before the download if the lists
    /// cannot be queried for it.
    pub sha256: String,
    /// Size of the file in bytes; 0 before the download if unknown.
    pub size: u64,
}

/// A complete installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// Its folder.
    pub folder: HostPath,
    /// The toolkit's root in the folder.
    pub root: HostPath,
    /// Its record.
    pub record: PrefixRecord,
}

impl Prefix {
    /// Reads the installation in a folder; `None` if it is missing or incomplete.
    #[must_use]
    pub fn read(host: &dyn ReadFiles, folder: &HostPath) -> Option<Self> {
        let record: PrefixRecord = store::read_json(host, &folder.join(INSTALLED))?;
        let root = folder.join(PREFIX);
        (record.schema == SCHEMA && host.is_dir(&root)).then_some(Self {
            folder: folder.clone(),
            root,
            record,
        })
    }

    /// Name for messages: `cuda 13.0`.
    #[must_use]
    pub fn label(&self) -> String {
        let target = self.record.target.as_ref().map(|target| format!(" for {target}")).unwrap_or_default();
        format!("{} {}{target}", self.record.toolkit, self.record.release)
    }

    /// The folder of one of its wheels.
    #[must_use]
    pub fn wheel(&self, wheel: &PinnedWheel) -> HostPath {
        self.folder.join(&wheel_folder(wheel))
    }
}

/// The folder of a wheel, relative to the installation. The name includes the start of its hash, so that leftovers of an
/// attempt with a different lock are not reused.
pub(super) fn wheel_folder(wheel: &PinnedWheel) -> String {
    let sum = wheel.files.first().and_then(|file| file.sha256.get(..16)).unwrap_or_default();
    format!("wheels/{}-{}-{sum}", wheel.package, wheel.version)
}

/// All installations, sorted by target, toolkit and release; those for this machine come first.
#[must_use]
pub fn installations(host: &dyn ReadFiles) -> Vec<Prefix> {
    let Some(all) = toolkit_folder(host) else { return Vec::new() };
    let list = |folder: &HostPath| -> Vec<HostPath> {
        let names = host.list(folder).unwrap_or_default();
        names.iter().filter(|name| !name.starts_with('.')).map(|name| folder.join(name)).collect()
    };
    let mut found = Vec::new();
    for folder in list(&all) {
        match Prefix::read(host, &folder) {
            Some(prefix) => found.push(prefix),
            None if is_target(&folder) => {
                found.extend(list(&folder).iter().filter_map(|folder| Prefix::read(host, folder)));
            }
            None => {}
        }
    }
    found.sort_indirect_by(|a, b| {
        let (a, b) = (&a.record, &b.record);
        (&a.target, &a.toolkit, &a.release).cmp(&(&b.target, &b.toolkit, &b.release))
    });
    found
}

/// Whether a folder is that of the toolkits for a target.
fn is_target(folder: &HostPath) -> bool {
    folder.file_name().is_some_and(|name| Target::parse(name).is_ok())
}

/// Finds an installation of a toolkit for a target, or for this machine: the given release, or else the newest one.
///
/// # Errors
/// Returns [`ProvisionError::NotInstalled`] if no installation matches.
pub fn find(
    host: &dyn ReadFiles,
    toolkit: &str,
    release: Option<&Version>,
    target: Option<&str>,
) -> Result<Prefix, ProvisionError> {
    let all = installations(host);
    let installed = all.iter().map(Prefix::label).collect::<Vec<_>>().join(", ");
    let fits = |one: &Prefix| {
        one.record.toolkit == toolkit
            && one.record.target.as_deref() == target
            && release.is_none_or(|release| *release == one.record.release || *release == one.record.version)
    };
    all.into_iter().rev().find(fits).ok_or_else(|| {
        let release = release.map(|release| format!(" {release}")).unwrap_or_default();
        let target = target.map(|target| format!(" for {target}")).unwrap_or_default();
        let what = format!("{toolkit}{release}{target}");
        ProvisionError::NotInstalled { what, toolkit: toolkit.to_owned(), installed }
    })
}

/// Paths of one installation.
pub(crate) struct PrefixPlace {
    /// The final folder.
    pub(crate) published: HostPath,
    /// The folder of an incomplete installation.
    pub(crate) partial: HostPath,
    /// The previous installation while it is being replaced.
    pub(crate) old: HostPath,
    /// The lock file.
    pub(crate) lock: HostPath,
}

impl PrefixPlace {
    pub(crate) fn new(all: &HostPath, toolkit: &str, release: &Version) -> Self {
        let name = format!("{toolkit}-{release}");
        Self {
            published: all.join(&name),
            partial: all.join(&format!(".{name}.partial")),
            old: all.join(&format!(".{name}.old")),
            lock: all.join(&format!(".{name}.lock")),
        }
    }

    /// Acquires the lock. Calls `waiting` first if another process holds it.
    pub(crate) fn lock(&self, host: &dyn WriteFiles, waiting: &dyn Fn()) -> Result<FileLock, ProvisionError> {
        let failed = |error: std::io::Error| ProvisionError::of_io(&error);
        let lock = if let Some(lock) = host.lock(&self.lock, Wait::No).map_err(failed)? {
            lock
        } else {
            waiting();
            host.lock(&self.lock, Wait::Yes).map_err(failed)?.ok_or(ProvisionError::Interrupted)?
        };
        // Files are removed in this folder, so not through a link.
        if host.read_link(&self.partial).is_ok() {
            host.remove(&self.partial).map_err(failed)?;
        }
        Ok(lock)
    }

    /// Recovers from a kill between the two renames of a replacement. The caller must hold the lock.
    pub(crate) fn recover(&self, host: &dyn WriteFiles) -> std::io::Result<()> {
        if host.exists(&self.published) {
            return host.remove(&self.old);
        }
        if host.exists(&self.old) {
            return host.rename(&self.old, &self.published);
        }
        Ok(())
    }

    /// Renames the partial folder to the final name, which therefore always refers to a complete installation. If the process
    /// is killed between the two renames of a replacement, the next call recovers. The caller must hold the lock.
    pub(crate) fn publish(&self, host: &dyn WriteFiles) -> std::io::Result<()> {
        host.remove(&self.old)?;
        if host.exists(&self.published) {
            host.rename(&self.published, &self.old)?;
        }
        host.rename(&self.partial, &self.published)?;
        host.remove(&self.old)
    }
}

/// Removes an installation and any incomplete one of the same release. Renames it first, so that it disappears atomically.
///
/// # Errors
/// See [`ProvisionError`].
pub fn remove(
    host: &dyn WriteFiles,
    installation: &Prefix,
    waiting: &dyn Fn(),
) -> Result<(), ProvisionError> {
    let all =
        installed::folder(host, installation.record.target.as_deref()).ok_or(ProvisionError::NoCache)?;
    let place = PrefixPlace::new(&all, &installation.record.toolkit, &installation.record.release);
    let _lock = place.lock(host, waiting)?;
    let gone = host.temporary_dir(&all).map_err(|error| ProvisionError::of_io(&error))?;
    let renamed = host.rename(&place.published, &gone.join("gone"));
    let removed = renamed
        .and_then(|()| host.remove(&gone))
        .and_then(|()| host.remove(&place.partial))
        .and_then(|()| host.remove(&place.old));
    removed.map_err(|error| ProvisionError::of_io(&error))
}
