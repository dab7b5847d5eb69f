//! The document of `gpubuild clean`, and its text.

use gpubuild_exec::exec::folder::FolderContent;
use gpubuild_plan::plan::bytes;
use serde::Serialize;

use super::Schema;

/// The document of `clean --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CleanReport {
    schema: Schema,
    /// The build folder.
    folder: String,
    /// Whether there was anything to remove.
    removed: bool,
    /// Number of removed files.
    files: u64,
    /// Total size of the removed files in bytes.
    bytes: u64,
}

impl CleanReport {
    /// The document of a build folder with the content that was removed; `None` if the folder did not exist.
    #[must_use]
    pub fn new(folder: String, removed: Option<FolderContent>) -> Self {
        let FolderContent { files, bytes } = removed.unwrap_or_default();
        Self {
            schema: Schema { name: "clean", version: 1 },
            folder,
            removed: removed.is_some(),
            files,
            bytes,
        }
    }

    /// One line.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { folder, files, .. } = self;
        let noun = if *files == 1 { "file" } else { "files" };
        if self.removed {
            format!("removed {folder} ({files} {noun}, {})", bytes::show(self.bytes))
        } else {
            format!("nothing to remove: {folder} does not exist")
        }
    }
}
