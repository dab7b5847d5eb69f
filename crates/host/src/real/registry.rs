//! The Windows registry; empty on other systems.

use crate::RegistryValue;

#[cfg(windows)]
mod platform {
    use winreg::RegKey;
    use winreg::enums::{
        HKEY_CLASSES_ROOT, HKEY_CURRENT_USER, HKEY_LOCAL_MACHINE, HKEY_USERS, REG_DWORD, REG_EXPAND_SZ,
        REG_MULTI_SZ, REG_QWORD, REG_SZ,
    };

    use crate::{RegistryType, RegistryValue};
    use gpubuild_core::order::SortIndirect as _;

    fn open(key: &str) -> Option<RegKey> {
        let (hive, path) = key.split_once('\\').unwrap_or((key, ""));
        let hive = match hive.to_ascii_uppercase().as_str() {
            "HKLM" | "HKEY_LOCAL_MACHINE" => HKEY_LOCAL_MACHINE,
            "HKCU" | "HKEY_CURRENT_USER" => HKEY_CURRENT_USER,
            "HKCR" | "HKEY_CLASSES_ROOT" => HKEY_CLASSES_ROOT,
            "HKU" | "HKEY_USERS" => HKEY_USERS,
            _ => return None,
        };
        RegKey::predef(hive).open_subkey(path).ok()
    }

    fn convert(value: &winreg::RegValue<'_>) -> Option<RegistryValue> {
        let kind = match value.vtype {
            REG_SZ | REG_EXPAND_SZ => RegistryType::Sz,
            REG_MULTI_SZ => RegistryType::MultiSz,
            REG_DWORD | REG_QWORD => RegistryType::Dword,
            _ => return None,
        };
        Some(RegistryValue { kind, text: value.to_string() })
    }

    pub(in crate::real) fn value(key: &str, name: &str) -> Option<RegistryValue> {
        convert(&open(key)?.get_raw_value(name).ok()?)
    }

    pub(in crate::real) fn keys(key: &str) -> Vec<String> {
        let mut keys: Vec<_> =
            open(key).map(|key| key.enum_keys().filter_map(Result::ok).collect()).unwrap_or_default();
        keys.sort_indirect();
        keys
    }

    pub(in crate::real) fn values(key: &str) -> Vec<(String, RegistryValue)> {
        let Some(key) = open(key) else { return Vec::new() };
        let mut values: Vec<_> = key
            .enum_values()
            .filter_map(Result::ok)
            .filter_map(|(name, value)| Some((name, convert(&value)?)))
            .collect();
        values.sort_indirect_by(|left, right| left.0.cmp(&right.0));
        values
    }
}

#[cfg(not(windows))]
mod platform {
    use crate::RegistryValue;

    pub(in crate::real) fn value(_key: &str, _name: &str) -> Option<RegistryValue> {
        None
    }

    pub(in crate::real) fn keys(_key: &str) -> Vec<String> {
        Vec::new()
    }

    pub(in crate::real) fn values(_key: &str) -> Vec<(String, RegistryValue)> {
        Vec::new()
    }
}

/// Reads a value. `None` if it is missing or has an unsupported type.
pub(super) fn value(key: &str, name: &str) -> Option<RegistryValue> {
    platform::value(key, name)
}

/// Lists the names of the direct subkeys of `key`, sorted.
pub(super) fn keys(key: &str) -> Vec<String> {
    platform::keys(key)
}

/// Lists the names and values of `key`, sorted by name.
pub(super) fn values(key: &str) -> Vec<(String, RegistryValue)> {
    platform::values(key)
}
