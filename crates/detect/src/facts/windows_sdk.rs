//! The Windows SDK, without whose headers and libraries Microsoft's compiler builds no program.

use gpubuild_core::version::Version;
use gpubuild_host::{Arch, HostPath, InspectHost, Os};

use super::Fact;
use crate::finding::{Evidence, EvidenceKind};

/// Where its installer records the folder.
const RECORDS: [(&str, &str); 3] = [
    (r"HKLM\SOFTWARE\Microsoft\Microsoft SDKs\Windows\v10.0", "InstallationFolder"),
    (r"HKLM\SOFTWARE\WOW6432Node\Microsoft\Microsoft SDKs\Windows\v10.0", "InstallationFolder"),
    (r"HKLM\SOFTWARE\Microsoft\Windows Kits\Installed Roots", "KitsRoot10"),
];

/// A release of the Windows SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowsSdk {
    /// Its folder, with the subfolders `Include` and `Lib`.
    pub root: HostPath,
    /// Its release, a subfolder of those: `10.0.22621.0`.
    pub version: String,
    /// The folder of its programs, such as the resource compiler.
    pub programs: Option<HostPath>,
}

/// The newest complete release.
pub(super) fn probe(host: &dyn InspectHost) -> Option<Fact<WindowsSdk>> {
    if host.platform().os != Os::Windows {
        return None;
    }
    RECORDS.iter().find_map(|(key, name)| {
        let value = host.registry_value(key, name)?.text;
        let found = newest(host, &host.path(value.trim_end_matches('\\')))?;
        let evidence = vec![Evidence::new(EvidenceKind::Registry, format!("{key}\\{name}"), value)];
        Some(Fact { value: found, found_via: "registry".to_owned(), evidence })
    })
}

fn newest(host: &dyn InspectHost, root: &HostPath) -> Option<WindowsSdk> {
    let arch = folder_of(host.platform().arch);
    // A release can have the C runtime only.
    let is_complete =
        |version: &String| host.is_file(&root.join(&format!("Lib/{version}/um/{arch}/kernel32.lib")));
    let names = host.list(&root.join("Lib")).ok()?;
    let releases =
        names.into_iter().filter(is_complete).filter_map(|name| Some((name.parse::<Version>().ok()?, name)));
    let (_, version) = releases.max()?;
    let programs = root.join(&format!("bin/{version}/{arch}"));
    let programs = host.is_file(&programs.join("rc.exe")).then_some(programs);
    Some(WindowsSdk { root: root.clone(), version, programs })
}

/// Microsoft's name of an architecture in folders.
#[must_use]
pub fn folder_of(arch: Arch) -> &'static str {
    if arch == Arch::Aarch64 { "arm64" } else { "x64" }
}
