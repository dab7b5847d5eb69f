//! Kits: how to install a toolkit from its wheels or archives. The data is in `toolkits/tables/provision.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_core::version::Version;
use gpubuild_host::Os;
use gpubuild_plan::packages::{self, LayoutVariable};
use gpubuild_plan::plan::provision::Provision;
use gpubuild_toolkits::tables;
use serde::Deserialize;

use super::error::ProvisionError;

/// How to install one toolkit from its wheels or archives.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitLayout {
    /// The package whose extras list the wheels of each release, or with `each`, the one whose version is the toolkit's.
    pub names: String,
    /// Whether every package is requested by itself, because no package lists them.
    #[serde(default)]
    pub each: bool,
    /// The index of the vendor, if the wheels are not in PyPI.
    pub index: Option<String>,
    /// The operating systems for which it is installed from wheels; empty: all for which there are wheels.
    #[serde(default)]
    pub on: Vec<Os>,
    /// The components of a release.
    pub components: Vec<LayoutPart>,
    /// The folders in wheels that map to the toolkit's root. A `*` at the end stands for the rest of a name.
    pub trees: Vec<String>,
    /// Archives in wheels, which are unpacked in the folder of the wheel.
    #[serde(default)]
    pub inner: Vec<String>,
    /// A program in the prefix (`{exe}` is `.exe` on Windows) with its arguments. It must run successfully in a complete
    /// installation.
    pub verify: Vec<String>,
    /// Symbolic links in the prefix that the wheels lack.
    #[serde(default)]
    pub links: Vec<LayoutLink>,
    /// Environment variables by which programs find the installation.
    pub env: Vec<LayoutVariable>,
    /// Disk space per byte of download, rounded up.
    pub grows: u64,
    /// Where the archives of releases without wheels are.
    pub archives: Option<ArchiveLayout>,
    /// A stub library to build, if linking needs a library that no wheel contains.
    pub stub: Option<Stub>,
    /// A file with the version, created if no wheel contains it.
    pub version_file: Option<VersionFile>,
}

/// Archives that the vendor publishes with a manifest per release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveLayout {
    /// The URL of the folder with the manifests, with a final `/`.
    pub url: String,
    /// The first release whose archives `toolkit lock` does not use.
    pub before: Version,
    /// Disk space per byte of download, rounded up.
    pub grows: u64,
}

/// A component: wheels or archives that are installed together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutPart {
    /// Id: `base`, `cublas`.
    pub id: String,
    /// Whether it is installed only on request.
    #[serde(default)]
    pub optional: bool,
    /// Ids of components that it requires.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Its wheels.
    pub wheels: Vec<PartWheel>,
    /// The names of its archives in manifests.
    #[serde(default)]
    pub archives: Vec<String>,
}

/// A wheel of a component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartWheel {
    /// Package name in the index. `{gpu}` stands for each GPU for which it is requested.
    pub package: String,
    /// The extra of the package `names` that includes it.
    #[serde(default)]
    pub extra: String,
}

/// A symbolic link in the prefix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutLink {
    /// Path of the link.
    pub name: String,
    /// Target of the link.
    pub to: String,
    /// Operating systems on which it is created.
    pub on: Vec<Os>,
}

/// A stub library for linking, generated from the declarations in headers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stub {
    /// Operating systems on which it is built.
    pub on: Vec<Os>,
    /// Headers in the prefix; missing ones are skipped.
    pub headers: Vec<String>,
    /// A regular expression whose first group matches the name of a function.
    pub function: String,
    /// Suffixes with which every function is defined in addition.
    #[serde(default)]
    pub suffixes: Vec<String>,
    /// Path of the library in the prefix.
    pub library: String,
    /// The library name that programs linked with it load at run time.
    pub soname: String,
    /// Return value of every function.
    pub answer: i32,
}

/// A file with the version of the toolkit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionFile {
    /// Path in the prefix.
    pub path: String,
    /// Content; `{version}` is replaced by the complete version.
    pub text: String,
}

/// The complete table.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Kits {
    /// Toolkits that are available as wheels, by id.
    pub kits: BTreeMap<String, ToolkitLayout>,
}

/// Replaces `{exe}` in a path of a kit by the executable suffix of an operating system.
#[must_use]
pub fn on(path: &str, os: Os) -> String {
    path.replace("{exe}", if os == Os::Windows { ".exe" } else { "" })
}

/// The embedded table.
///
/// # Panics
/// Panics if the table is invalid, which tests rule out.
#[must_use]
pub fn embedded() -> &'static Kits {
    static KITS: OnceLock<Kits> = OnceLock::new();
    KITS.get_or_init(|| {
        gpubuild_toml::from_static(tables::PROVISION).expect("toolkits/tables/provision.toml is tested")
    })
}

/// Finds the kit of a toolkit.
///
/// # Errors
/// The toolkit is unknown.
pub fn of(toolkit: &str) -> Result<&'static ToolkitLayout, ProvisionError> {
    let kits = embedded();
    let unknown = || ProvisionError::UnknownToolkit { asked: toolkit.to_owned(), offered: offered(kits) };
    kits.kits.get(toolkit).ok_or_else(unknown)
}

/// The toolkits that can be installed on some machine, separated by commas.
fn offered(kits: &Kits) -> String {
    let sets = packages::all().iter().map(|set| set.toolkit.as_str());
    kits.kits
        .keys()
        .map(String::as_str)
        .chain(sets)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Upper estimate of the disk space of installations in bytes.
#[must_use]
pub fn disk_bytes(all: &[Provision]) -> u64 {
    let kits = &embedded().kits;
    all.iter().map(|one| one.download_bytes * kits.get(&one.toolkit).map_or(1, |kit| kit.grows)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::toolkit::Catalogue;

    #[test]
    fn every_kit_has_a_description_and_a_lock() {
        let catalogue = Catalogue::embedded();
        for (id, kit) in &embedded().kits {
            assert!(catalogue.get(id).is_some(), "{id}");
            let has_lock = !gpubuild_plan::wheels::lock::offered(id).is_empty();
            assert_eq!(has_lock, !kit.each, "{id}");
            if let Some(stub) = &kit.stub {
                assert_eq!(regex_lite::Regex::new(&stub.function).unwrap().captures_len(), 2, "{id}");
            }
        }
    }
}
