//! `[project] linkage`: in the program, beside it, or opened by it.

use serde::{Deserialize, Serialize};

/// Kinds of linkage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Linkage {
    /// Archives: everything is in the program.
    #[default]
    Static,
    /// Shared libraries that the program names.
    Shared,
    /// Shared libraries, and every backend a module that the program opens while it runs.
    Dynamic,
}

impl Linkage {
    /// The word in gpubuild.toml and on the command line.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Shared => "shared",
            Self::Dynamic => "dynamic",
        }
    }

    /// Whether archives are built.
    #[must_use]
    pub fn is_static(&self) -> bool {
        *self == Self::Static
    }
}
