//! Platform tags of wheels (PEP 425, 600, 656). Pure.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Libc;
use gpubuild_host::{Arch, Os, Platform};
use gpubuild_object::ObjectFile;
use gpubuild_toolkits::tables;
use serde::Deserialize;

/// The schema of the table.
const SCHEMA: u32 = 1;
/// The oldest macOS on ARM processors.
const FIRST_ARM_MACOS: (u64, u64) = (11, 0);

/// `toolkits/tables/manylinux.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    schema: u32,
    /// The tags, those for the oldest systems first.
    #[serde(rename = "policy")]
    policies: Vec<Policy>,
}

/// A tag and the symbol versions that it allows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    glibc: Version,
    /// The name of the tag before PEP 600.
    alias: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    x86_64: Option<Newest>,
    aarch64: Option<Newest>,
}

impl Policy {
    fn newest(&self, arch: Arch) -> Option<&Newest> {
        match arch {
            Arch::X86_64 => self.x86_64.as_ref(),
            Arch::Aarch64 => self.aarch64.as_ref(),
        }
    }
}

/// The newest versions of the compiler's libraries.
#[derive(Debug, Deserialize)]
struct Newest {
    glibcxx: Version,
    cxxabi: Version,
    gcc: Version,
}

impl PolicyTable {
    fn embedded() -> &'static Self {
        static TABLE: OnceLock<PolicyTable> = OnceLock::new();
        TABLE.get_or_init(|| {
            let table: PolicyTable = gpubuild_toml::from_static(tables::MANYLINUX)
                .unwrap_or_else(|error| panic!("toolkits/tables/manylinux.toml is tested: {error}"));
            assert_eq!(table.schema, SCHEMA, "toolkits/tables/manylinux.toml is tested");
            table
        })
    }
}

/// The platform tags of a wheel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlatformTags {
    /// The tags, sorted; the older name of a tag is beside it.
    pub tags: Vec<String>,
    /// Why the tag does not promise that the wheel works on other systems.
    pub untagged: Option<String>,
}

impl PlatformTags {
    fn of(tag: String) -> Self {
        Self { tags: vec![tag], untagged: None }
    }
}

/// The platform tags of a wheel with these files. `libc` is that of the build machine.
#[must_use]
pub fn platform(platform: Platform, files: &[ObjectFile], libc: Option<&Libc>) -> PlatformTags {
    let arch = platform.arch.id();
    match (platform.os, platform.arch) {
        (Os::Windows, Arch::X86_64) => PlatformTags::of("win_amd64".to_owned()),
        (Os::Windows, Arch::Aarch64) => PlatformTags::of("win_arm64".to_owned()),
        (Os::Macos, arch) => macos(arch, files),
        (Os::Linux, _) if libc.is_some_and(|libc| libc.family == "musl") => musl(arch, libc),
        (Os::Linux, _) => glibc(platform.arch, files),
    }
}

fn macos(arch: Arch, files: &[ObjectFile]) -> PlatformTags {
    let systems = files.iter().filter_map(|file| file.system.as_ref());
    let newest = systems.map(|system| (system.major(), system.minor())).max();
    let (arch, oldest) = match arch {
        Arch::Aarch64 => ("arm64", FIRST_ARM_MACOS),
        Arch::X86_64 => ("x86_64", (10, 9)),
    };
    let (major, minor) = newest.unwrap_or(oldest).max(oldest);
    // Since macOS 11, the tag has the major version only.
    let minor = if major > 10 { 0 } else { minor };
    PlatformTags::of(format!("macosx_{major}_{minor}_{arch}"))
}

fn musl(arch: &str, libc: Option<&Libc>) -> PlatformTags {
    match libc.and_then(|libc| libc.version.as_ref()) {
        Some(version) => {
            PlatformTags::of(format!("musllinux_{}_{}_{arch}", version.major(), version.minor()))
        }
        None => untagged(arch, "the version of musl is unknown".to_owned()),
    }
}

fn untagged(arch: &str, why: String) -> PlatformTags {
    PlatformTags { tags: vec![format!("linux_{arch}")], untagged: Some(why) }
}

/// The versions that a wheel needs.
#[derive(Debug, Default)]
struct NeededVersions<'a> {
    /// The newest numbered version by kind: `GLIBC`, `GLIBCXX`, `CXXABI`, `GCC`.
    newest: BTreeMap<&'a str, Version>,
    /// Versions without a number: `CXXABI_FLOAT128`.
    named: Vec<&'a str>,
}

impl<'a> NeededVersions<'a> {
    fn of(files: &'a [ObjectFile]) -> Self {
        let mut all = Self::default();
        for text in files.iter().flat_map(|file| &file.needed).flat_map(|needed| &needed.versions) {
            let Some((kind, number)) = text.split_once('_') else { continue };
            if !["GLIBC", "GLIBCXX", "CXXABI", "GCC"].contains(&kind) {
                continue;
            }
            match number.parse::<Version>() {
                Err(_) => all.named.push(text),
                Ok(version) if all.newest.get(kind).is_none_or(|known| *known < version) => {
                    all.newest.insert(kind, version);
                }
                Ok(_) => {}
            }
        }
        all
    }

    /// The first version that a tag does not allow, except that of the C library.
    fn above(&self, newest: &Newest, named: &[&String]) -> Option<String> {
        let limits = [("GLIBCXX", &newest.glibcxx), ("CXXABI", &newest.cxxabi), ("GCC", &newest.gcc)];
        let number = limits.iter().find_map(|(kind, limit)| {
            self.newest.get(kind).filter(|needed| *needed > *limit).map(|needed| format!("{kind}_{needed}"))
        });
        let is_unknown = |name: &&&str| !named.iter().any(|known| known.as_str() == **name);
        number.or_else(|| self.named.iter().find(is_unknown).map(|name| (*name).to_owned()))
    }
}

/// The oldest `manylinux` tag that allows all needed versions.
fn glibc(processor: Arch, files: &[ObjectFile]) -> PlatformTags {
    let arch = processor.id();
    let needed = NeededVersions::of(files);
    let libc = needed.newest.get("GLIBC");
    let policies = &PolicyTable::embedded().policies;
    let mut named = Vec::new();
    let mut above = None;
    for policy in policies {
        named.extend(&policy.names);
        let Some(newest) = policy.newest(processor) else { continue };
        above = needed.above(newest, &named);
        if above.is_some() || libc.is_some_and(|libc| *libc > policy.glibc) {
            continue;
        }
        let mut tags = vec![manylinux(&policy.glibc, arch)];
        tags.extend(policy.alias.as_ref().map(|alias| format!("{alias}_{arch}")));
        tags.sort_indirect();
        return PlatformTags { tags, untagged: None };
    }
    match (above, libc) {
        (Some(symbol), _) => {
            untagged(arch, format!("no tag is known that allows the symbol version `{symbol}`"))
        }
        // A tag exists for every release of glibc.
        (None, Some(libc)) => PlatformTags::of(manylinux(libc, arch)),
        (None, None) => untagged(arch, format!("no tag is known for {arch}")),
    }
}

fn manylinux(glibc: &Version, arch: &str) -> String {
    format!("manylinux_{}_{}_{arch}", glibc.major(), glibc.minor())
}

#[cfg(test)]
#[path = "tag_tests.rs"]
mod tests;
