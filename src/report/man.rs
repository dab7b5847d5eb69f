//! The document of `gpubuild man --out`, and its text.

use gpubuild_core::order::SortIndirect as _;
use serde::Serialize;

use super::Schema;

/// The document of `man --out DIR --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ManReport {
    schema: Schema,
    /// The folder.
    folder: String,
    /// The pages in it: `gpubuild.1`, `gpubuild-build.1`.
    files: Vec<String>,
}

impl ManReport {
    /// The document of the pages in a folder.
    #[must_use]
    pub fn new(folder: String, mut files: Vec<String>) -> Self {
        files.sort_indirect();
        Self { schema: Schema { name: "man", version: 1 }, folder, files }
    }

    /// One line.
    #[must_use]
    pub fn text(&self) -> String {
        format!("wrote {} pages to {}", self.files.len(), self.folder)
    }
}
