//! Compatibility rules: pure answers from a description's tables and from the limits of an installed copy.

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_host::{Os, Platform};

use super::Installation;
use super::description::{
    ArchRow, CmakeEntry, CompilerRow, Description, DeviceRow, KernelRow, LastRow, LibcRow, StandInRow,
    SupportRow,
};

/// The versions of a host compiler that a toolkit supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionWindow {
    /// The oldest supported version, if there is a limit.
    pub min: Option<u64>,
    /// The newest supported version, if there is a limit: a major version, for MSVC a value of `_MSC_VER`.
    pub max: Option<u64>,
    /// The file with the limit, or the source of the table's row.
    pub source: String,
}

impl VersionWindow {
    /// The window as text, with the limit that a compiler outside of it violates: `up to 13`, or `6 to 11`.
    #[must_use]
    pub fn words(&self, found: Option<u64>) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) if found.is_some_and(|found| found < min) => format!("{min} to {max}"),
            (_, Some(max)) => format!("up to {max}"),
            (Some(min), None) => format!("{min} and newer"),
            (None, None) => "any version".to_owned(),
        }
    }

    /// Whether a compiler's version is supported; an unknown version is.
    #[must_use]
    pub fn holds(&self, version: Option<&Version>, compiler: &str) -> bool {
        version.is_none_or(|version| self.takes(window_number(version, compiler)))
    }

    /// Whether a number from [`window_number`] is inside.
    #[must_use]
    pub fn takes(&self, number: u64) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }
}

/// The number that windows use: the major version, for MSVC `_MSC_VER` (toolset 14.41 is 1941).
#[must_use]
pub fn window_number(version: &Version, compiler: &str) -> u64 {
    if compiler == "msvc" && version.major() == 14 { 1900 + version.minor() } else { version.major() }
}

impl Description {
    /// The CMake cache entries for this copy on this platform. An entry with a missing part is omitted.
    #[must_use]
    pub fn cmake_entries(&self, copy: &Installation, platform: Platform) -> BTreeMap<String, String> {
        let fill = |template: &str| {
            let mut value = template.replace("{root}", &copy.root.forward_slashes());
            while let Some(open) = value.find('{') {
                let close = open + value[open..].find('}')?;
                let part = copy.part(&value[open + 1..close])?.forward_slashes();
                value.replace_range(open..=close, &part);
            }
            Some(value)
        };
        let value = |entry: &CmakeEntry| match entry {
            CmakeEntry::Everywhere(value) => Some(value.clone()),
            CmakeEntry::Some(one) => {
                let here = super::description::is_on(&one.on, platform.os)
                    && one.arch.is_none_or(|arch| arch == platform.arch);
                here.then(|| one.path.clone())
            }
        };
        self.cmake.iter().filter_map(|(name, entry)| Some((name.clone(), fill(&value(entry)?)?))).collect()
    }

    /// The device architectures of a release. `None` for releases before the table; for a newer release, the newest row
    /// is used.
    #[must_use]
    pub fn archs(&self, release: &Version) -> Option<&ArchRow> {
        self.compatibility.arch.iter().rfind(|row| row.since <= *release)
    }

    /// The versions of a host compiler that a copy supports: from the copy, or else from the table.
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

    /// The same for a release, only from the table.
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

    /// The oldest driver for programs that are built with a release.
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

    /// The first release that supports a version of the PTX language; every known version is older than an unknown newer one.
    #[must_use]
    pub fn release_of_ptx(&self, language: &Version) -> Option<Version> {
        let rows = &self.compatibility.ptx;
        let known = rows.iter().find(|row| row.version >= *language).map(|row| row.toolkit.clone());
        // Since 7.0, the language's version is the toolkit's minus four.
        known.or_else(|| format!("{}.{}", language.major() + 4, language.minor()).parse().ok())
    }

    /// The row about a conflict of a copy with a C library.
    #[must_use]
    pub fn libc_conflict(&self, copy: &Installation, family: &str, version: &Version) -> Option<&LibcRow> {
        let release = copy.version()?;
        let row = self.libc_row(release, family, version)?;
        let mended = row.unless.as_ref().is_some_and(|id| copy.mended.contains(id));
        (!mended).then_some(row)
    }

    /// The row about a conflict of a release with a C library: the one with the newest library version that applies.
    #[must_use]
    pub fn libc_row(&self, release: &Version, family: &str, version: &Version) -> Option<&LibcRow> {
        let rows = self.compatibility.libc.iter();
        rows.filter(|row| row.family == family && *version >= row.since && *release < row.fixed)
            .max_by(|left, right| left.since.cmp(&right.since))
    }

    /// The device architectures that a copy builds for: from its compiler, or else from the table.
    #[must_use]
    pub fn archs_of<'a>(&'a self, copy: &'a Installation) -> Option<&'a [String]> {
        if !copy.compiler_archs.is_empty() {
            return Some(&copy.compiler_archs);
        }
        Some(&self.archs(copy.version()?)?.archs)
    }

    /// The row about a driver that does not support a device.
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
                && row.flavour.as_deref().is_none_or(|wanted| flavour == Some(wanted))
        })
    }

    /// The architecture that a GPU can be overridden with, if the table has one.
    #[must_use]
    pub fn stand_in(&self, arch: &str) -> Option<&StandInRow> {
        self.compatibility.stand_in.iter().find(|row| row.arch == arch)
    }

    /// What a kernel driver supports. `None` for drivers before the table.
    #[must_use]
    pub fn kernel(&self, driver: &Version) -> Option<&KernelRow> {
        self.compatibility.kernel.iter().rfind(|row| row.driver <= *driver)
    }

    /// The architectures that the vendor supports in a release, on an operating system.
    #[must_use]
    pub fn support(&self, release: &Version, os: Os) -> Option<&SupportRow> {
        self.compatibility.support.iter().rfind(|row| row.on == os && row.since <= *release)
    }

    /// The last release in which the vendor supported an architecture, if support has ended.
    #[must_use]
    pub fn last(&self, arch: &str) -> Option<&LastRow> {
        self.compatibility.last.iter().find(|row| row.arch == arch)
    }

    /// The architecture of a GPU by its name, if the table has it.
    #[must_use]
    pub fn arch_of_name(&self, name: &str) -> Option<&str> {
        let row = self.compatibility.names.iter().find(|row| row.has.iter().any(|text| names(text, name)))?;
        Some(&row.arch)
    }
}

/// `sm_90`, `90`, `90a` and `gfx90a` as numbers that compare within a family; the last two digits of a gfx name are
/// hexadecimal.
fn arch_number(arch: &str) -> Option<u64> {
    if let Some(gfx) = arch.strip_prefix("gfx") {
        let split = gfx.len().checked_sub(2)?;
        let (major, rest) = gfx.split_at_checked(split)?;
        return Some(major.parse::<u64>().ok()? * 256 + u64::from_str_radix(rest, 16).ok()?);
    }
    arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()
}

/// Whether a name contains a text as complete words; after a text that ends in `*`, anything may follow.
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
        for (release, floor) in
            [("11.0", "450.36.06"), ("11.8", "450.80.02"), ("12.4.1", "525.60.13"), ("13.4", "580")]
        {
            assert_eq!(cuda.driver_floor(&version(release), Os::Linux).unwrap().as_str(), floor, "{release}");
        }
        assert!(cuda.driver_floor(&version("9.0"), Os::Linux).is_none());
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
    fn devices_that_a_driver_dropped_are_reported() {
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
    fn an_msvc_toolset_is_compared_as_msc_ver() {
        assert_eq!(window_number(&version("14.41.34120"), "msvc"), 1941);
        let window = VersionWindow { min: Some(1910), max: Some(1939), source: String::new() };
        assert!(!window.holds(Some(&version("14.41")), "msvc"));
        assert!(window.holds(Some(&version("14.39")), "msvc"));
    }
}
