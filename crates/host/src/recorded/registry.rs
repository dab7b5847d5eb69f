//! A registry in memory. Keys and names are case-insensitive; keys above a recorded one are implied.

use std::collections::BTreeMap;

use gpubuild_core::order::SortIndirect as _;

use super::RecordedKey;
use crate::RegistryValue;

#[derive(Debug, Clone, Default)]
pub(super) struct RecordedRegistry {
    keys: BTreeMap<String, RegistryKey>,
}

#[derive(Debug, Clone, Default)]
struct RegistryKey {
    /// Names and values, by case-folded name.
    values: BTreeMap<String, (String, RegistryValue)>,
    /// Names of subkeys, by case-folded name.
    children: BTreeMap<String, String>,
}

impl RecordedRegistry {
    /// Adds a key. Fails with a message if it contradicts an earlier entry.
    pub(super) fn insert(&mut self, recorded: &RecordedKey) -> Result<(), String> {
        let names = pieces(&recorded.key);
        if names.is_empty() {
            return Err("the key is empty".to_owned());
        }
        for depth in 1..=names.len() {
            self.keys.entry(folded(&names[..depth])).or_default();
            if depth < names.len() {
                let child = names[depth];
                let parent = self.keys.entry(folded(&names[..depth])).or_default();
                parent.children.entry(child.to_lowercase()).or_insert_with(|| child.to_owned());
            }
        }
        let Some((name, value)) = &recorded.value else { return Ok(()) };
        let key = self.keys.entry(folded(&names)).or_default();
        let before = key.values.insert(name.to_lowercase(), (name.clone(), value.clone()));
        match before {
            Some((_, other)) if other != *value => {
                Err(format!("`{name}` is recorded twice with different values"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        let key = self.keys.get(&folded(&pieces(key)))?;
        key.values.get(&name.to_lowercase()).map(|(_, value)| value.clone())
    }

    pub(super) fn keys(&self, key: &str) -> Vec<String> {
        let key = self.keys.get(&folded(&pieces(key)));
        let mut names: Vec<String> =
            key.map(|key| key.children.values().cloned().collect()).unwrap_or_default();
        names.sort_indirect();
        names
    }

    pub(super) fn values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        let key = self.keys.get(&folded(&pieces(key)));
        let mut values: Vec<_> = key.map(|key| key.values.values().cloned().collect()).unwrap_or_default();
        values.sort_indirect_by(|left: &(String, RegistryValue), right| left.0.cmp(&right.0));
        values
    }
}

fn pieces(key: &str) -> Vec<&str> {
    key.split('\\').filter(|name| !name.is_empty()).collect()
}

fn folded(names: &[&str]) -> String {
    let mut names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    if let Some(hive) = names.first_mut() {
        let short = match hive.as_str() {
            "hkey_local_machine" => "hklm",
            "hkey_current_user" => "hkcu",
            "hkey_classes_root" => "hkcr",
            "hkey_users" => "hku",
            _ => return names.join("\\"),
        };
        short.clone_into(hive);
    }
    names.join("\\")
}
