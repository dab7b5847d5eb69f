//! Values of the Windows registry.

use serde::{Deserialize, Serialize};

/// The types that are read; values of other types are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryType {
    /// Text.
    #[default]
    Sz,
    /// A number of 32 or (`REG_QWORD`) 64 bits.
    Dword,
    /// A list of texts.
    MultiSz,
}

/// A value as text: numbers in decimal, lists with one text per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryValue {
    /// Its type.
    pub kind: RegistryType,
    /// Its text.
    pub text: String,
}
