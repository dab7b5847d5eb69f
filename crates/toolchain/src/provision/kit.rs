//! How the wheels of a toolkit become an installation: `toolkits/tables/provision.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_host::Os;
use gpubuild_plan::plan::provision::Provision;
use gpubuild_toolkits::tables;
use serde::Deserialize;

use super::error::ProvisionError;

/// How the wheels of one toolkit become an installation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitLayout {
    /// The wheel that names, for each release, the wheels that go together.
    pub names: String,
    /// The parts of a release.
    pub components: Vec<LayoutPart>,
    /// The folder in every wheel that is the toolkit's root.
    pub tree: String,
    /// A program of the prefix (`{exe}`: `.exe` on Windows) and its arguments: it runs once everything is there.
    pub verify: Vec<String>,
    /// Links of the prefix that wheels lack.
    #[serde(default)]
    pub links: Vec<LayoutLink>,
    /// Variables by which it is found.
    pub env: Vec<LayoutVariable>,
    /// Bytes of disk for a byte of download, rounded up.
    pub grows: u64,
    /// A library that is in no wheel.
    pub stub: Option<Stub>,
    /// A file that tells the release, made if it is absent.
    pub version_file: Option<VersionFile>,
}

/// Wheels of a release that go together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutPart {
    /// `base`, `cublas`.
    pub id: String,
    /// Only installed if it is asked for.
    #[serde(default)]
    pub optional: bool,
    /// Parts that it does not work without.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Its wheels.
    pub wheels: Vec<PartWheel>,
}

/// A wheel of a part.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartWheel {
    /// Its name on the index.
    pub package: String,
    /// The extra of the naming wheel that brings it.
    pub extra: String,
}

/// A link of the prefix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutLink {
    /// Its path.
    pub name: String,
    /// What it says.
    pub to: String,
    /// Where it is needed.
    pub on: Vec<Os>,
}

/// A variable by which programs find an installation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutVariable {
    /// Its name.
    pub name: String,
    /// A path of the prefix (`{exe}`: `.exe` on Windows); empty for the prefix itself.
    pub path: String,
    /// Put before what the variable has, rather than in its place.
    #[serde(default)]
    pub prepend: bool,
}

/// A library for linking alone, made from what headers declare.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stub {
    /// Where it is needed.
    pub on: Vec<Os>,
    /// Headers of the prefix; those that are absent are passed over.
    pub headers: Vec<String>,
    /// A regular expression; its first group is the name of a function.
    pub function: String,
    /// Endings under which every function stands again.
    #[serde(default)]
    pub suffixes: Vec<String>,
    /// Path of the library in the prefix.
    pub library: String,
    /// The name that programs linked with it ask for.
    pub soname: String,
    /// What every function returns if it is ever called.
    pub answer: i32,
}

/// A file that tells the release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionFile {
    /// Path in the prefix.
    pub path: String,
    /// Its content; `{version}` stands for the whole version.
    pub text: String,
}

/// A toolkit that is in no wheels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedComponent {
    /// Why.
    pub why: String,
}

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
pub struct Kits {
    /// Toolkits that are in no wheels, by id.
    pub elsewhere: BTreeMap<String, SharedComponent>,
    /// Toolkits that are, by id.
    #[serde(flatten)]
    pub kits: BTreeMap<String, ToolkitLayout>,
}

/// A path of a kit on an operating system: `{exe}` is what programs end in.
#[must_use]
pub fn on(path: &str, os: Os) -> String {
    path.replace("{exe}", if os == Os::Windows { ".exe" } else { "" })
}

/// The embedded file.
///
/// # Panics
/// If it is broken, which a test rules out.
#[must_use]
pub fn embedded() -> &'static Kits {
    static KITS: OnceLock<Kits> = OnceLock::new();
    KITS.get_or_init(|| {
        gpubuild_toml::from_bytes(tables::PROVISION).expect("toolkits/tables/provision.toml is tested")
    })
}

/// The kit of a toolkit.
///
/// # Errors
/// A toolkit that is in no wheels, or of which nothing is known.
pub fn of(toolkit: &str) -> Result<&'static ToolkitLayout, ProvisionError> {
    let kits = embedded();
    kits.kits.get(toolkit).ok_or_else(|| match kits.elsewhere.get(toolkit) {
        Some(elsewhere) => ProvisionError::Elsewhere {
            toolkit: toolkit.to_owned(),
            why: elsewhere.why.clone(),
            command: None,
        },
        None => ProvisionError::UnknownToolkit {
            asked: toolkit.to_owned(),
            offered: kits.kits.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        },
    })
}

/// Bytes of disk that installations take, at most.
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
            assert!(!gpubuild_plan::wheels::lock::offered(id).is_empty(), "{id}");
            if let Some(stub) = &kit.stub {
                assert_eq!(regex_lite::Regex::new(&stub.function).unwrap().captures_len(), 2, "{id}");
            }
        }
        assert!(embedded().elsewhere.keys().all(|id| catalogue.get(id).is_some()));
    }
}
