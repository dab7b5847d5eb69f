//! Other projects whose libraries go into the same program, and whether their interfaces are the same.

use std::collections::BTreeMap;

use gpubuild_host::{HostPath, ReadFiles};
use serde::{Deserialize, Serialize};

use super::abi::{default_of, version};
use super::profile::{Abi, VersionPlace};

/// What to do with symbols that two projects define.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SameSymbols {
    /// Refuse to build the program.
    #[default]
    Refuse,
    /// Put a prefix before those of the other project.
    Prefix,
    /// Keep those of the other project inside a shared library.
    Dynamic,
    /// Build this project on the other's library in place of its own copy.
    Shared,
}

impl SameSymbols {
    /// The word in gpubuild.toml.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Prefix => "prefix",
            Self::Dynamic => "dynamic",
            Self::Shared => "shared",
        }
    }
}

/// Another project whose libraries go into the same program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct With {
    /// Its name.
    pub name: String,
    /// Folder of its gpubuild.toml.
    pub folder: HostPath,
    /// What it built.
    pub manifest: HostPath,
    /// What to do with symbols that both define.
    pub same_symbols: SameSymbols,
    /// The library of the other project that this one uses, where gpubuild.toml names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// How the library that both contain differs, where both contain one.
    pub differences: Vec<InterfaceDifference>,
}

/// A constant or a version that two copies of a library do not have in common, as `GGML_MAX_NAME is 64 and 128`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceDifference {
    /// What.
    pub name: String,
    /// Here.
    pub ours: String,
    /// There.
    pub theirs: String,
}

impl std::fmt::Display for InterfaceDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {} and {}", self.name, self.ours, self.theirs)
    }
}

impl Serialize for InterfaceDifference {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The name under which an interface has the version.
pub const VERSION: &str = "version";

/// What a project's sources say about the library in it: version and the constants that its structures depend on.
pub type InterfaceValues = BTreeMap<String, String>;

/// Reads it; empty where the profile names no such library or the sources have none.
#[must_use]
pub fn interface(host: &dyn ReadFiles, source: &HostPath, abi: Option<&Abi>) -> InterfaceValues {
    let Some(abi) = abi else { return InterfaceValues::new() };
    let mut found = InterfaceValues::new();
    for header in abi.headers.iter().filter_map(|name| host.read_text(&source.join(name)).ok()) {
        for name in &abi.defines {
            if let Some(value) = default_of(&header, name) {
                found.entry(name.clone()).or_insert(value);
            }
        }
    }
    // A project's own definition wins over the header's: `add_definitions(-DGGML_MAX_NAME=128)`.
    if let Ok(script) = host.read_text(&source.join("CMakeLists.txt")) {
        for name in &abi.defines {
            found.extend(passed(&script, name).map(|value| (name.clone(), value)));
        }
    }
    let of = |place: &VersionPlace| version(&host.read_text(&source.join(&place.file)).ok()?, &place.prefix);
    found.extend(abi.version.iter().find_map(of).map(|version| (VERSION.to_owned(), version)));
    found
}

/// What differs.
#[must_use]
pub fn differences(ours: &InterfaceValues, theirs: &InterfaceValues) -> Vec<InterfaceDifference> {
    let both = ours.iter().filter_map(|(name, value)| Some((name, value, theirs.get(name)?)));
    both.filter(|(_, ours, theirs)| ours != theirs)
        .map(|(name, ours, theirs)| InterfaceDifference {
            name: name.clone(),
            ours: ours.clone(),
            theirs: theirs.clone(),
        })
        .collect()
}

/// The value of `-DNAME=value` or `NAME=value` among definitions of a script, outside of comments.
fn passed(script: &str, name: &str) -> Option<String> {
    script.lines().filter(|line| !line.trim_start().starts_with('#')).find_map(|line| {
        let (before, rest) = line.split_once(&format!("{name}="))?;
        let whole = before.ends_with("-D") || before.ends_with([' ', '"', '(', '\t']);
        let value: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        (whole && !value.is_empty()).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::profile::Profile;
    use gpubuild_host::{Arch, HostInfo, Os, RecordedHost};

    fn sources(name: u32, minor: u32, script: &str) -> InterfaceValues {
        let header = format!(
            "#define GGML_MAX_DIMS 4\n#ifndef GGML_MAX_NAME\n#   define GGML_MAX_NAME        {name}\n#endif\n"
        );
        let version = format!(
            "set(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR {minor})\nset(GGML_VERSION_PATCH 5)\n"
        );
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/s/ggml/include/ggml.h", &header)
            .file("/s/ggml/CMakeLists.txt", &version)
            .file("/s/CMakeLists.txt", script)
            .build();
        let profile = Profile::builtin("whisper").unwrap();
        interface(&host, &host.path("/s"), profile.abi.as_ref())
    }

    fn told(ours: &InterfaceValues, theirs: &InterfaceValues) -> Vec<String> {
        differences(ours, theirs).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn constants_and_versions_are_read_from_the_sources() {
        let found = sources(64, 9, "project(x)\n");
        assert_eq!((found["GGML_MAX_NAME"].as_str(), found["version"].as_str()), ("64", "0.9.5"));
        assert!(differences(&found, &sources(64, 9, "")).is_empty());
        assert_eq!(told(&found, &sources(64, 25, "")), ["version is 0.9.5 and 0.25.5"]);
    }

    #[test]
    fn a_projects_own_definition_wins_over_the_header() {
        let found = sources(64, 9, "# -DGGML_MAX_NAME=1\n    add_definitions(-DGGML_MAX_NAME=128)\n");
        assert_eq!(found["GGML_MAX_NAME"], "128");
        assert_eq!(told(&sources(64, 9, ""), &found), ["GGML_MAX_NAME is 64 and 128"]);
    }
}
