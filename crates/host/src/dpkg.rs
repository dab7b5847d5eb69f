//! dpkg's list of packages, and those in it that are not simply installed.

use std::fmt::Write as _;

/// The file with the list, one paragraph per package.
pub const STATUS: &str = "/var/lib/dpkg/status";

/// The states of almost all packages: completely installed, and removed except for configuration files.
const USUAL: [&str; 3] = ["install ok installed", "deinstall ok config-files", "deinstall ok not-installed"];

/// A package with another state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DpkgPackage<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version; empty if none is recorded.
    pub version: &'a str,
    /// Whether it is on hold: `apt-mark hold`.
    pub held: bool,
    /// What was done of its installation: `unpacked`, `half-configured`, or `installed`.
    pub state: &'a str,
    /// Whether dpkg requires that it is installed again.
    pub reinstall: bool,
}

/// The packages that are on hold or not completely installed.
pub fn unusual(status: &str) -> impl Iterator<Item = DpkgPackage<'_>> {
    status.match_indices("\nStatus: ").filter_map(move |(at, label)| {
        let value = status.get(at + label.len()..)?.lines().next()?.trim_end();
        if USUAL.contains(&value) {
            return None;
        }
        let start = status[..at].rfind("\n\n").map_or(0, |start| start + 2);
        let paragraph = status[start..].split("\n\n").next()?;
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mut words = value.split(' ');
        let (wanted, flag, state) = (words.next()?, words.next()?, words.next()?);
        Some(DpkgPackage {
            name: field("Package:")?,
            version: field("Version:").unwrap_or_default(),
            held: wanted == "hold",
            state,
            reinstall: flag == "reinstreq",
        })
    })
}

/// Reduces the list to these packages and the fields that are read.
pub(crate) fn keep(status: &str) -> String {
    unusual(status).fold(String::new(), |mut kept, package| {
        let wanted = if package.held { "hold" } else { "install" };
        let flag = if package.reinstall { "reinstreq" } else { "ok" };
        let DpkgPackage { name, version, state, .. } = package;
        let _ = write!(kept, "Package: {name}\nStatus: {wanted} {flag} {state}\nVersion: {version}\n\n");
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "Package: adduser\nStatus: install ok installed\nPriority: important\nVersion: 3.1\n\n\
        Package: nvidia-dkms-580\nStatus: install ok half-configured\nDepends: dkms\nVersion: 580.1-0ubuntu1\n\n\
        Package: old\nStatus: deinstall ok config-files\nVersion: 1\n\n\
        Package: libnvidia-compute-550\nStatus: hold ok installed\nVersion: 550.1\nDescription: x\n\n\
        Package: cuda\nStatus: install reinstreq half-installed\nVersion: 13\n";

    #[test]
    fn packages_that_are_not_simply_installed_are_found() {
        let found: Vec<_> = unusual(LIST).collect();
        let shown: Vec<_> = found.iter().map(|one| (one.name, one.version, one.held, one.state)).collect();
        assert_eq!(
            shown,
            [
                ("nvidia-dkms-580", "580.1-0ubuntu1", false, "half-configured"),
                ("libnvidia-compute-550", "550.1", true, "installed"),
                ("cuda", "13", false, "half-installed"),
            ]
        );
        assert!(found[2].reinstall && !found[0].reinstall);
        assert_eq!(unusual("").count() + unusual("Status: x\n\nStatus: y\nnothing").count(), 0);
    }

    #[test]
    fn a_reduced_list_yields_the_same_packages() {
        let kept = keep(LIST);
        assert_eq!(unusual(&kept).collect::<Vec<_>>(), unusual(LIST).collect::<Vec<_>>());
        assert!(!kept.contains("adduser") && !kept.contains("Depends"));
        assert_eq!(keep("Package: a\nStatus: install ok installed\n"), "");
    }
}
