//! The format of package sets, and the embedded ones.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_toolkits::{PACKAGE_SETS, tables};
use serde::Deserialize;

/// How a toolkit is made from the packages of distributions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSet {
    /// Id of the toolkit's description.
    pub toolkit: String,
    /// Ids of findings that the installation resolves.
    pub fixes: Vec<DiagnosticId>,
    /// Disk space per byte of a package, rounded up.
    pub grows: u64,
    /// A program in the prefix with its arguments. It must run successfully in a complete installation. Empty if the set
    /// contains no program.
    pub verify: Vec<String>,
    /// Environment variables by which programs find the installation.
    pub env: Vec<LayoutVariable>,
    /// Programs that need libraries or variables from the prefix: a script with their name sets these.
    #[serde(default)]
    pub programs: Vec<PrefixProgram>,
    /// Texts in files that contain the path of the system's prefix.
    #[serde(default)]
    pub texts: Vec<PrefixText>,
    /// Packages of this set that are not unpacked, as patterns.
    #[serde(default)]
    pub never: Vec<String>,
    /// The packages, by distribution and release.
    pub distributions: Vec<PackageRow>,
}

/// An environment variable by which programs find an installation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutVariable {
    /// Name of the variable.
    pub name: String,
    /// Path in the prefix (`{exe}` is `.exe` on Windows); empty for the prefix itself.
    pub path: String,
    /// Whether to prepend the path to the variable instead of replacing its value.
    #[serde(default)]
    pub prepend: bool,
}

/// A program that is started by a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixProgram {
    /// Path of the script in the prefix. If a program has this path, it is moved to `libexec/gpubuild/`.
    pub path: String,
    /// The program that the script starts instead of the one that was moved, if the packages contain it, with the placeholders of `set`
    /// except `{prefix}`.
    pub runs: Option<String>,
    /// Additional variables; `{prefix}` is the prefix, `{lib}` its folder of libraries, and others are the row's `folders`.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// A text to replace in files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixText {
    /// Patterns of paths in the prefix.
    pub files: Vec<String>,
    /// The text.
    pub from: String,
    /// Its replacement; `{up}` leads from the file's folder to the prefix.
    pub to: String,
}

/// The packages of a distribution, from a release on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRow {
    /// `ID` of os-release.
    pub id: String,
    /// The first release; the row applies up to the next row of the distribution.
    pub since: Version,
    /// The package manager.
    pub manager: Option<ManagerKind>,
    /// The packages; the package manager adds the missing ones that they depend on.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The packages of components that are installed on request only, by the id of the component.
    #[serde(default)]
    pub optional: BTreeMap<String, OptionalPackages>,
    /// The package whose version is the version of the toolkit.
    pub version: Option<String>,
    /// The release of the toolkit that the distribution has, if it was looked up.
    pub release: Option<Version>,
    /// Folders in the prefix that are not the same in every release, by the placeholders of `programs`.
    #[serde(default)]
    pub folders: BTreeMap<String, String>,
    /// The releases on which an installation was tried.
    #[serde(default)]
    pub tried: Vec<String>,
    /// Why the set cannot be installed.
    pub why: Option<String>,
    /// What to do instead.
    pub instead: Option<String>,
    /// Where the package names are from.
    pub source: String,
}

/// The packages of an optional component.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionalPackages {
    /// The packages.
    pub packages: Vec<String>,
    /// Bytes to download in addition to the set, measured on a system without any of the packages.
    pub download: u64,
    /// Disk space per byte of a package in an installation with this component, in place of the set's.
    pub grows: u64,
}

/// The package managers that gpubuild can use. Each has an entry in `toolkits/tables/package-managers.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagerKind {
    /// Debian and Ubuntu.
    Apt,
    /// Fedora.
    Dnf,
}

impl ManagerKind {
    /// Its id in the data and in JSON.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Dnf => "dnf",
        }
    }
}

/// How gpubuild uses a package manager.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageManager {
    /// The programs that gpubuild starts.
    pub programs: Vec<ManagerProgram>,
    /// Packages that are never unpacked, as patterns.
    pub never: Vec<String>,
    /// The folder of libraries in the prefix.
    pub lib: String,
    /// Its names of architectures, by Rust's names. Empty if it installs packages of this machine's architecture only.
    #[serde(default)]
    pub archs: BTreeMap<String, String>,
    /// Paths in the prefix that are not kept, as patterns.
    pub leave_out: Vec<String>,
}

/// A program of a package manager.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerProgram {
    /// Its name on PATH.
    pub name: String,
    /// What installs it.
    pub from: String,
}

impl PackageSet {
    /// Checks what the format alone does not require.
    ///
    /// # Errors
    /// The first missing or contradictory key.
    pub fn check(&self) -> Result<(), String> {
        if self.fixes.is_empty() || self.grows == 0 || self.distributions.is_empty() {
            return Err("`fixes`, `grows` and `distributions` must not be empty".to_owned());
        }
        let outside = |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
        let paths = (self.programs.iter().map(|one| &one.path))
            .chain(self.programs.iter().filter_map(|one| one.runs.as_ref()))
            .chain(self.texts.iter().flat_map(|one| &one.files))
            .chain(self.env.iter().map(|one| &one.path))
            .chain(self.distributions.iter().flat_map(|row| row.folders.values()))
            .chain(self.verify.first());
        if let Some(path) = paths.into_iter().find(|path| outside(path)) {
            return Err(format!("`{path}` is not a path in the prefix"));
        }
        if let Some(text) = self.texts.iter().find(|text| text.from.is_empty() || text.files.is_empty()) {
            return Err(format!("the replacement `{}` has no `from` or no `files`", text.to));
        }
        for (index, row) in self.distributions.iter().enumerate() {
            row.check()
                .and_then(|()| self.check_folders(row))
                .map_err(|message| format!("{} {}: {message}", row.id, row.since))?;
            let earlier = self.distributions.iter().take(index).rfind(|earlier| earlier.id == row.id);
            if earlier.is_some_and(|earlier| earlier.since >= row.since) {
                return Err(format!("the rows of {} are not sorted by `since`", row.id));
            }
        }
        Ok(())
    }

    /// Checks that the folders of a row are those that the programs need.
    fn check_folders(&self, row: &PackageRow) -> Result<(), String> {
        let of_program = |program: &'_ PrefixProgram| -> Vec<String> {
            program.set.values().chain(&program.runs).cloned().collect()
        };
        let values: Vec<String> = self.programs.iter().flat_map(of_program).collect();
        let unused =
            row.folders.keys().find(|name| !values.iter().any(|value| value.contains(&placeholder(name))));
        if let Some(name) = unused {
            return Err(format!("no program needs the folder `{name}`"));
        }
        if row.manager.is_none() {
            return Ok(());
        }
        let needed = values.iter().flat_map(|value| value.split('{').skip(1));
        let mut names = needed.filter_map(|rest| rest.split_once('}').map(|(name, _)| name));
        let is_known = |name: &&str| {
            ["prefix", "lib"].contains(name) || name.contains(':') || row.folders.contains_key(*name)
        };
        match names.find(|name| !is_known(name)) {
            Some(name) => Err(format!("the folder `{name}` is missing")),
            None => Ok(()),
        }
    }
}

/// How `programs` writes the name of a folder.
fn placeholder(name: &str) -> String {
    format!("{{{name}}}")
}

impl PackageRow {
    /// The packages of the set and of the components `with`.
    ///
    /// # Errors
    /// The first component that the set does not have on this distribution.
    pub fn packages_with<'a>(&self, with: &'a [String]) -> Result<Vec<String>, &'a str> {
        let mut packages = self.packages.clone();
        for id in with {
            let component = self.optional.get(id).ok_or(id.as_str())?;
            packages.extend(component.packages.iter().cloned());
        }
        Ok(packages)
    }

    /// Disk space per byte of a package, with the components `with`.
    #[must_use]
    pub fn growth(&self, set: &PackageSet, with: &[String]) -> u64 {
        with.iter().filter_map(|id| self.optional.get(id)).map(|one| one.grows).min().unwrap_or(set.grows)
    }

    /// Fills the folders of this release into a text of `programs`.
    #[must_use]
    pub fn fill_folders(&self, text: &str) -> String {
        (self.folders.iter())
            .fold(text.to_owned(), |text, (name, path)| text.replace(&placeholder(name), path))
    }

    fn check(&self) -> Result<(), String> {
        if self.source.is_empty() {
            return Err("`source` is missing".to_owned());
        }
        let Some(why) = &self.why else {
            if self.manager.is_none() {
                return Err("neither `manager` nor `why`".to_owned());
            }
            let version = self.version.as_ref().ok_or("`version` is missing")?;
            if self.instead.is_some() {
                return Err("`instead` belongs to `why`".to_owned());
            }
            if !self.packages.contains(version) {
                return Err("`version` is not among `packages`".to_owned());
            }
            if self.optional.values().any(|one| one.packages.is_empty() || one.grows == 0) {
                return Err("a component of `optional` has no packages or `grows = 0`".to_owned());
            }
            return Ok(());
        };
        let is_complete = !why.is_empty() && self.instead.is_some();
        let installs = self.manager.is_some() || !self.packages.is_empty() || self.version.is_some();
        match (is_complete, installs) {
            (true, false) => Ok(()),
            (false, _) => Err("`why` or `instead` is missing".to_owned()),
            (_, true) => Err("`why` contradicts `manager`, `packages` and `version`".to_owned()),
        }
    }
}

/// The embedded sets.
///
/// # Panics
/// Panics if one is invalid, which tests rule out.
#[must_use]
pub fn all() -> &'static [PackageSet] {
    static SETS: OnceLock<Vec<PackageSet>> = OnceLock::new();
    SETS.get_or_init(|| {
        let parsed = PACKAGE_SETS.iter().map(|(_, bytes)| gpubuild_toml::from_static(bytes));
        parsed.map(|set| set.expect("toolkits/packages is tested")).collect()
    })
}

/// The set of a toolkit.
#[must_use]
pub fn set_of(toolkit: &str) -> Option<&'static PackageSet> {
    all().iter().find(|set| set.toolkit == toolkit)
}

/// The description of a package manager.
///
/// # Panics
/// Panics if the table has no valid entry for it, which tests rule out.
#[must_use]
pub fn manager(kind: ManagerKind) -> &'static PackageManager {
    static MANAGERS: OnceLock<BTreeMap<String, PackageManager>> = OnceLock::new();
    let managers = MANAGERS.get_or_init(|| {
        gpubuild_toml::from_static(tables::PACKAGE_MANAGERS)
            .expect("toolkits/tables/package-managers.toml is tested")
    });
    managers.get(kind.id()).expect("toolkits/tables/package-managers.toml is tested")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::toolkit::Catalogue;

    #[test]
    fn every_set_is_complete_and_belongs_to_a_description() {
        let catalogue = Catalogue::embedded();
        for set in all() {
            set.check().unwrap_or_else(|message| panic!("{}: {message}", set.toolkit));
            assert!(catalogue.get(&set.toolkit).is_some(), "{}", set.toolkit);
            for kind in set.distributions.iter().filter_map(|row| row.manager) {
                assert!(!manager(kind).programs.is_empty(), "{kind:?}");
            }
        }
    }

    #[test]
    fn components_add_packages_and_need_their_own_space() {
        let set = set_of("rocm").unwrap();
        let row = |since: &str| set.distributions.iter().rfind(|row| row.since.to_string() == since).unwrap();
        let with = ["hipblas".to_owned()];
        let (new, old) = (row("26.04"), row("24.04"));
        assert!(new.packages_with(&with).unwrap().contains(&"librocblas-dev".to_owned()));
        assert_eq!(new.packages_with(&[]).unwrap(), new.packages);
        assert_eq!(old.packages_with(&with), Err("hipblas"));
        assert!(new.growth(set, &with) < new.growth(set, &[]));
    }

    #[test]
    fn incomplete_rows_are_rejected() {
        let head = "toolkit = 'vulkan'\nfixes = ['vk.sdk-missing']\ngrows = 2\nverify = []\nenv = []\n";
        let row = "[[distributions]]\nid = 'debian'\nsince = '12'\nsource = 's'\n";
        let checked = |text: &str| -> Result<(), String> {
            let set: PackageSet =
                gpubuild_toml::from_str(&format!("{head}{text}")).map_err(|error| error.to_string())?;
            set.check()
        };
        let good = format!("{row}manager = 'apt'\npackages = ['a']\nversion = 'a'\n");
        assert_eq!(checked(&good), Ok(()));
        for (text, part) in [
            (row.to_owned(), "neither"),
            (
                format!("{good}optional = {{ b = {{ packages = [], download = 1, grows = 1 }} }}\n"),
                "`optional` has no packages",
            ),
            (format!("{good}[[programs]]\npath = 'x'\nruns = '{{llvm}}/x'\n"), "`llvm` is missing"),
            (format!("{row}manager = 'apt'\npackages = ['a']\n"), "`version` is missing"),
            (format!("{row}manager = 'apt'\npackages = ['a']\nversion = 'b'\n"), "not among"),
            (format!("{row}manager = 'brew'\npackages = ['a']\nversion = 'a'\n"), "unknown variant `brew`"),
            (format!("{row}why = 'x'\n"), "`instead` is missing"),
            (format!("{row}why = 'x'\ninstead = 'y'\nmanager = 'apt'\n"), "contradicts"),
            (format!("{good}{good}"), "not sorted"),
            (format!("{good}[[programs]]\npath = '../x'\n"), "not a path in the prefix"),
            (format!("{good}folders = {{ clang = 'bin' }}\n"), "no program needs the folder `clang`"),
            (
                format!("{good}[[programs]]\npath = 'x'\nset = {{ A = '{{prefix}}/{{clang}}' }}\n"),
                "`clang` is missing",
            ),
            (format!("{good}[[texts]]\nfiles = ['a']\nfrom = ''\nto = 'x'\n"), "no `from`"),
            (good.replace("source = 's'\n", ""), "source"),
            ("distributions = []\n".to_owned(), "must not be empty"),
        ] {
            let message = checked(&text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
