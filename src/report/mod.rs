//! The serde structs of every `--json` document, with schema versions. Separate from the values that they show, so that
//! an inner change does not change what others rely on.

pub mod audit;
pub mod bench;
pub mod binary;
pub mod binary_text;
pub mod cache;
pub mod ci;
pub mod detect;
pub mod detect_text;
pub mod doctor;
pub mod doctor_github;
pub mod doctor_junit;
pub mod doctor_markdown;
pub mod doctor_sarif;
#[cfg(test)]
mod doctor_tests;
pub mod doctor_text;
mod doctor_words;
pub mod explain;
pub mod explain_text;
#[cfg(test)]
mod hostile;
pub mod install;
pub mod link;
pub mod markdown;
pub mod new;
pub mod pack;
pub mod packages;
pub mod page;
pub mod plan;
pub mod reference;
pub mod resolve;
pub mod resolvers;
pub mod resolvers_text;
pub mod test;
pub mod timings;
pub mod toolkit;
pub mod venv;
pub mod words;

use serde::Serialize;

/// Name and version of a document, its first key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Schema {
    /// `detect`, `plan`, `link`, `test`.
    pub name: &'static str,
    /// Raised when a key is removed or changes its meaning; new keys do not raise it.
    pub version: u32,
}
