//! Other projects whose libraries are linked into the same program, and differences between their interfaces.

use std::collections::BTreeMap;

use gpubuild_host::{HostPath, ReadFiles};
use serde::{Deserialize, Serialize};

use super::abi::{default_of, version};
use super::profile::{Abi, VersionPlace};

/// How to handle symbols that two projects define.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SameSymbols {
    /// Refuse to build the program.
    #[default]
    Refuse,
    /// Add a prefix to the symbols of the other project.
    Prefix,
    /// Hide the symbols of the other project in a shared library.
    Dynamic,
    /// Link this project with the other project's library in place of its own copy.
    Shared,
}

impl SameSymbols {
    /// The value in gpubuild.toml.
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

/// Another project whose libraries are linked into the same program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct With {
    /// Its name.
    pub name: String,
    /// Folder that contains its gpubuild.toml.
    pub folder: HostPath,
    /// Path of its artifact manifest.
    pub manifest: HostPath,
    /// How to handle symbols that both projects define.
    pub same_symbols: SameSymbols,
    /// The library of the other project that this one uses, if gpubuild.toml sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Differences between the two copies of a library that both projects contain.
    pub differences: Vec<InterfaceDifference>,
}

/// A definition or version that differs between two copies of a library. Displayed as `GGML_MAX_NAME is 64 and 128`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceDifference {
    /// Name of the definition, or [`VERSION`].
    pub name: String,
    /// Value in this project.
    pub ours: String,
    /// Value in the other project.
    pub theirs: String,
}

impl std::fmt::Display for InterfaceDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {} and {}", self.name, self.ours, self.theirs)
    }
}

#[cfg(feature = "schema")]
gpubuild_core::string_schema!(InterfaceDifference);

impl Serialize for InterfaceDifference {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Key of the version in [`InterfaceValues`].
pub const VERSION: &str = "version";

/// The version of a library and the definitions that affect the layout of its structures.
pub type InterfaceValues = BTreeMap<String, String>;

/// Reads the interface from a project's sources. Empty if the profile has no `abi`, or if the sources do not contain the
/// library.
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
    // Definitions of the project's CMake script override the header: `add_definitions(-DGGML_MAX_NAME=128)`.
    if let Ok(script) = host.read_text(&source.join("CMakeLists.txt")) {
        for name in &abi.defines {
            found.extend(definition(&script, name).map(|value| (name.clone(), value)));
        }
    }
    let of = |place: &VersionPlace| version(&host.read_text(&source.join(&place.file)).ok()?, &place.prefix);
    found.extend(abi.version.iter().find_map(of).map(|version| (VERSION.to_owned(), version)));
    found
}

/// The values that both interfaces have and that differ.
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

/// The value of `-DNAME=value` or `NAME=value` in a CMake script, ignoring comments.
fn definition(script: &str, name: &str) -> Option<String> {
    script.lines().filter(|line| !line.trim_start().starts_with('#')).find_map(|line| {
        let (before, rest) = line.split_once(&format!("{name}="))?;
        let is_complete_name = before.ends_with("-D") || before.ends_with([' ', '"', '(', '\t']);
        let value: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        (is_complete_name && !value.is_empty()).then_some(value)
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

    fn difference_lines(ours: &InterfaceValues, theirs: &InterfaceValues) -> Vec<String> {
        differences(ours, theirs).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn constants_and_versions_are_read_from_the_sources() {
        let found = sources(64, 9, "project(x)\n");
        assert_eq!((found["GGML_MAX_NAME"].as_str(), found["version"].as_str()), ("64", "0.9.5"));
        assert!(differences(&found, &sources(64, 9, "")).is_empty());
        assert_eq!(difference_lines(&found, &sources(64, 25, "")), ["version is 0.9.5 and 0.25.5"]);
    }

    #[test]
    fn definition_in_the_script_overrides_the_header() {
        let found = sources(64, 9, "# -DGGML_MAX_NAME=1\n    add_definitions(-DGGML_MAX_NAME=128)\n");
        assert_eq!(found["GGML_MAX_NAME"], "128");
        assert_eq!(difference_lines(&sources(64, 9, ""), &found), ["GGML_MAX_NAME is 64 and 128"]);
    }
}
