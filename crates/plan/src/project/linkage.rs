//! `linkage` of `[project]` in gpubuild.toml.

use serde::{Deserialize, Serialize};

/// How a program links a project's libraries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Linkage {
    /// Static libraries.
    #[default]
    Static,
    /// Shared libraries that the program is linked with.
    Shared,
    /// Shared base libraries, and a module per backend that the program loads at run time.
    Dynamic,
}

impl Linkage {
    /// The value in gpubuild.toml and on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Shared => "shared",
            Self::Dynamic => "dynamic",
        }
    }

    /// Whether static libraries are built.
    #[must_use]
    pub fn is_static(&self) -> bool {
        *self == Self::Static
    }
}
