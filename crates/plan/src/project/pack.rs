//! `[pack]` of gpubuild.toml: additional files of a release, and the check of the program.

use serde::Deserialize;

/// `[pack]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackTable {
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
}
