//! Operating systems as values, so that a recorded Windows host works on Linux.

use serde::{Deserialize, Serialize};

/// The operating system of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// Any Linux distribution, WSL included.
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl Os {
    /// The id in JSON and recordings.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
            Self::Macos => "macos",
        }
    }

    /// The display name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
            Self::Macos => "macOS",
        }
    }
}
