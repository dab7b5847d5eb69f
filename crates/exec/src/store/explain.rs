//! Explains whether the build store has a result for a tree.

use std::collections::BTreeMap;

use serde::Serialize;

use super::key::KeyDifference;

/// Whether the shared store has a usable result for a tree, and why not.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoteExplanation {
    /// The shared store.
    pub store: String,
    /// Whether a build would download the result.
    pub hit: bool,
    /// Why not; empty for a hit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Bytes that a build would download, compressed.
    pub bytes: u64,
}

/// Whether the store has a usable result for a tree, and why not.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeExplanation {
    /// Id of the tree.
    pub tree: String,
    /// Its key; absent if its dependencies cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether a build would restore it from the store.
    pub hit: bool,
    /// Folder of the entry, or why no entry can be used.
    pub what: String,
    /// The level of the store that has a usable result: `local` or `remote`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<&'static str>,
    /// The shared store and what it has, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteExplanation>,
    /// The build whose key is compared; empty without such a build.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// The parts of the key that differ from that build.
    pub different: Vec<KeyDifference>,
    /// The hash of each part of the key.
    pub parts: BTreeMap<String, String>,
}
