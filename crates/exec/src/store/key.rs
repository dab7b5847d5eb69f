//! Keys of the build store. A key is a hash of named parts with named items, so that differences can be reported.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::secret;
use serde::{Deserialize, Serialize};

use super::sha256;

/// Maximum length of values that are stored as they are. Longer values are hashed.
const LONGEST_SHOWN: usize = 24;

/// All inputs of a result that are known before it is built: items by part, with values or hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyParts(pub BTreeMap<String, BTreeMap<String, String>>);

/// A part of a key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyDifference {
    /// Name of the part: `sources`, `options`, `programs`.
    pub part: String,
    /// The items that differ, such as files or options.
    pub items: Vec<KeyChange>,
}

/// An item of a key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyChange {
    /// Name of the item.
    pub name: String,
    /// Earlier value; absent if the item is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Current value; absent if the item was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

impl KeyParts {
    /// Sets an item.
    pub fn set(&mut self, part: &str, name: impl Into<String>, value: impl Into<String>) {
        self.0.entry(part.to_owned()).or_default().insert(name.into(), value.into());
    }

    /// Sets an item to the hash of a value that must not be stored, such as a possible secret.
    pub fn set_hashed(&mut self, part: &str, name: impl Into<String>, value: &str) {
        self.set(part, name, sha256(value.as_bytes()));
    }

    /// Sets an item to its value if that is short and certainly not a secret, otherwise to its hash.
    pub fn set_shown(&mut self, part: &str, name: &str, value: &str) {
        if value.len() <= LONGEST_SHOWN && secret::redact(&format!("{name}={value}")).kinds.is_empty() {
            self.set(part, name, value);
        } else {
            self.set_hashed(part, name, value);
        }
    }

    /// Returns the hash of each part.
    ///
    /// # Panics
    /// Never: plain data always serialises.
    #[must_use]
    pub fn hashes(&self) -> BTreeMap<String, String> {
        let hash = |items: &BTreeMap<String, String>| {
            sha256(&serde_json::to_vec(items).expect("plain data serialises"))
        };
        self.0.iter().map(|(name, items)| (name.clone(), hash(items))).collect_map()
    }

    /// Returns the key: a hash of the hashes of all parts.
    ///
    /// # Panics
    /// Never: plain data always serialises.
    #[must_use]
    pub fn key(&self) -> String {
        sha256(&serde_json::to_vec(&self.hashes()).expect("plain data serialises"))
    }

    /// Returns the differences to an earlier state, sorted by part and item.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<KeyDifference> {
        let nothing = BTreeMap::new();
        let names: std::collections::BTreeSet<&String> = self.0.keys().chain(before.0.keys()).collect_set();
        let mut found = Vec::new();
        for part in names {
            let (was, is) = (before.0.get(part).unwrap_or(&nothing), self.0.get(part).unwrap_or(&nothing));
            let items: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect_set();
            let items: Vec<KeyChange> = items
                .into_iter()
                .filter(|name| was.get(*name) != is.get(*name))
                .map(|name| KeyChange {
                    name: name.clone(),
                    before: was.get(name).cloned(),
                    now: is.get(name).cloned(),
                })
                .collect();
            if !items.is_empty() {
                found.push(KeyDifference { part: part.clone(), items });
            }
        }
        found
    }
}

impl KeyDifference {
    /// Formats the difference with at most three items: ``sources: `ggml.c` changed, `new.c` is new``.
    #[must_use]
    pub fn line(&self) -> String {
        const SHOWN: usize = 3;
        let mut items: Vec<String> = self.items.iter().take(SHOWN).map(KeyChange::describe).collect();
        if self.items.len() > SHOWN {
            items.push(format!("{} more", self.items.len() - SHOWN));
        }
        format!("{}: {}", self.part, items.join(", "))
    }
}

impl KeyChange {
    fn describe(&self) -> String {
        // Hashes are not shown.
        let is_short = |text: &String| text.len() < 48 && !text.is_empty();
        match (&self.before, &self.now) {
            (Some(before), Some(now)) if is_short(before) && is_short(now) => {
                format!("`{}` changed from `{before}` to `{now}`", self.name)
            }
            (Some(_), Some(_)) => format!("`{}` changed", self.name),
            (None, _) => format!("`{}` is new", self.name),
            (Some(_), None) => format!("`{}` was removed", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_described() {
        let mut before = KeyParts::default();
        before.set("options", "X", "ON");
        before.set("sources", "a.c", "0".repeat(64));
        let mut now = before.clone();
        assert!(now.since(&before).is_empty() && now.key() == before.key());
        now.set("options", "X", "OFF");
        now.set("sources", "b.c", "1".repeat(64));
        let lines: Vec<String> = now.since(&before).iter().map(KeyDifference::line).collect();
        assert_eq!(lines, ["options: `X` changed from `ON` to `OFF`", "sources: `b.c` is new"]);
        assert_ne!(now.key(), before.key());
    }
}
