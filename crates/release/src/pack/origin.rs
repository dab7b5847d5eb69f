//! The package that a third-party library comes from: a Python wheel, or a package of the distribution.

use gpubuild_core::text::python_package;
use gpubuild_exec::export::is_licence;
use gpubuild_host::{HostPath, ReadFiles};

/// The folder with the wheels of a toolkit that gpubuild installed.
const WHEELS: &str = "wheels";
/// The number of folders above a library in which the record of its wheel is searched.
const MAX_LEVELS: usize = 6;

/// The package that a third-party library comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryPackage {
    /// Its name: `nvidia-cuda-runtime`.
    pub name: String,
    /// Its version, if it is known.
    pub version: Option<String>,
    /// Its [package URL](https://github.com/package-url/purl-spec).
    pub url: String,
    /// Its licence files.
    pub licences: Vec<HostPath>,
    /// The folder for them.
    pub folder: String,
}

impl LibraryPackage {
    /// The wheel or the package of the distribution that contains a library.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, library: &HostPath) -> Option<Self> {
        of_wheel(host, library).or_else(|| of_debian(host, library))
    }
}

/// The wheel that contains a library, found through its `RECORD`. A toolkit that gpubuild installed has its wheels in `wheels`, with links
/// to their files.
fn of_wheel(host: &dyn ReadFiles, library: &HostPath) -> Option<LibraryPackage> {
    let mut folder = library.parent()?;
    for _ in 0..MAX_LEVELS {
        let wheels = folder.join(WHEELS);
        let inner = host.list(&wheels).unwrap_or_default();
        let sites = std::iter::once(folder.clone()).chain(inner.iter().map(|name| wheels.join(name)));
        for site in sites {
            for name in host.list_matching(&site, "*.dist-info").unwrap_or_default() {
                let info = site.join(&name);
                if records(host, &site, &info, library) {
                    let folder = name.trim_end_matches(".dist-info").to_owned();
                    let (name, version) = folder.split_once('-')?;
                    let name = python_package(name);
                    return Some(LibraryPackage {
                        url: format!("pkg:pypi/{name}@{version}"),
                        version: Some(version.to_owned()),
                        licences: licences_of(host, &info),
                        name,
                        folder,
                    });
                }
            }
        }
        folder = folder.parent()?;
    }
    None
}

/// Whether the record of a wheel lists a file.
fn records(host: &dyn ReadFiles, site: &HostPath, info: &HostPath, library: &HostPath) -> bool {
    let record = host.read_text(&info.join("RECORD")).unwrap_or_default();
    let name = library.file_name().unwrap_or_default();
    let listed = record.lines().filter_map(|line| line.split(',').next()).filter(|path| path.ends_with(name));
    listed
        .map(|path| site.join(path))
        .any(|path| path.key() == library.key() || host.is_same_file(&path, library))
}

fn licences_of(host: &dyn ReadFiles, info: &HostPath) -> Vec<HostPath> {
    let mut files = Vec::new();
    for place in [info.clone(), info.join("licenses")] {
        let names = host.list(&place).unwrap_or_default();
        files.extend(names.iter().filter(|name| is_licence(name)).map(|name| place.join(name)));
    }
    files.retain(|file| host.is_file(file));
    files
}

/// The Debian or Ubuntu package that contains a library.
fn of_debian(host: &dyn ReadFiles, library: &HostPath) -> Option<LibraryPackage> {
    let info = host.path("/var/lib/dpkg/info");
    let path = library.as_str();
    let without_usr = path.strip_prefix("/usr").unwrap_or(path);
    let lists = host.list_matching(&info, "*.list").ok()?;
    let owner = lists.iter().find(|name| {
        let text = host.read_text(&info.join(name)).unwrap_or_default();
        text.lines().any(|line| line == path || line == without_usr)
    })?;
    let name = owner.trim_end_matches(".list").split(':').next().unwrap_or_default().to_owned();
    let version =
        debian_version(&host.read_text(&host.path("/var/lib/dpkg/status")).unwrap_or_default(), &name);
    let vendor = host.read_text(&host.path("/etc/dpkg/origins/default")).unwrap_or_default();
    let vendor =
        vendor.lines().find_map(|line| line.strip_prefix("Vendor: ")).unwrap_or("debian").to_lowercase();
    let at = version.as_ref().map(|version| format!("@{}", version.replace(':', "%3A").replace('+', "%2B")));
    let file = host.path(&format!("/usr/share/doc/{name}/copyright"));
    Some(LibraryPackage {
        url: format!("pkg:deb/{vendor}/{name}{}", at.unwrap_or_default()),
        version,
        licences: if host.is_file(&file) { vec![file] } else { Vec::new() },
        folder: name.clone(),
        name,
    })
}

/// The version of an installed package in dpkg's status file, which has one paragraph per package.
fn debian_version(status: &str, name: &str) -> Option<String> {
    let is_named =
        |paragraph: &&str| paragraph.lines().any(|line| line.strip_prefix("Package: ") == Some(name));
    let paragraph = status.split("\n\n").find(is_named)?;
    paragraph.lines().find_map(|line| line.strip_prefix("Version: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_dpkgs_status() {
        let status = "Package: libz1\nStatus: install ok installed\nVersion: 1:1.2.13-1\n\nPackage: libz\nVersion: 3+b1\n";
        assert_eq!(debian_version(status, "libz1").as_deref(), Some("1:1.2.13-1"));
        assert_eq!(debian_version(status, "libz").as_deref(), Some("3+b1"));
        assert_eq!(debian_version(status, "lib"), None);
    }
}
