//! Reports: the serde types of every `--json` document, and the text that is rendered from them. The types are separate from the internal
//! ones, so that internal changes do not change the documents. `docs/reference/schemas/` has their JSON schemas.

pub mod audit;
pub mod bench;
pub mod binary;
pub mod binary_text;
pub mod cache;
pub mod ci;
pub mod ci_files;
pub mod ci_images;
pub mod clean;
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
pub mod estimate;
pub mod explain;
pub mod explain_text;
pub mod export;
pub mod fetch;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod hostile_samples;
pub mod install;
pub mod link;
pub mod man;
pub mod markdown;
pub mod new;
pub mod pack;
pub mod packages;
pub mod page;
pub mod plan;
#[cfg(test)]
mod project_schema;
pub mod recording;
pub mod reference;
pub mod remote;
pub mod resolve;
pub mod resolvers;
pub mod resolvers_text;
pub mod rows;
#[cfg(test)]
mod schemas;
pub mod setup;
pub mod test;
pub mod timings;
pub mod toolkit;
pub mod toolkit_lock;
pub mod toolkit_packages;
pub mod venv;
pub mod wheels;
pub mod words;

use serde::Serialize;

/// Name and version of a document's format; its first key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Schema {
    /// Name of the format.
    pub name: &'static str,
    /// Version of the format. Increases when a key is removed or changes its meaning, but not when a key is added.
    pub version: u32,
}
