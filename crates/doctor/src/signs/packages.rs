//! Packages of the distribution that remedies may name: which are installed, and which this release does not have. From
//! `toolkits/tables/system-packages.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_host::{Os, ReadFiles, glob};
use gpubuild_toolkits::tables;
use serde::Deserialize;

use super::SignContext;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageTable {
    #[serde(rename = "schema")]
    _schema: i64,
    backend: Vec<BackendRow>,
    package: Vec<PackageRow>,
}

/// The packages of a backend.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackendRow {
    backend: Backend,
    /// Beginnings of their names.
    starts: Vec<String>,
}

/// Packages with the same content, by package manager.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageRow {
    apt: Vec<String>,
    dnf: Vec<String>,
    pacman: Vec<String>,
    zypper: Vec<String>,
    apk: Vec<String>,
    /// Patterns of files, which all exist if a package is installed. Empty if nothing shows it.
    #[serde(default)]
    files: Vec<String>,
    /// Releases such as `ubuntu-22.04` that do not have the packages.
    #[serde(default)]
    not_in: Vec<String>,
    /// Distributions for which a vendor's repository has the packages.
    #[serde(default, rename = "vendor_for")]
    _vendor_for: Vec<String>,
    #[serde(rename = "source")]
    _source: String,
}

impl PackageRow {
    fn by_manager(&self) -> BTreeMap<String, &[String]> {
        let lists = [
            ("apt", &self.apt),
            ("dnf", &self.dnf),
            ("pacman", &self.pacman),
            ("zypper", &self.zypper),
            ("apk", &self.apk),
        ];
        lists.into_iter().map(|(manager, names)| (manager.to_owned(), names.as_slice())).collect()
    }
}

/// The embedded table. A test parses it.
fn table() -> &'static PackageTable {
    static TABLE: OnceLock<PackageTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        gpubuild_toml::from_static(tables::SYSTEM_PACKAGES)
            .expect("toolkits/tables/system-packages.toml is tested")
    })
}

fn rows() -> &'static [PackageRow] {
    &table().package
}

/// The backend that a package of Debian or Ubuntu belongs to.
pub(super) fn backend_of(name: &str) -> Option<Backend> {
    let row = table().backend.iter().find(|row| row.starts.iter().any(|start| name.starts_with(start)));
    row.map(|row| row.backend)
}

/// Packages that remedies leave out on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageSigns {
    /// Installed packages.
    pub installed: BTreeSet<String>,
    /// Packages that this release of the distribution does not have.
    pub unavailable: BTreeSet<String>,
    /// The distribution and its release: `ubuntu-22.04`.
    pub release: String,
}

pub(super) fn gather(context: &SignContext<'_>) -> PackageSigns {
    observe(context.host, context.facts)
}

/// Looks for the packages on a machine.
#[must_use]
pub fn observe(host: &dyn ReadFiles, facts: &Facts) -> PackageSigns {
    let mut signs = PackageSigns::default();
    let Some(distro) = facts.distro.as_ref().filter(|_| facts.platform.os == Os::Linux) else { return signs };
    signs.release = distro.value.label();
    let exists = |pattern: &String| pattern.split('|').any(|one| !glob(host, one).is_empty());
    for row in rows() {
        let managers = row.by_manager();
        let Some(names) = for_distribution(facts, &managers).filter(|names| !names.is_empty()) else {
            continue;
        };
        if row.not_in.contains(&signs.release) {
            signs.unavailable.extend(names.iter().cloned());
        } else if !row.files.is_empty() && row.files.iter().all(exists) {
            signs.installed.extend(names.iter().cloned());
        }
    }
    signs
}

/// The commands without packages that are installed or do not exist. Commands without packages are omitted.
#[must_use]
pub fn available(commands: &[String], signs: &PackageSigns) -> Vec<String> {
    without_needless(commands, signs).0
}

/// The commands without packages that are installed or do not exist, and the names of the latter. Commands without packages are
/// omitted.
pub(crate) fn without_needless(commands: &[String], signs: &PackageSigns) -> (Vec<String>, Vec<String>) {
    // A repository that was added before has other packages than the distribution.
    let adds_repository = commands.iter().any(|command| {
        ["sources.list", "addrepo", "add-repo", "yum.repos.d", ".repo"]
            .iter()
            .any(|sign| command.contains(sign))
    });
    let mut missing = Vec::new();
    let mut kept = Vec::new();
    for command in commands {
        let parts: Vec<String> = command
            .split(" && ")
            .filter_map(|part| part_without(part, signs, adds_repository, &mut missing))
            .collect();
        if !parts.is_empty() {
            kept.push(parts.join(" && "));
        }
    }
    (kept, missing)
}

/// A command of a package manager without needless packages. `None` if no package remains.
fn part_without(
    part: &str,
    signs: &PackageSigns,
    adds_repository: bool,
    missing: &mut Vec<String>,
) -> Option<String> {
    let Some(start) = first_package(part) else { return Some(part.to_owned()) };
    let (command, rest) = part.split_at(start);
    let mut remain = 0;
    let kept: Vec<&str> = rest
        .split(' ')
        .filter(|word| {
            let name = word.trim_matches(['\'', '"']);
            if !adds_repository && signs.unavailable.contains(name) {
                missing.push(name.to_owned());
                return false;
            }
            if signs.installed.contains(name) {
                return false;
            }
            remain += usize::from(!word.starts_with('-'));
            true
        })
        .collect();
    (remain > 0).then(|| format!("{command}{}", kept.join(" ")))
}

/// Where the packages begin in a command that installs some. `None` for other commands, and for those that update or install again.
fn first_package(command: &str) -> Option<usize> {
    let words: Vec<&str> = command.split(' ').collect();
    let from = usize::from(words.first() == Some(&"sudo"));
    let verb = match *words.get(from)? {
        "apt" | "apt-get" | "dnf" | "zypper" | "rpm-ostree" => "install",
        "pacman" => "-S",
        "apk" => "add",
        _ => return None,
    };
    let updates = ["--reinstall", "--only-upgrade", "--allow-downgrades", "#"];
    if words.iter().any(|word| updates.contains(word)) {
        return None;
    }
    let at = words.iter().position(|word| *word == verb)?;
    // `dnf module install` takes streams, not packages.
    if words[from + 1..at].iter().any(|word| !word.starts_with('-')) {
        return None;
    }
    Some(words[..=at].iter().map(|word| word.len() + 1).sum()).filter(|start| *start < command.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_belong_to_backends() {
        for (name, expected) in [
            ("nvidia-dkms-580", Some(Backend::Cuda)),
            ("libamdhip64-5", Some(Backend::Rocm)),
            ("mesa-vulkan-drivers", Some(Backend::Vulkan)),
            ("ocl-icd-libopencl1", Some(Backend::Opencl)),
            ("libze1", Some(Backend::Sycl)),
            ("g++-13", Some(Backend::Cpu)),
            ("tzdata", None),
        ] {
            assert_eq!(backend_of(name), expected, "{name}");
        }
    }

    #[test]
    fn every_row_names_packages_files_and_releases_in_their_format() {
        for row in rows() {
            let names: Vec<&String> = row.by_manager().values().copied().flatten().collect();
            assert!(!names.is_empty(), "{row:?}");
            assert!(
                row.files.iter().flat_map(|one| one.split('|')).all(|one| one.starts_with('/')),
                "{row:?}"
            );
            assert!(row.not_in.iter().all(|one| one.contains('-')), "{row:?}");
            assert!(names.iter().all(|name| !name.contains([' ', '{'])), "{row:?}");
        }
    }

    /// Every package that a remedy installs by a fixed name has a row for its package manager.
    #[test]
    fn every_package_of_a_remedy_has_a_row() {
        let findings = gpubuild_detect::finding::Findings::embedded();
        let mut commands: Vec<String> = Vec::new();
        for (_, _, entry) in findings.iter() {
            commands.extend(entry.commands.values().flatten().cloned());
            let tables = entry.cases.values().filter_map(|case| case.commands.as_ref());
            commands.extend(tables.flat_map(|table| table.values().flatten()).cloned());
        }
        let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
        for toolkit in catalogue.iter() {
            commands.extend(toolkit.install.values().chain(toolkit.install_driver.values()).cloned());
            commands.extend(toolkit.install_driver_wsl.values().cloned());
        }
        let (mut checked, mut lacking) = (0, BTreeSet::new());
        for part in commands.iter().flat_map(|command| command.split(" && ")) {
            let Some(start) = first_package(part) else { continue };
            let manager = part.split(' ').find(|word| *word != "sudo").unwrap_or_default();
            let manager = if manager == "apt-get" { "apt" } else { manager };
            let fixed = |word: &&str| {
                !word.starts_with('-')
                    && !word.starts_with('.')
                    && !word.contains(['{', '$', '*', '/', '%', '(', '`'])
            };
            let packages =
                part[start..].split(' ').map(|word| word.trim_matches(['\'', '"', ';', ','])).filter(fixed);
            for name in packages.take_while(|word| !matches!(*word, "or" | "and" | "then")) {
                let has = |row: &PackageRow| {
                    row.by_manager().get(manager).is_some_and(|names| names.iter().any(|one| one == name))
                };
                checked += 1;
                if !rows().iter().any(has) {
                    lacking.insert(format!("{manager} {name}"));
                }
            }
        }
        assert!(lacking.is_empty(), "no rows for: {lacking:?}");
        assert!(checked > 250, "{checked}");
    }

    #[test]
    fn installed_and_unavailable_packages_are_left_out() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let signs = PackageSigns {
            installed: names(&["libvulkan1", "cmake"]),
            unavailable: names(&["glslc"]),
            release: "ubuntu-22.04".to_owned(),
        };
        for (command, expected) in [
            ("sudo apt install libvulkan-dev glslc libvulkan1", "sudo apt install libvulkan-dev"),
            ("sudo apt install -y cmake make", "sudo apt install -y make"),
            ("sudo apt install -y cmake", ""),
            ("sudo apt update && sudo apt install cmake", "sudo apt update"),
            ("sudo apt install --reinstall cmake", "sudo apt install --reinstall cmake"),
            ("sudo apt install --only-upgrade cmake", "sudo apt install --only-upgrade cmake"),
            ("sudo dnf upgrade cmake", "sudo dnf upgrade cmake"),
            (
                "toolbox run --container build sudo dnf install cmake",
                "toolbox run --container build sudo dnf install cmake",
            ),
            ("sudo pacman -S cmake ninja", "sudo pacman -S ninja"),
            ("sudo pacman -Syu cmake", "sudo pacman -Syu cmake"),
            ("apk add cmake", ""),
        ] {
            assert_eq!(without_needless(&[command.to_owned()], &signs).0.join("\n"), expected, "{command}");
        }
        let lunarg =
            ["sudo wget -qO /etc/apt/sources.list.d/lunarg.list https://x.example", "sudo apt install glslc"];
        let lunarg = lunarg.map(str::to_owned);
        assert_eq!(without_needless(&lunarg, &signs), (lunarg.to_vec(), Vec::new()));
        assert_eq!(without_needless(&["sudo apt install glslc".to_owned()], &signs).1, ["glslc"]);
    }
}
