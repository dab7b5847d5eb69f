//! The distribution or release of the operating system, and its kernel release.

use gpubuild_host::{InspectHost, Os};

use super::{Distro, Fact, trimmed};
use crate::finding::{Evidence, EvidenceKind};

const WINDOWS_KEY: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
/// The first build of Windows 11.
const FIRST_BUILD_OF_WINDOWS_11: u32 = 22_000;

pub(super) fn probe_distro(host: &dyn InspectHost) -> Option<Fact<Distro>> {
    match host.platform().os {
        Os::Linux => {
            let (path, text) = release_file(host)?;
            let distro = parse_os_release(&text)?;
            let evidence = Evidence::file(path, distro.label());
            Some(Fact { value: distro, found_via: "file".to_owned(), evidence: vec![evidence] })
        }
        Os::Windows => {
            let value = |name: &str| host.registry_value(WINDOWS_KEY, name).map(|value| value.text);
            let build = value("CurrentBuildNumber").or_else(|| value("CurrentBuild"))?;
            let distro = parse_windows(
                build.trim().parse().ok()?,
                value("ProductName").as_deref(),
                value("DisplayVersion").as_deref(),
            );
            let evidence = Evidence::new(
                EvidenceKind::Registry,
                format!(r"{WINDOWS_KEY}\CurrentBuildNumber"),
                build.trim(),
            );
            Some(Fact { value: distro, found_via: "registry".to_owned(), evidence: vec![evidence] })
        }
        Os::Macos => {
            let path = "/System/Library/CoreServices/SystemVersion.plist";
            let distro = parse_system_version(&host.read_text(&host.path(path)).ok()?)?;
            let evidence = Evidence::file(path, distro.version.clone());
            Some(Fact { value: distro, found_via: "file".to_owned(), evidence: vec![evidence] })
        }
    }
}

pub(super) fn probe_kernel(host: &dyn InspectHost) -> Option<Fact<String>> {
    match host.platform().os {
        Os::Linux => {
            let path = "/proc/sys/kernel/osrelease";
            let by_version = || {
                let path = "/proc/version";
                Some((path, parse_kernel(&trimmed(host, path)?)?))
            };
            let (path, release) = trimmed(host, path).map(|text| (path, text)).or_else(by_version)?;
            let evidence = vec![Evidence::file(path, release.clone())];
            Some(Fact { value: release, found_via: "procfs".to_owned(), evidence })
        }
        Os::Windows => {
            let value = |name: &str| host.registry_value(WINDOWS_KEY, name).map(|value| value.text);
            let build = value("CurrentBuildNumber").or_else(|| value("CurrentBuild"))?;
            let major = value("CurrentMajorVersionNumber").unwrap_or_else(|| "10".to_owned());
            let minor = value("CurrentMinorVersionNumber").unwrap_or_else(|| "0".to_owned());
            let release = format!("{major}.{minor}.{}", build.trim());
            let evidence = vec![Evidence::new(EvidenceKind::Registry, WINDOWS_KEY, release.clone())];
            Some(Fact { value: release, found_via: "registry".to_owned(), evidence })
        }
        Os::Macos => None,
    }
}

/// Parses the kernel release in `Linux version 6.1.0-30-amd64 (debian-kernel@lists.debian.org) (gcc-12 …`.
fn parse_kernel(text: &str) -> Option<String> {
    text.strip_prefix("Linux version ")?.split_whitespace().next().map(str::to_owned)
}

/// The path and text of the first `os-release` that has an `ID`.
pub(super) fn release_file(host: &dyn InspectHost) -> Option<(&'static str, String)> {
    ["/etc/os-release", "/usr/lib/os-release"].into_iter().find_map(|path| {
        let text = host.read_text(&host.path(path)).ok()?;
        release_value(&text, "ID").filter(|id| !id.is_empty())?;
        Some((path, text))
    })
}

/// A value of `os-release`, a file of shell assignments.
pub(super) fn release_value(text: &str, wanted: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.trim().split_once('=')?;
        (name == wanted).then(|| unquoted(value))
    })
}

/// Parses `os-release`. `None` if it has no `ID`.
fn parse_os_release(text: &str) -> Option<Distro> {
    let value = |wanted: &str| release_value(text, wanted);
    let id = value("ID").filter(|id| !id.is_empty())?.to_lowercase();
    let version = value("VERSION_ID").unwrap_or_default();
    let like = value("ID_LIKE").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let name = value("PRETTY_NAME").filter(|name| !name.is_empty()).unwrap_or_else(|| id.clone());
    Some(Distro { id, version, like, name })
}

fn unquoted(value: &str) -> String {
    let value = value.trim();
    let inner = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value);
    inner.replace("\\\"", "\"").replace("\\$", "$")
}

/// Determines the Windows release by build number, because `ProductName` is `Windows 10` on Windows 11 too.
fn parse_windows(build: u32, product: Option<&str>, display_version: Option<&str>) -> Distro {
    let number = if build >= FIRST_BUILD_OF_WINDOWS_11 { "11" } else { "10" };
    let product = product.unwrap_or("Windows").trim();
    let server_year = product
        .contains("Server")
        .then(|| {
            product
                .split_whitespace()
                .find(|word| word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit()))
        })
        .flatten();
    let (id, version, product) = match server_year {
        Some(year) => ("windows-server", year, product.to_owned()),
        None => ("windows", number, product.replace("Windows 10", &format!("Windows {number}"))),
    };
    let release = display_version.map(|version| format!(" {}", version.trim())).unwrap_or_default();
    Distro {
        id: id.to_owned(),
        version: version.to_owned(),
        like: Vec::new(),
        name: format!("{product}{release} (build {build})"),
    }
}

/// Parses `SystemVersion.plist` of macOS.
fn parse_system_version(text: &str) -> Option<Distro> {
    let value = |key: &str| {
        let after = text.split_once(&format!("<key>{key}</key>"))?.1;
        let inner = after.split_once("<string>")?.1.split_once("</string>")?.0;
        Some(inner.trim().to_owned())
    };
    let version = value("ProductVersion")?;
    let name = format!("{} {version}", value("ProductName").unwrap_or_else(|| "macOS".to_owned()));
    Some(Distro { id: "macos".to_owned(), version, like: Vec::new(), name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_files_of_distributions_are_parsed() {
        for (text, label, like) in [
            (
                "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
                "debian-12",
                "",
            ),
            ("NAME='Arch Linux'\nID=arch\nBUILD_ID=rolling\n", "arch", ""),
            (
                "ID=\"rocky\"\nVERSION_ID=\"9.4\"\nID_LIKE=\"rhel centos fedora\"\n",
                "rocky-9.4",
                "rhel centos fedora",
            ),
            ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\r\n", "ubuntu-24.04", "debian"),
            ("ID=nixos\nVERSION_ID=\"24.11\"\n# comment\nbroken line\n", "nixos-24.11", ""),
        ] {
            let distro = parse_os_release(text).expect(text);
            assert_eq!((distro.label().as_str(), distro.like.join(" ").as_str()), (label, like));
        }
        assert_eq!(parse_os_release("NAME=\"No id\"\n"), None);
        assert_eq!(parse_os_release(""), None);
    }

    #[test]
    fn the_kernel_release_is_parsed() {
        let text = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1) (gcc (GCC) 11.2.0)";
        assert_eq!(parse_kernel(text).as_deref(), Some("5.15.153.1-microsoft-standard-WSL2"));
        assert_eq!(parse_kernel("FreeBSD 14"), None);
    }

    #[test]
    fn windows_releases_are_named_by_build() {
        let label = |build, product| parse_windows(build, product, Some("23H2")).label();
        assert_eq!(label(22_631, Some("Windows 10 Pro")), "windows-11");
        assert_eq!(label(19_045, Some("Windows 10 Home")), "windows-10");
        assert_eq!(label(20_348, Some("Windows Server 2022 Standard")), "windows-server-2022");
        assert_eq!(
            parse_windows(22_631, Some("Windows 10 Pro"), Some("23H2")).name,
            "Windows 11 Pro 23H2 (build 22631)"
        );
    }

    #[test]
    fn the_macos_version_is_parsed() {
        let plist = "<plist><dict>\n\t<key>ProductName</key>\n\t<string>macOS</string>\n\t<key>ProductVersion</key>\n\t<string>15.1</string>\n</dict></plist>";
        assert_eq!(parse_system_version(plist).unwrap().label(), "macos-15.1");
        assert_eq!(parse_system_version("<plist>"), None);
    }
}
