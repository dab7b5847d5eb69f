//! Locks: the wheels or archives of a toolkit release with the hashes of their files. The embedded ones are in `toolkits/locks/`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::clean;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_host::Platform;
use gpubuild_toolkits::LOCKS;
use serde::{Deserialize, Serialize};

use super::tag::{self, TagFit, WheelLibc};

/// Value of `schema` in lock files.
pub const SCHEMA: &str = "gpubuild.lock/1";
/// The largest file in bytes. A lock has at most 200,000 files, so that sums of sizes fit into 64 bits.
const LARGEST_FILE: u64 = 16 << 40;
/// The longest name of a package, and the longest version, in bytes.
const LONGEST_WORD: usize = 100;
/// The longest URL of an index in bytes.
const LONGEST_INDEX: usize = 1000;

/// The wheels or archives of one release of a toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelLock {
    /// [`SCHEMA`].
    pub schema: String,
    /// Id of the toolkit's description: `cuda`.
    pub toolkit: String,
    /// The release that users request and that is compared with drivers: `13.0`.
    pub release: Version,
    /// The complete version: `13.0.3`.
    pub version: Version,
    /// The index of Python packages that has the wheels, if not the one that uv or pip uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Supported platforms, sorted: `linux-x86_64`.
    pub platforms: Vec<String>,
    /// The base components, which are always installed, and the optional ones.
    pub components: Vec<Component>,
}

/// Wheels or archives that are installed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Id: `base`, `cublas`.
    pub id: String,
    /// Whether it is installed only on request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Ids of components that it requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Its wheels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wheels: Vec<PinnedWheel>,
    /// Its archives on the vendor's server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<PinnedWheel>,
}

/// One version of a package: wheels, or archives if the names of its files are paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedWheel {
    /// Package name in the index or in the vendor's manifest.
    pub package: String,
    /// Its version.
    pub version: String,
    /// One file per platform.
    pub files: Vec<PinnedFile>,
}

/// The file for one platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// File name of a wheel, whose tags define the platform; empty if only the hash is known. Of an archive, the path below the
    /// vendor's URL: `cuda_nvcc/linux-x86_64/cuda_nvcc-linux-x86_64-12.9.86-archive.tar.xz`.
    pub name: String,
    /// sha256 in hexadecimal.
    pub sha256: String,
    /// Size in bytes; zero if unknown.
    #[serde(default)]
    pub size: u64,
}

/// A platform to build for with the compilers of the build machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetWheels {
    /// Rust's name of the target.
    pub triple: String,
    /// Its platform.
    pub platform: Platform,
    /// The packages with compilers, which are for the build machine. All others are for the target.
    pub programs: Vec<String>,
}

/// Why the wheels for a selection cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectError {
    /// The lock has no such component.
    UnknownComponent(String),
    /// A package has no wheel for this machine.
    Platform {
        /// The package.
        package: String,
        /// The incompatibility; never [`TagFit::Yes`].
        fit: TagFit,
    },
}

impl WheelLock {
    /// Parses and checks a lock.
    ///
    /// # Errors
    /// The first problem; for syntax errors with the line and a caret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lock: Self = gpubuild_toml::from_str(text).map_err(|error| error.to_string())?;
        lock.check()?;
        Ok(lock)
    }

    /// Checks schema, dependencies of components and hashes.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("`schema` is `{}`, not `{SCHEMA}`", self.schema));
        }
        if let Some(index) = self.index.as_deref().filter(|index| !is_index(index)) {
            return Err(format!(
                "`{}` is not the URL of an index (https, without a user)",
                clean::short(index, LONGEST_WORD)
            ));
        }
        let is_sum = |text: &str| {
            text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let ids = self.components.iter().map(|component| component.id.as_str());
        let words = [self.release.as_str(), self.version.as_str()].into_iter().chain(ids);
        let packages = self.components.iter().flat_map(Component::packages);
        let mut words = words.chain(packages.flat_map(|one| [one.package.as_str(), one.version.as_str()]));
        if let Some(word) = words.find(|word| !is_word(word)) {
            return Err(format!("`{}` is not a name or version", clean::short(word, LONGEST_WORD)));
        }
        for component in &self.components {
            if let Some(id) = component.needs.iter().find(|id| self.component(id).is_none()) {
                return Err(format!("component `{}` needs `{id}`, which does not exist", component.id));
            }
            for wheel in component.packages() {
                if wheel.files.is_empty() {
                    return Err(format!("`{}` has no files", wheel.package));
                }
                let should_be_path = component.archives.contains(wheel);
                let is_valid =
                    |file: &&PinnedFile| is_relative(&file.name) && file.name.contains('/') == should_be_path;
                if let Some(file) = wheel.files.iter().find(|file| !is_valid(file)) {
                    let what = if should_be_path { "path of an archive" } else { "name of a wheel" };
                    return Err(format!("`{}` is not the {what}", file.name));
                }
                if let Some(file) = wheel.files.iter().find(|file| !is_sum(&file.sha256)) {
                    return Err(format!("`{}` is not a sha256 hash (`{}`)", file.sha256, file.name));
                }
                if let Some(file) = wheel.files.iter().find(|file| file.size > LARGEST_FILE) {
                    return Err(format!("the size {} of `{}` is more than 16 TiB", file.size, file.name));
                }
            }
        }
        Ok(())
    }

    /// Whether any of its packages are archives.
    #[must_use]
    pub fn has_archives(&self) -> bool {
        self.components.iter().any(|component| !component.archives.is_empty())
    }

    /// A component by its id.
    #[must_use]
    pub fn component(&self, id: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.id == id)
    }

    /// Ids of the optional components.
    pub fn optional(&self) -> impl Iterator<Item = &str> {
        self.components.iter().filter(|component| component.optional).map(|component| component.id.as_str())
    }

    /// The base components, the components `with`, and all that they need, in the order of the lock.
    ///
    /// # Errors
    /// The lock does not have one of the components.
    pub fn closure(&self, with: &[String]) -> Result<Vec<&Component>, SelectError> {
        let mut wanted: Vec<&str> =
            self.components.iter().filter(|c| !c.optional).map(|c| c.id.as_str()).collect();
        let mut pending: Vec<&str> = with.iter().map(String::as_str).collect();
        while let Some(id) = pending.pop() {
            let component = self.component(id).ok_or_else(|| SelectError::UnknownComponent(id.to_owned()))?;
            if !wanted.contains(&id) {
                wanted.push(&component.id);
            }
            let new = component.needs.iter().map(String::as_str).filter(|need| !wanted.contains(need));
            pending.extend(new);
        }
        Ok(self.components.iter().filter(|component| wanted.contains(&component.id.as_str())).collect())
    }

    /// The wheels of [`closure`](Self::closure) for one machine, each with the file that the machine supports.
    ///
    /// # Errors
    /// A component is unknown, or a wheel does not support the machine.
    pub fn select(
        &self,
        with: &[String],
        platform: Platform,
        libc: &WheelLibc,
    ) -> Result<Vec<PinnedWheel>, SelectError> {
        self.select_for(with, platform, libc, None)
    }

    /// [`Self::select`] for builds for another platform.
    ///
    /// # Errors
    /// See [`Self::select`].
    pub fn select_for(
        &self,
        with: &[String],
        platform: Platform,
        libc: &WheelLibc,
        target: Option<&TargetWheels>,
    ) -> Result<Vec<PinnedWheel>, SelectError> {
        let components = self.closure(with)?;
        let file = |wheel: &PinnedWheel| match target {
            Some(target) if !target.programs.contains(&wheel.package) => {
                wheel.for_machine(target.platform, &WheelLibc::Glibc(None))
            }
            _ => wheel.for_machine(platform, libc),
        };
        components.iter().flat_map(|component| component.packages()).map(file).collect()
    }
}

impl Component {
    /// Its wheels and archives.
    pub fn packages(&self) -> impl Iterator<Item = &PinnedWheel> {
        self.wheels.iter().chain(&self.archives)
    }
}

impl PinnedFile {
    /// The folder of the platform in the path of an archive; `None` for a wheel.
    #[must_use]
    pub fn platform_folder(&self) -> Option<&str> {
        let (_, rest) = self.name.split_once('/')?;
        rest.split_once('/').map(|(folder, _)| folder)
    }

    /// Whether a machine supports the file.
    fn fit(&self, platform: Platform, libc: &WheelLibc) -> TagFit {
        match self.platform_folder() {
            Some(folder) => tag::fit_of_folder(folder, platform, libc),
            None => tag::fit(&self.name, platform, libc),
        }
    }
}

impl PinnedWheel {
    /// Whether its files are archives on the vendor's server instead of wheels.
    #[must_use]
    pub fn is_archive(&self) -> bool {
        self.files.iter().all(|file| file.platform_folder().is_some())
    }

    /// This wheel with only the file that the machine supports.
    fn for_machine(&self, platform: Platform, libc: &WheelLibc) -> Result<Self, SelectError> {
        let mut why = TagFit::OtherPlatform;
        for file in &self.files {
            match file.fit(platform, libc) {
                TagFit::Yes => {
                    let files = vec![file.clone()];
                    return Ok(Self { files, ..self.clone() });
                }
                TagFit::OtherPlatform => {}
                nearer => why = nearer,
            }
        }
        Err(SelectError::Platform { package: self.package.clone(), fit: why })
    }

    /// Size of its largest file in bytes, an upper limit for the download.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).max().unwrap_or_default()
    }
}

/// Whether a text is the URL of an index that a lock may name: with encryption or on this machine, and without a user and password.
#[must_use]
pub fn is_index(text: &str) -> bool {
    const SCHEMES: [&str; 6] = [
        "https://",
        "file:///",
        "http://127.0.0.1:",
        "http://127.0.0.1/",
        "http://localhost:",
        "http://localhost/",
    ];
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._+~%-".contains(&byte);
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
        && text.len() <= LONGEST_INDEX
        && text.bytes().all(is_plain)
}

/// Whether a text can be a name or version in lines, paths and requirements.
fn is_word(text: &str) -> bool {
    (1..=LONGEST_WORD).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+!-".contains(&byte))
}

/// Whether a name is a file name or a relative path without `.`, `..` and characters that have a meaning in URLs or on a platform.
fn is_relative(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~!/".contains(c);
    name.is_empty()
        || name.chars().all(is_plain) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The embedded locks, sorted by toolkit and release.
///
/// # Panics
/// Panics if an embedded lock is invalid, which tests rule out.
#[must_use]
pub fn embedded() -> &'static [WheelLock] {
    static PARSED: OnceLock<Vec<WheelLock>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let read = |(name, bytes): &(&str, &'static [u8])| -> WheelLock {
            gpubuild_toml::from_static(bytes)
                .unwrap_or_else(|error| panic!("toolkits/locks/{name}.toml is tested: {error}"))
        };
        let mut locks: Vec<WheelLock> = LOCKS.iter().map(read).collect();
        locks.sort_indirect_by(|a, b| (&a.toolkit, &a.release).cmp(&(&b.toolkit, &b.release)));
        locks
    })
}

/// Whether any release of a toolkit has an embedded lock. Checks only the file names, `TOOLKIT-RELEASE`, and parses nothing.
#[must_use]
pub fn is_embedded(toolkit: &str) -> bool {
    LOCKS.iter().any(|(name, _)| name.rsplit_once('-').is_some_and(|(id, _)| id == toolkit))
}

/// The embedded locks of a toolkit by release.
#[must_use]
pub fn offered(toolkit: &str) -> BTreeMap<Version, &'static WheelLock> {
    embedded()
        .iter()
        .filter(|lock| lock.toolkit == toolkit)
        .map(|lock| (lock.release.clone(), lock))
        .collect()
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
