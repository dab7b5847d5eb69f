//! What the store has for a tree, and why it has nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use super::key::KeyDifference;

/// Whether a tree is in the store.
#[derive(Debug, Serialize)]
pub struct TreeExplanation {
    /// Tree.
    pub tree: String,
    /// Its key; absent if what it depends on cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether a build would take it from the store.
    pub hit: bool,
    /// Folder of the entry, or why there is none.
    pub what: String,
    /// What the key is compared with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// The parts that differ from it.
    pub different: Vec<KeyDifference>,
    /// The hash of each part.
    pub parts: BTreeMap<String, String>,
}
