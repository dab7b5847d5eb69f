//! Compatibility rules: look up a description's tables and the limits of an installed copy.

use std::collections::BTreeMap;

use gpubuild_core::template;
use gpubuild_core::version::Version;
use gpubuild_host::{Os, Platform};

use super::Installation;
use super::description::{
    ArchRow, CompilerRow, Description, DeviceRow, KernelRow, LastRow, LibcRow, StandInRow, SupportRow,
};

/// The versions of a host compiler that a toolkit supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionWindow {
    /// The oldest supported version, if there is a limit.
    pub min: Option<u64>,
    /// The newest supported version, if there is a limit. A major version; for MSVC a value of `_MSC_VER`.
    pub max: Option<u64>,
    /// The file that contains the limit, or the source of the table row.
    pub source: String,
}

impl VersionWindow {
    /// The window as text: `up to 13`. The lower limit is only included if `found` is below it: `6 to 11`.
    #[must_use]
    pub fn describe(&self, found: Option<u64>) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) if found.is_some_and(|found| found < min) => format!("{min} to {max}"),
            (_, Some(max)) => format!("up to {max}"),
            (Some(min), None) => format!("{min} and newer"),
            (None, None) => "any version".to_owned(),
        }
    }

    /// Whether a compiler's version is supported. True if the version is unknown.
    #[must_use]
    pub fn supports(&self, version: Option<&Version>, compiler: &str) -> bool {
        version.is_none_or(|version| self.contains(window_number(version, compiler)))
    }

    /// Whether a number from [`window_number`] is in the window.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }
}

/// The number of a compiler version in a [`VersionWindow`]: the major version, or for MSVC `_MSC_VER` (toolset 14.41 is 1941).
#[must_use]
pub fn window_number(version: &Version, compiler: &str) -> u64 {
    if compiler == "msvc" && version.major() == 14 { 1900 + version.minor() } else { version.major() }
}

impl Description {
    /// Whether its compilers can build for a target, with libraries of the target.
    #[must_use]
    pub fn builds_for(&self, triple: &str) -> bool {
        self.cross.as_ref().is_some_and(|cross| cross.targets.iter().any(|target| target == triple))
    }

    /// The CMake cache entries for a copy on a platform. Entries that refer to a missing part are omitted.
    #[must_use]
    pub fn cmake_entries(&self, copy: &Installation, platform: Platform) -> BTreeMap<String, String> {
        let part = |name: &str| match name {
            "root" => Some(copy.root.forward_slashes()),
            part => Some(copy.part(part)?.forward_slashes()),
        };
        let own = self.cmake_own.iter().filter(|_| copy.is_own());
        self.cmake
            .iter()
            .chain(own)
            .filter_map(|(name, entry)| Some((name.clone(), template::fill(entry.on(platform)?, part)?)))
            .collect()
    }

    /// The device architectures of a release. `None` for releases older than the table. The newest row is used for newer releases.
    #[must_use]
    pub fn archs(&self, release: &Version) -> Option<&ArchRow> {
        self.compatibility.arch.iter().rfind(|row| row.since <= *release)
    }

    /// The first and the last row of the table whose releases build for an architecture. `None` if the table does not contain it.
    #[must_use]
    pub fn releases_for(&self, arch: &str) -> Option<(&Version, &Version)> {
        let number = arch_number(arch)?;
        let is_one = |row: &&ArchRow| row.archs.iter().any(|arch| arch_number(arch) == Some(number));
        let rows = &self.compatibility.arch;
        Some((&rows.iter().find(is_one)?.since, &rows.iter().rfind(is_one)?.since))
    }

    /// The host compiler versions that a copy supports: from the copy itself, otherwise from the table.
    #[must_use]
    pub fn host_compiler_window(&self, copy: &Installation, compiler: &str) -> Option<VersionWindow> {
        let own = |suffix: &str| copy.limits.get(&format!("{compiler}-{suffix}"));
        let max = own("max").map(|fact| fact.value.major());
        let below = own("below").map(|fact| fact.value.major().saturating_sub(1));
        let min = own("min").map(|fact| fact.value.major());
        if let Some(max) = max.or(below) {
            let evidence = own("max").or_else(|| own("below")).and_then(|fact| fact.evidence.first());
            let source = evidence.map(|evidence| evidence.place.clone()).unwrap_or_default();
            return Some(VersionWindow { min, max: Some(max), source });
        }
        self.compiler_row(copy.version()?, compiler)
    }

    /// The host compiler versions that a release supports, from the table.
    #[must_use]
    pub fn compiler_row(&self, release: &Version, compiler: &str) -> Option<VersionWindow> {
        let rows: Vec<&CompilerRow> =
            self.compatibility.host_compiler.iter().filter(|row| row.compiler == compiler).collect();
        let row = rows.iter().rfind(|row| row.since <= *release)?;
        let below = row.below.as_ref().map(|version| version.major().saturating_sub(1));
        Some(VersionWindow {
            min: row.min.as_ref().map(Version::major),
            max: row.max.as_ref().map(Version::major).or(below),
            source: row.source.clone(),
        })
    }

    /// The oldest driver that supports programs built with a release.
    #[must_use]
    pub fn driver_floor(&self, release: &Version, os: Os) -> Option<&Version> {
        self.compatibility.driver.iter().rfind(|row| row.since <= *release)?.min.get(&os)
    }

    /// The newest release whose PTX a driver can compile.
    #[must_use]
    pub fn newest_for_driver(&self, driver: &Version) -> Option<&Version> {
        let row = self.compatibility.branch.iter().rfind(|row| row.driver <= *driver)?;
        Some(&row.toolkit)
    }

    /// The first release that supports a version of the PTX language. For versions newer than the table, it is extrapolated.
    #[must_use]
    pub fn release_of_ptx(&self, language: &Version) -> Option<Version> {
        let rows = &self.compatibility.ptx;
        let known = rows.iter().find(|row| row.version >= *language).map(|row| row.toolkit.clone());
        // Since PTX 7.0, the major version is that of the toolkit minus four.
        known.or_else(|| format!("{}.{}", language.major() + 4, language.minor()).parse().ok())
    }

    /// The table row if a copy is incompatible with a C library.
    #[must_use]
    pub fn libc_conflict(&self, copy: &Installation, family: &str, version: &Version) -> Option<&LibcRow> {
        let release = copy.version()?;
        let row = self.libc_row(release, family, version)?;
        let is_fixed = row.unless.as_ref().is_some_and(|id| copy.mended.contains(id));
        (!is_fixed).then_some(row)
    }

    /// The table row if a release is incompatible with a C library. If several apply, the one with the newest library version.
    #[must_use]
    pub fn libc_row(&self, release: &Version, family: &str, version: &Version) -> Option<&LibcRow> {
        let rows = self.compatibility.libc.iter();
        rows.filter(|row| row.family == family && *version >= row.since && *release < row.fixed)
            .max_by(|left, right| left.since.cmp(&right.since))
    }

    /// The device architectures that a copy can build for: from its compiler, otherwise from the table.
    #[must_use]
    pub fn archs_of<'a>(&'a self, copy: &'a Installation) -> Option<&'a [String]> {
        if !copy.compiler_archs.is_empty() {
            return Some(&copy.compiler_archs);
        }
        Some(&self.archs(copy.version()?)?.archs)
    }

    /// The table row if a driver does not support a device architecture.
    #[must_use]
    pub fn device_conflict(
        &self,
        arch: &str,
        driver: Option<&Version>,
        flavour: Option<&str>,
    ) -> Option<&DeviceRow> {
        let number = arch_number(arch)?;
        self.compatibility.device.iter().find(|row| {
            row.from.as_deref().and_then(arch_number).is_none_or(|from| number >= from)
                && row.to.as_deref().and_then(arch_number).is_none_or(|to| number <= to)
                && row.driver.as_ref().is_none_or(|since| driver.is_some_and(|driver| driver >= since))
                && row.first.as_ref().is_none_or(|first| driver.is_some_and(|driver| driver < first))
                && row.flavour.as_deref().is_none_or(|wanted| flavour == Some(wanted))
        })
    }

    /// The table row with an architecture that can be used instead of a GPU's own.
    #[must_use]
    pub fn stand_in(&self, arch: &str) -> Option<&StandInRow> {
        self.compatibility.stand_in.iter().find(|row| row.arch == arch)
    }

    /// The releases that a kernel driver supports. `None` for drivers older than the table.
    #[must_use]
    pub fn kernel(&self, driver: &Version) -> Option<&KernelRow> {
        self.compatibility.kernel.iter().rfind(|row| row.driver <= *driver)
    }

    /// The architectures that the vendor supports in a release on an operating system.
    #[must_use]
    pub fn support(&self, release: &Version, os: Os) -> Option<&SupportRow> {
        self.compatibility.support.iter().rfind(|row| row.on == os && row.since <= *release)
    }

    /// The last release in which the vendor supports an architecture, if support has ended.
    #[must_use]
    pub fn last(&self, arch: &str) -> Option<&LastRow> {
        self.compatibility.last.iter().find(|row| row.arch == arch)
    }

    /// The architecture of a GPU by its name, if the table contains it.
    #[must_use]
    pub fn arch_of_name(&self, name: &str) -> Option<&str> {
        let row = self.compatibility.names.iter().find(|row| row.has.iter().any(|text| names(text, name)))?;
        Some(&row.arch)
    }
}

/// Converts `sm_90`, `90`, `90a` or `gfx90a` to a number for comparison within a family. The last two digits of a gfx name are
/// hexadecimal.
fn arch_number(arch: &str) -> Option<u64> {
    if let Some(gfx) = arch.strip_prefix("gfx") {
        let split = gfx.len().checked_sub(2)?;
        let (major, rest) = gfx.split_at_checked(split)?;
        return Some(major.parse::<u64>().ok()? * 256 + u64::from_str_radix(rest, 16).ok()?);
    }
    arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// Whether a name contains a text as complete words. If the text ends in `*`, the last word can be longer.
fn names(text: &str, name: &str) -> bool {
    let (text, open) = text.strip_suffix('*').map_or((text, false), |text| (text, true));
    name.match_indices(text).any(|(start, _)| {
        let before = name[..start].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let after = name[start + text.len()..].chars().next().is_none_or(|c| !c.is_alphanumeric());
        before && (open || after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolkit::Catalogue;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn drivers_are_compared_by_release_line() {
        let catalogue = Catalogue::embedded();
        let cuda = catalogue.get("cuda").unwrap();
        for (release, floor) in [
            ("9.0.176", "384.81"),
            ("10.2.89", "440.33"),
            ("11.0", "450.36.06"),
            ("11.8", "450.80.02"),
            ("12.4.1", "525.60.13"),
            ("13.4", "580"),
        ] {
            assert_eq!(cuda.driver_floor(&version(release), Os::Linux).unwrap().as_str(), floor, "{release}");
        }
        assert!(cuda.driver_floor(&version("7.5"), Os::Linux).is_none());
        assert_eq!(cuda.newest_for_driver(&version("550.144.03")).unwrap().as_str(), "12.4");
        assert_eq!(cuda.newest_for_driver(&version("999.1")).unwrap().as_str(), "13.3");
    }

    #[test]
    fn gpu_names_match_complete_words() {
        let catalogue = Catalogue::embedded();
        let cuda = catalogue.get("cuda").unwrap();
        for (name, arch) in [
            ("NVIDIA H200", Some("sm_90")),
            ("NVIDIA A100-SXM4-80GB", Some("sm_80")),
            ("NVIDIA A10", Some("sm_86")),
            ("NVIDIA GeForce RTX 4070 Laptop GPU", Some("sm_89")),
            ("NVIDIA GeForce GTX 1080 Ti", Some("sm_61")),
            ("Quadro P2000", Some("sm_61")),
            ("NVIDIA GPU 10de:2335", None),
        ] {
            assert_eq!(cuda.arch_of_name(name), arch, "{name}");
        }
    }

    #[test]
    fn devices_without_driver_support_are_reported() {
        let catalogue = Catalogue::embedded();
        let cuda = catalogue.get("cuda").unwrap();
        let conflict = |arch, driver, flavour| {
            cuda.device_conflict(arch, Some(&version(driver)), flavour).map(|row| row.id.as_str())
        };
        assert_eq!(conflict("sm_61", "590.48.01", None), Some("nv.driver.branch-dropped"));
        assert_eq!(conflict("sm_61", "580.65.06", None), None);
        assert_eq!(conflict("sm_120", "580.65.06", Some("proprietary")), Some("nv.driver.open-required"));
        assert_eq!(conflict("sm_120", "580.65.06", Some("open")), None);
        let rocm = catalogue.get("rocm").unwrap();
        assert_eq!(
            rocm.device_conflict("gfx803", None, None).map(|row| row.id.as_str()),
            Some("rocm.gfx803")
        );
        assert!(rocm.device_conflict("gfx90a", None, None).is_none());
        assert!(rocm.device_conflict("gfx1100", None, None).is_none());
    }

    #[test]
    fn an_msvc_toolset_is_compared_by_msc_ver() {
        assert_eq!(window_number(&version("14.41.34120"), "msvc"), 1941);
        let window = VersionWindow { min: Some(1910), max: Some(1939), source: String::new() };
        assert!(!window.supports(Some(&version("14.41")), "msvc"));
        assert!(window.supports(Some(&version("14.39")), "msvc"));
    }
}
