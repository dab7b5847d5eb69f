//! `[pack]` of gpubuild.toml: additional files of a release, and the check of the program.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use serde::Deserialize;

/// `[pack]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackTable {
    /// Whether a release contains the libraries with their headers, a CMake package and a file for pkg-config, instead of a program, as
    /// with `gpubuild pack --libraries`.
    #[serde(default)]
    pub libraries: bool,
    /// Version of the release; by default that of the cargo package.
    pub version: Option<String>,
    /// Arguments with which the program exits with 0 if and only if a backend works. `{backend}` is replaced with its id.
    #[serde(default)]
    pub check: Vec<String>,
    /// Additional files, relative to gpubuild.toml, with `*` as a wildcard: `models/*.gguf`. They are packed into `share/NAME/`.
    #[serde(default)]
    pub include: Vec<String>,
    /// Additional licence files, in the same notation.
    #[serde(default)]
    pub licences: Vec<String>,
    /// Libraries that are not packed, because the machine provides them: `libz.so.*`.
    #[serde(default)]
    pub leave: Vec<String>,
    /// Name of the variant for machines that no other variant fits; by default the one with the fewest requirements.
    pub default: Option<String>,
    /// GPU backends that `gpubuild resolve` and `install` prefer to all others for this program, best first: `["vulkan"]`. A choice of the
    /// user has precedence.
    #[serde(default, deserialize_with = "preference")]
    pub prefer: Vec<Backend>,
}

fn preference<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Backend>, D::Error> {
    let backends = Vec::<Backend>::deserialize(from)?;
    check_preference(&backends).map_err(serde::de::Error::custom)?;
    Ok(backends)
}

/// Checks a publisher's order of backends.
///
/// # Errors
/// The list contains a backend twice, or the CPU, which is always the last.
pub fn check_preference(backends: &[Backend]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for backend in backends {
        if *backend == Backend::Cpu {
            return Err("`cpu` cannot be preferred; it is used if no GPU backend fits".to_owned());
        }
        if !seen.insert(*backend) {
            return Err(format!("`{backend}` is listed twice"));
        }
    }
    Ok(())
}
