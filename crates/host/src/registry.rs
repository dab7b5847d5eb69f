//! Values of the Windows registry.

use serde::{Deserialize, Serialize};

/// The types that are read; others are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryType {
    /// Text.
    #[default]
    Sz,
    /// A number; those of 64 bits (`REG_QWORD`) are read as one too.
    Dword,
    /// Several texts.
    MultiSz,
}

/// A value as text: numbers in decimal, several texts one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryValue {
    /// Its type.
    pub kind: RegistryType,
    /// Its text.
    pub text: String,
}
