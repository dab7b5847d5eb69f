//! Architecture, platform and user identity of a host.

pub use gpubuild_core::Os;
use serde::{Deserialize, Serialize};

use super::PathRules;

/// The CPU architecture of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Arch {
    /// 64-bit x86.
    #[serde(rename = "x86_64")]
    X86_64,
    /// 64-bit ARM.
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Arch {
    /// The id in JSON and recordings.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// Operating system and architecture of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Platform {
    /// Operating system.
    pub os: Os,
    /// Architecture.
    pub arch: Arch,
}

impl Platform {
    /// The path syntax of this platform.
    #[must_use]
    pub fn path_rules(self) -> PathRules {
        match self.os {
            Os::Windows => PathRules::Windows,
            Os::Linux | Os::Macos => PathRules::Unix,
        }
    }
}

/// The user and groups of the process. Empty on Windows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Numeric user id.
    pub uid: Option<u32>,
    /// Numeric ids of all groups, including the primary one.
    #[serde(default)]
    pub groups: Vec<u32>,
}
