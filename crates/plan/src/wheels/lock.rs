//! Which wheels make a release of a toolkit, with the sums of their files: data in `toolkits/locks/`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::version::Version;
use gpubuild_host::Platform;
use gpubuild_toolkits::LOCKS;
use serde::{Deserialize, Serialize};

use super::tag::{self, TagFit, WheelLibc};

/// Value of `schema`.
pub const SCHEMA: &str = "gpubuild.lock/1";

/// The wheels of one release of a toolkit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelLock {
    /// [`SCHEMA`].
    pub schema: String,
    /// Id of the toolkit's description, `cuda`.
    pub toolkit: String,
    /// What is asked for and what drivers are compared with, `13.0`.
    pub release: Version,
    /// The whole version, `13.0.3`.
    pub version: Version,
    /// Where it can be installed: `linux-x86_64`, sorted.
    pub platforms: Vec<String>,
    /// The base, which is always installed, and what may be added.
    pub components: Vec<Component>,
}

/// Wheels that go together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// `base`, `cublas`.
    pub id: String,
    /// Only installed if it is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Components that it does not work without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Its wheels.
    pub wheels: Vec<PinnedWheel>,
}

/// A distribution at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedWheel {
    /// Its name on the index.
    pub package: String,
    /// Its version.
    pub version: String,
    /// One file per platform.
    pub files: Vec<PinnedFile>,
}

/// A wheel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// File name, which tells its platform; empty where only the sum is known.
    pub name: String,
    /// Its sha256 in hexadecimal.
    pub sha256: String,
    /// Its size in bytes; zero where it is not known.
    #[serde(default)]
    pub size: u64,
}

/// Why a selection makes no list of wheels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectError {
    /// The lock has no such component.
    UnknownComponent(String),
    /// A wheel has no file for this machine.
    Platform {
        /// The distribution.
        package: String,
        /// What stands in the way, never [`TagFit::Yes`].
        fit: TagFit,
    },
}

impl WheelLock {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, with line and caret where it is the syntax.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lock: Self = gpubuild_toml::from_str(text).map_err(|error| error.to_string())?;
        lock.check()?;
        Ok(lock)
    }

    /// What is wrong with it, if anything.
    ///
    /// # Errors
    /// A sentence about the first thing.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("`schema` is `{}`, not `{SCHEMA}`", self.schema));
        }
        let is_sum = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for component in &self.components {
            if let Some(id) = component.needs.iter().find(|id| self.component(id).is_none()) {
                return Err(format!("component `{}` needs `{id}`, which is not there", component.id));
            }
            for wheel in &component.wheels {
                if wheel.files.is_empty() {
                    return Err(format!("`{}` has no files", wheel.package));
                }
                if let Some(file) = wheel.files.iter().find(|file| !is_sum(&file.sha256)) {
                    return Err(format!("`{}` is no sha256 of `{}`", file.sha256, file.name));
                }
            }
        }
        Ok(())
    }

    /// A component by its id.
    #[must_use]
    pub fn component(&self, id: &str) -> Option<&Component> {
        self.components.iter().find(|component| component.id == id)
    }

    /// Ids of what may be added to the base.
    pub fn optional(&self) -> impl Iterator<Item = &str> {
        self.components.iter().filter(|component| component.optional).map(|component| component.id.as_str())
    }

    /// The components that are installed if these are asked for, in the order of the lock.
    ///
    /// # Errors
    /// One that the lock does not have.
    pub fn closure(&self, with: &[String]) -> Result<Vec<&Component>, SelectError> {
        let mut wanted: Vec<&str> =
            self.components.iter().filter(|c| !c.optional).map(|c| c.id.as_str()).collect();
        let mut waiting: Vec<&str> = with.iter().map(String::as_str).collect();
        while let Some(id) = waiting.pop() {
            let component = self.component(id).ok_or_else(|| SelectError::UnknownComponent(id.to_owned()))?;
            if !wanted.contains(&id) {
                wanted.push(&component.id);
            }
            let new = component.needs.iter().map(String::as_str).filter(|need| !wanted.contains(need));
            waiting.extend(new);
        }
        Ok(self.components.iter().filter(|component| wanted.contains(&component.id.as_str())).collect())
    }

    /// The wheels of the base and of these components for one machine, each with the one file that fits it.
    ///
    /// # Errors
    /// An unknown component, or a wheel that the machine cannot run.
    pub fn select(
        &self,
        with: &[String],
        platform: Platform,
        libc: &WheelLibc,
    ) -> Result<Vec<PinnedWheel>, SelectError> {
        let components = self.closure(with)?;
        components
            .iter()
            .flat_map(|component| &component.wheels)
            .map(|w| w.for_machine(platform, libc))
            .collect()
    }
}

impl PinnedWheel {
    /// This wheel with only the file that a machine can run.
    fn for_machine(&self, platform: Platform, libc: &WheelLibc) -> Result<Self, SelectError> {
        let mut why = TagFit::OtherPlatform;
        for file in &self.files {
            match tag::fit(&file.name, platform, libc) {
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

    /// Bytes of the largest of its files: what is downloaded at most.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).max().unwrap_or_default()
    }
}

/// Every embedded lock: by toolkit, then by release, the newest last.
///
/// # Panics
/// If one is broken, which a test rules out.
#[must_use]
pub fn embedded() -> &'static [WheelLock] {
    static PARSED: OnceLock<Vec<WheelLock>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let read = |(name, bytes): &(&str, &[u8])| -> WheelLock {
            gpubuild_toml::from_bytes(bytes)
                .unwrap_or_else(|error| panic!("toolkits/locks/{name}.toml is tested: {error}"))
        };
        let mut locks: Vec<WheelLock> = LOCKS.iter().map(read).collect();
        locks.sort_by(|a, b| (&a.toolkit, &a.release).cmp(&(&b.toolkit, &b.release)));
        locks
    })
}

/// Whether some release of a toolkit has an embedded lock. Files are named `toolkit-release`, so none is parsed for this.
#[must_use]
pub fn is_embedded(toolkit: &str) -> bool {
    LOCKS.iter().any(|(name, _)| name.rsplit_once('-').is_some_and(|(id, _)| id == toolkit))
}

/// The locks of a toolkit by release, the newest last.
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
