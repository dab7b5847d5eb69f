//! Schema of `toolkits/tables/distributions.toml`, and the lookup of the row for a machine.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::version::Version;
use gpubuild_detect::facts::{Distro, Facts};
use gpubuild_toolkits::tables;
use serde::Deserialize;

/// All tables of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdviceTable {
    pub(super) own: Vec<AdviceRow<Own>>,
    pub(super) repository: Vec<AdviceRow<Repository>>,
    pub(super) commands: Commands,
    pub(super) gcc: Vec<AdviceRow<Gcc>>,
    pub(super) gcc_commands: BTreeMap<String, GccCommand>,
    derived: Vec<Derived>,
}

/// An offer for a distribution, valid from `version` on.
#[derive(Debug, Deserialize)]
pub(super) struct AdviceRow<T> {
    id: String,
    version: String,
    #[serde(flatten)]
    pub(super) offer: T,
    #[serde(rename = "source")]
    _source: String,
}

/// A CUDA Toolkit that a distribution packages.
#[derive(Debug, Deserialize)]
pub(super) struct Own {
    pub(super) package: String,
    /// Its release; `None` means the newest known release.
    pub(super) toolkit: Option<Version>,
}

/// NVIDIA's repository for a distribution.
#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) name: String,
    pub(super) since: Version,
    pub(super) until: Option<Version>,
}

/// GCC versions that a distribution packages besides its default.
#[derive(Debug, Deserialize)]
pub(super) struct Gcc {
    pub(super) have: Vec<u64>,
}

/// Command templates by distribution or package manager.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Commands {
    pub(super) own: BTreeMap<String, Vec<String>>,
    pub(super) repository: BTreeMap<String, Vec<String>>,
    pub(super) runfile: BTreeMap<String, Vec<String>>,
    pub(super) other: BTreeMap<String, Vec<String>>,
}

/// How an additional GCC is installed, and the path of its C++ compiler.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GccCommand {
    pub(super) command: String,
    pub(super) program: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Derived {
    id: String,
    version: String,
    is: Parent,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parent {
    id: String,
    version: String,
}

/// The embedded table. A test verifies that it parses.
pub(super) fn table() -> &'static AdviceTable {
    static TABLE: OnceLock<AdviceTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::DISTRIBUTIONS)
            .expect("toolkits/tables/distributions.toml is valid, as a test verifies")
    })
}

/// Names for looking up the machine's distribution, in lookup order, each with the version that applies to that name.
fn names(facts: &Facts) -> Vec<(String, String)> {
    let mut names = Vec::new();
    if facts.wsl.is_some() {
        names.push(("wsl".to_owned(), String::new()));
    }
    let Some(distro) = facts.distro.as_ref().map(|fact| &fact.value) else { return names };
    names.push((distro.id.clone(), distro.version.clone()));
    if let Some(parent) = parent(distro) {
        names.push((parent.id.clone(), parent.version.clone()));
        return names;
    }
    // Derivatives of Debian and Ubuntu have their own version numbers.
    let same_versions = |like: &&String| !matches!(like.as_str(), "debian" | "ubuntu");
    names.extend(distro.like.iter().filter(same_versions).map(|like| (like.clone(), distro.version.clone())));
    if matches!(distro.id.as_str(), "pop" | "raspbian") {
        let of = if distro.id == "pop" { "ubuntu" } else { "debian" };
        names.push((of.to_owned(), distro.version.clone()));
    }
    names
}

fn parent(distro: &Distro) -> Option<&'static Parent> {
    let mut rows = table().derived.iter().filter(|row| row.id == distro.id);
    rows.rfind(|row| at_least(&distro.version, &row.version)).map(|row| &row.is)
}

/// The newest row that is not newer than the machine's version.
pub(super) fn of_machine<'t, T>(facts: &Facts, rows: &'t [AdviceRow<T>]) -> Option<&'t T> {
    names(facts).iter().find_map(|(id, version)| {
        let row = rows.iter().rfind(|row| row.id == *id && at_least(version, &row.version))?;
        Some(&row.offer)
    })
}

fn at_least(version: &str, least: &str) -> bool {
    match (version.parse::<Version>(), least.parse::<Version>()) {
        (Ok(version), Ok(least)) => version >= least,
        // A rolling distribution has no version; a row without a version applies to all versions.
        (Err(_), _) | (_, Err(_)) => least.is_empty() || version.is_empty(),
    }
}
