//! The wheels on which a wheel depends for NVIDIA's libraries. Pure.

use std::collections::BTreeSet;

use gpubuild_core::version::Version;
use gpubuild_host::{Os, Platform};
use gpubuild_toolchain::venv::table::{WheelRelease, WheelRow, WheelTable};

/// A library that a wheel of NVIDIA contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorLibrary<'a> {
    /// The name with which it is loaded: `libcudart.so.12`.
    pub name: &'a str,
    /// The version of the linked library, if it is known.
    pub version: Option<Version>,
}

/// The requirements of a wheel on those of NVIDIA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VendorWheels {
    /// Lines for `Requires-Dist`, sorted: `nvidia-cublas-cu12>=12.4,<13`.
    pub requires: Vec<String>,
    /// The folders of the libraries in `site-packages`.
    pub folders: Vec<String>,
}

/// The release of CUDA whose wheels contain a library: the oldest one that is not older than the one of the build.
fn release_of<'t>(
    table: &'t WheelTable,
    os: Os,
    name: &str,
    built: Option<&Version>,
) -> Option<&'t WheelRelease> {
    let with = || table.releases.iter().filter(|release| release.wheel_of(os, name).is_some());
    built.and_then(|built| with().find(|release| release.cuda >= *built)).or_else(|| with().next_back())
}

/// Whether a wheel of NVIDIA contains a library.
#[must_use]
pub fn is_known(table: &WheelTable, os: Os, name: &str) -> bool {
    release_of(table, os, name, None).is_some()
}

/// The wheels that contain these libraries, and those that they need. `built` is the CUDA release of the build.
#[must_use]
pub fn wheels(
    table: &WheelTable,
    platform: Platform,
    libraries: &[VendorLibrary<'_>],
    built: Option<&Version>,
) -> VendorWheels {
    let os = platform.os;
    let (mut requires, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for library in libraries {
        let Some(release) = release_of(table, os, library.name, built) else { continue };
        let Some(wheel) = release.wheel_of(os, library.name) else { continue };
        for row in release.with_needs(&BTreeSet::from([wheel.package.as_str()])) {
            folders.extend(row.folder(platform));
            let own = libraries.iter().find(|other| row.libraries(os).iter().any(|name| name == other.name));
            requires.insert(requirement(row, own.and_then(|own| own.version.as_ref())));
        }
    }
    VendorWheels { requires: requires.into_iter().collect(), folders: folders.into_iter().collect() }
}

/// A requirement that every later release of the same major version meets, which has the same library names.
fn requirement(row: &WheelRow, linked: Option<&Version>) -> String {
    let known: Option<Version> = row.version.parse().ok();
    let major = linked.or(known.as_ref()).map_or(0, Version::major);
    match linked {
        Some(linked) => format!("{}>={}.{},<{}", row.package, linked.major(), linked.minor(), major + 1),
        None => format!("{}>={major},<{}", row.package, major + 1),
    }
}

/// The version in the name of the file that a library's name refers to: `12.4.127` for `libcudart.so.12.4.127`.
#[must_use]
pub fn version_in_name(file: &str) -> Option<Version> {
    let (_, version) = file.split_once(".so.")?;
    version.contains('.').then(|| version.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::Arch;

    const LINUX: Platform = Platform { os: Os::Linux, arch: Arch::X86_64 };

    fn version(text: &str) -> Option<Version> {
        text.parse().ok()
    }

    #[test]
    fn linked_libraries_set_the_oldest_accepted_wheel() {
        let cudart =
            VendorLibrary { name: "libcudart.so.12", version: version_in_name("libcudart.so.12.4.127") };
        let cublas = VendorLibrary { name: "libcublas.so.12", version: None };
        let found = wheels(WheelTable::embedded(), LINUX, &[cudart, cublas], version("12.4").as_ref());
        assert_eq!(
            found.requires,
            [
                "nvidia-cublas-cu12>=12,<13",
                "nvidia-cuda-nvrtc-cu12>=12,<13",
                "nvidia-cuda-runtime-cu12>=12.4,<13"
            ]
        );
        assert_eq!(found.folders, ["nvidia/cublas/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cuda_runtime/lib"]);
    }

    #[test]
    fn wheels_of_cuda_13_share_a_folder() {
        let cudart = VendorLibrary { name: "libcudart.so.13", version: version("13.0.96") };
        let found = wheels(WheelTable::embedded(), LINUX, &[cudart], version("13.0").as_ref());
        assert_eq!(found.requires, ["nvidia-cuda-runtime>=13.0,<14"]);
        assert_eq!(found.folders, ["nvidia/cu13/lib"]);
    }

    #[test]
    fn other_libraries_are_in_no_wheel() {
        assert!(is_known(WheelTable::embedded(), Os::Linux, "libcufft.so.11"));
        assert!(!is_known(WheelTable::embedded(), Os::Linux, "libgomp.so.1"));
        assert_eq!(version_in_name("libcudart.so.12"), None);
    }
}
