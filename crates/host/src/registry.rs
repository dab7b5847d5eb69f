//! Values of the Windows registry.

use serde::{Deserialize, Serialize};

/// The supported value types; values of other types are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryType {
    /// A string.
    #[default]
    Sz,
    /// A 32-bit number, or a 64-bit one (`REG_QWORD`).
    Dword,
    /// A list of strings.
    MultiSz,
}

/// A registry value, converted to text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryValue {
    /// The type.
    pub kind: RegistryType,
    /// The text: numbers in decimal, lists with one string per line.
    pub text: String,
}
