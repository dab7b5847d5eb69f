//! Values of CMake cache entries in gpubuild.toml: text, or TOML's own booleans and integers.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Value of a CMake cache entry: `true` is `ON`, `false` is `OFF`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "the value of a CMake cache entry is a string, a boolean or an integer")]
pub(super) enum Entry {
    Text(String),
    Switch(bool),
    Number(i64),
}

/// Reads a table of cache entries as the text that CMake gets.
pub(super) fn cache_entries<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let entries = BTreeMap::<String, Entry>::deserialize(deserializer)?;
    let text = |entry| match entry {
        Entry::Text(text) => text,
        Entry::Switch(true) => "ON".to_owned(),
        Entry::Switch(false) => "OFF".to_owned(),
        Entry::Number(number) => number.to_string(),
    };
    Ok(entries.into_iter().map(|(name, entry)| (name, text(entry))).collect())
}
