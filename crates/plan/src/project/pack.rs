//! `[pack]` of gpubuild.toml: what is packed beside the program, and how the program proves itself.

use serde::Deserialize;

/// `[pack]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackTable {
    /// Arguments with which the program ends well if and only if a backend works; `{backend}` stands for its id.
    #[serde(default)]
    pub check: Vec<String>,
    /// Files that come along, relative to the file, `*` for any text: they go to `share/<project>/`.
    #[serde(default)]
    pub include: Vec<String>,
    /// Further licences, in the same way.
    #[serde(default)]
    pub licences: Vec<String>,
    /// Names of libraries that are left to the machine: `libz.so.*`.
    #[serde(default)]
    pub leave: Vec<String>,
    /// The variant where nothing else suits; the plainest one without it.
    pub default: Option<String>,
}
